"""Evaluating a translator: scores are sacreBLEU's, perplexity is the model's own, comparisons and pages agree."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sacrebleu
import torch

import regard
from regard.attention.masks import Grid
from regard.interpret.draw import curves, plots, side_by_side
from regard.interpret.draw.side_by_side import ORDERS, Row, mark_differences, page
from regard.tasks.translation import evaluation
from regard.tasks.translation.evaluation import compare, evaluate, judge
from regard.tasks.translation.teacher_forcing import likelihood, score_tokens
from regard.tasks.translation.translator import Translator
from tests.conftest import sentences

PAIRS = sentences()[:40]
SOURCES, REFERENCES = ([pair[side] for pair in PAIRS] for side in (0, 1))


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained, device="cpu")


@pytest.fixture(scope="module")
def own(translator: Translator) -> evaluation.Evaluation:
    return evaluate(translator, PAIRS, beams=1, name="model")


@pytest.fixture(scope="module")
def other() -> evaluation.Evaluation:
    return judge("worse & <i>", [text.replace("The", "A").replace("cat", "dog") for text in REFERENCES], PAIRS)


@pytest.fixture(scope="module")
def both(own, other) -> evaluation.Comparison:
    return compare([own, other], samples=100, trials=200)


def test_answers_and_scores_are_the_translators_and_sacrebleus(translator, own):
    assert own.answers == translator.translate(SOURCES, beams=1)
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF()), ("ter", sacrebleu.TER())):
        assert own.scores[name].value == pytest.approx(metric.corpus_score(own.answers, [REFERENCES]).score)
        assert own.scores[name].signature == str(metric.get_signature())
    assert own.ratio == pytest.approx(1.0, abs=0.05)
    assert 0 < own.seconds < 60


@torch.no_grad()
def test_perplexity_is_that_of_reading_every_pair_by_itself(translator, own):
    total, tokens = 0.0, 0
    for source, reference in PAIRS[:5]:
        read, written = [*translator.source.encode(source), translator.end], translator.target.encode(reference)
        grids = tuple(Grid(torch.tensor([len(side)]), len(side)) for side in (read, [translator.begin, *written]))
        features = translator.model(torch.tensor([read]), torch.tensor([[translator.begin, *written]]), layouts=grids)
        truth = translator.model.logits(features).log_softmax(-1)[0]
        total -= sum(float(truth[place, token]) for place, token in enumerate([*written, translator.end]))
        tokens += len(written) + 1
    found = likelihood(translator, SOURCES[:5], REFERENCES[:5])
    assert (found.total, found.tokens) == (pytest.approx(total, rel=1e-4), tokens)
    assert found.characters == sum(len(text) + 1 for text in REFERENCES[:5])
    assert found.perplexity == pytest.approx(math.exp(total / tokens), rel=1e-4)
    assert found.bits == pytest.approx(math.log2(found.per_character))
    assert 1 < own.likelihood.per_character < own.likelihood.perplexity


def test_forced_scores_of_its_own_answers_are_the_searchs(translator):
    read = [translator.encode(text, None) for text in SOURCES[:6]]
    found = [each[0] for each in translator.hypotheses(read, range(6), translator.decoding)]
    scores = dict(score_tokens(translator, read, [one.tokens for one in found]))
    assert [float(scores[i].sum()) for i in range(6)] == pytest.approx([one.score for one in found], abs=1e-3)


def test_pairs_longer_than_the_model_are_counted_and_left_out_of_the_perplexity(translator):
    endless = "Le roi dort. " * 400
    found = likelihood(translator, [SOURCES[0], endless], [REFERENCES[0], "x"])
    assert (found.texts, found.passed_over) == (1, 1)
    assert likelihood(translator, [endless], ["x"]) is None
    told = dict(evaluate(translator, [PAIRS[0], (endless, "x")], beams=1, ratio=0.1).lines())
    assert "1 pair too long" in told["perplexity"]


def test_the_worst_come_first_and_a_perfect_answer_last(other):
    worst = other.worst(len(PAIRS))
    assert [one.chrf for one in worst] == sorted(one.chrf for one in worst)
    assert worst[0].answer != worst[0].reference
    assert all(SOURCES[one.number - 1] == one.source for one in worst)


def test_an_evaluation_is_json_and_a_table(own, other):
    told = json.loads(json.dumps(own.plain()))
    assert told["bleu"]["score"] == own.scores["bleu"].value
    assert told["sentences"] == len(PAIRS) == sum(bucket["sentences"] for bucket in told["by_length"])
    assert told["perplexity"]["token"] == own.likelihood.perplexity
    assert len(told["worst"]) == 5
    assert "perplexity" not in other.plain()
    assert {label for label, _ in other.lines()} >= {"system", "BLEU", "chrF", "TER", "length ratio"}
    assert f"BLEU {other.scores['bleu'].signature}" in other.signatures()
    alone = dict(judge("one", [PAIRS[0][1]], PAIRS[:1]).lines())
    assert [told for label, told in alone.items() if label.startswith("BLEU, ")] == ["100.0  1 sentence"]


def test_a_clear_difference_is_significant_by_both_tests_and_json(both):
    for told in (both.bootstrap, both.randomisation):
        assert all(verdicts[1].p < 0.05 for verdicts in told.values())
    assert {entry["test"] for entry in json.loads(json.dumps(both.plain()))["tests"]} == {"bootstrap", "randomisation"}
    head, *rows = both.lines()
    assert len(rows) == 6
    assert [len(one["worst"]) for one in both.plain(worst=2)["systems"]] == [2, 2]
    assert {len(row) for row in rows} == {len(head)}


def test_systems_of_one_name_stay_apart_and_other_test_sets_are_refused(own, other):
    again = compare([own, own], samples=10, trials=10)
    assert [verdict.system for verdict in again.bootstrap["bleu"]] == ["model", "model (2)"]
    with pytest.raises(ValueError, match="one test set"):
        compare([own, judge("x", ["a"], [("b", "c")])])
    with pytest.raises(ValueError, match="at least two"):
        compare([own])
    with pytest.raises(ValueError, match="no pairs"):
        judge("x", [], [])


class Reader(HTMLParser):
    """Reads a page as a browser does: text, tags, and whatever would leave the file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.outside += [value for name, value in attributes if name in ("src", "href", "action", "data", "srcset")]

    def handle_data(self, data):
        self.data.append(data)


def test_the_page_shows_every_answer_escaped_and_asks_nobody(both):
    text = evaluation.page(both)
    reader = Reader(text)
    shown = "".join(reader.data)
    for system in both.systems:
        assert all(answer in shown for answer in system.answers)
        assert system.name in shown
    assert reader.tags.count("article") == len(PAIRS)
    assert not {"script", "i", "link", "img"} & set(reader.tags)
    assert not reader.outside
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_rows_are_ranked_for_every_order_and_the_most_alike_left_out_first():
    rows = [
        Row(n, "s", "r", ("a", "b"), scores)
        for n, scores in enumerate([(10.0, 20.0), (50.0, 10.0), (5.0, 5.0), (90.0, 95.0)])
    ]
    text = page(("one", "two"), rows, most=3)
    assert "the 1 most alike are left out" in text
    for name, expected in (
        ("difference", [1, 0, 3]),
        ("second", [0, 3, 1]),
        ("first", [1, 3, 0]),
        ("number", [0, 1, 3]),
    ):
        found = re.findall(rf'style="[^"]*--{name}:(\d+)[^"]*"><h2>(\d+) ', text)
        assert [int(number) for _, number in sorted(found, key=lambda pair: int(pair[0]))] == expected
        assert f"#by-{name}:checked ~ .rows > article" in text
    assert set(ORDERS) >= {"difference", "number"}


def test_words_that_only_one_has_are_marked_by_whether_the_reference_has_them(monkeypatch):
    found = mark_differences("The black cat < sleeps.", "The white cat sleeps.", "The black dog sleeps.")
    assert found == 'The <mark class="right">black</mark> cat <mark class="wrong">&lt;</mark> sleeps.'
    assert mark_differences("a & b", "a & b", "c") == "a &amp; b"
    monkeypatch.setattr(side_by_side, "_common", lambda *_: pytest.fail("a quadratic search in a long text"))
    assert mark_differences("a b " * 5000, "b a " * 5000, "") == "a b " * 5000


def test_the_curve_by_length_is_drawn_with_its_numbers(own, other, tmp_path: Path):
    figure = curves.by_length({"model": own.lengths, "$other$": other.lengths}, title="by length")
    upper, lower = figure.axes
    drawn = [list(container.lines[0].get_ydata()) for container in upper.containers]
    for (many, few), system in zip(zip(drawn[::2], drawn[1::2], strict=True), (own, other), strict=True):
        assert many == [bucket.score for bucket in system.lengths if len(bucket.members) >= curves.FEW]
        assert few == [bucket.score for bucket in system.lengths if len(bucket.members) < curves.FEW]
    assert [bar.get_height() for bar in lower.patches] == [len(bucket.members) for bucket in own.lengths]
    for name in ("a.png", "a.svg"):
        plots.save(figure, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(ValueError, match="no scores to draw"):
        curves.by_length({})
