"""Searches as trees and forced beginnings of every family that writes: the winner is the answer, and can be forced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.decoding.exchange import run_exchange
from regard.decoding.search_tree import SearchTree
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.tasks.translation.translator import Translator
from tests.data.images.drawing import fill
from tests.tasks.images import captioning
from tests.tasks.pretraining.making import made

CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "format-1"
TEXT = "Le chat noir dort."


@dataclass(frozen=True)
class Family:
    """A model that writes, what it reads, and how it answers by the search that its tree shows."""

    trained: Any
    given: Any
    answer: Callable[[], tuple[str, float]]
    """The answer and its score."""
    search: dict[str, Any]
    """Options by which the tree is searched as the answer is."""

    def tree(self, **options: Any) -> SearchTree:
        return self.trained.extras["tree"].call(self.given, **{**self.search, **options})


def translator(attention: str | None, cell: str = "gru") -> Family:
    known = regard.load(CHECKPOINT, device="cpu")
    trained = known
    if attention is not None:
        torch.manual_seed(1)
        shape = Seq2SeqConfig(
            vocab=known.source.vocab, width=16, embedding=16, attention=attention, cell=cell, context=64
        )
        model = Seq2Seq(shape).eval()
        for number in model.parameters():
            torch.nn.init.normal_(number, std=0.4)
        trained = Translator(model, (known.source, known.target), known.decoding, "small")

    def answer() -> tuple[str, float]:
        [best] = trained.answers([TEXT], copy="none", truecase=False, beams=3)
        return best.text, best.score

    return Family(trained, TEXT, answer, {"beams": 3})


def restorer() -> Family:
    trained = made("span-corruption").restorer()
    given = "ol<extra_id_0>olf"

    def answer() -> tuple[str, float]:
        [best] = trained.answer([given], beams=3, length=8)
        return best.answer, best.score

    return Family(trained, given, answer, {"beams": 3, "length": 8})


def captioner(folder: Path) -> Family:
    photos = fill(folder / "photos", 6)
    lines = (f"{path.relative_to(photos)},a {path.parent.name} thing" for path in sorted(photos.rglob("*.png")))
    (photos / "captions.csv").write_text("\n".join(["path,caption", *lines]), encoding="utf-8")
    trained = captioning.prepared(photos).make_writer()
    for number in trained.model.decoder.parameters():
        torch.nn.init.normal_(number, std=0.4)
    given = sorted(photos.rglob("*.png"))[0]

    def answer() -> tuple[str, float]:
        [best] = trained.answer([given], beams=3, longest=8)
        return best.text, best.score

    return Family(trained, given, answer, {"beams": 3, "longest": 8})


def writer() -> Family:
    trained = made("causal-lm", "model.tied=false").writer()

    def answer() -> tuple[str, float]:
        [best] = trained.write("the ", temperature=0.0, samples=1, length=6)
        return best.text, best.score

    return Family(trained, "the ", answer, {"beams": 1, "length": 6})


FAMILIES: dict[str, Callable[[Path], Family]] = {
    "transformer": lambda folder: translator(None),
    "gru": lambda folder: translator("bahdanau"),
    "lstm": lambda folder: translator("luong_general", "lstm"),
    "t5": lambda folder: restorer(),
    "captioner": captioner,
    "gpt": lambda folder: writer(),
}


@pytest.fixture(params=FAMILIES, scope="module")
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    return FAMILIES[request.param](tmp_path_factory.mktemp("family"))


def test_the_winner_of_the_tree_is_the_answer(family: Family):
    tree = family.tree()
    text, score = family.answer()
    assert tree.answer == text
    assert tree.nodes[tree.answers[0]].total == pytest.approx(score, abs=1e-4)
    for place, node in enumerate(tree.nodes):
        assert sum(tree.nodes[step].log_probability for step in tree.path(place)) == pytest.approx(node.total, abs=1e-6)
    pieces = [node.text for node in tree.nodes if node.is_best]
    assert len(pieces) == len(tree.path(tree.answers[0])) + 1


def test_forcing_the_winner_changes_nothing(family: Family):
    free = family.tree()
    forced = family.tree(prefix=tuple(free.tokens(free.answers[0])))
    assert forced.answer == free.answer
    assert forced.nodes[forced.answers[0]].total == pytest.approx(free.nodes[free.answers[0]].total, abs=1e-4)
    assert list(forced.prefix) == free.tokens(free.answers[0])


def test_a_pruned_branch_can_be_forced_and_goes_on(family: Family):
    free = family.tree(beams=2)
    place = next(place for place, node in enumerate(free.nodes) if node.fate == "pruned" and node.step >= 2)
    prefix = tuple(free.tokens(place))
    forced = family.tree(beams=2, prefix=prefix)
    [last] = [number for number, node in enumerate(forced.nodes) if node.step == len(prefix)]
    assert forced.nodes[last].total == pytest.approx(free.nodes[place].total, abs=1e-4)
    assert forced.tokens(forced.answers[0])[: len(prefix)] == list(prefix)


def test_a_look_lists_what_else_could_stand_there_and_can_be_forced(family: Family):
    options = {name: value for name, value in family.search.items() if name in ("length", "longest")}
    if not family.trained.attention_names():
        pytest.skip("it has no attention to look at")
    facts = family.trained.look(family.given, **options).facts
    predictions, begin = facts["predictions"], facts.get("prompt", 0)
    assert len(predictions) == len(facts["written"])
    for prediction, written in zip(predictions, facts["written"], strict=True):
        assert len(prediction["ids"]) == len(prediction["top"]) <= 8
        if prediction["rank"] < len(prediction["ids"]):
            assert prediction["ids"][prediction["rank"]] == written
            assert prediction["top"][prediction["rank"]][1] == pytest.approx(prediction["probability"], abs=1e-6)
    other = next(id for id in predictions[begin]["ids"] if id != facts["written"][begin] and id > 5)
    again = family.trained.look(family.given, **options, prefix=(other,)).facts
    assert again["written"][begin] == other
    assert again["predictions"][begin]["ids"] == predictions[begin]["ids"], "what came before is the same"
    same = family.trained.look(family.given, **options, prefix=tuple(facts["written"][begin:])).facts
    assert same["written"] == facts["written"]
    assert same["answer"] == facts["answer"]


def test_candidates_of_an_answer_sum_to_its_score():
    trained = regard.load(CHECKPOINT, device="cpu")
    facts = trained.look(TEXT).facts
    total = sum(torch.tensor([prediction["probability"] for prediction in facts["predictions"]]).log())
    assert float(total) == pytest.approx(facts["score"], abs=1e-3)


def test_a_gap_lists_its_candidates_in_its_place():
    filler = made("masked-lm").filler()
    facts = filler.look("ol[MASK] wolf").facts
    [place] = [place for place, id in enumerate(facts["read"]) if id == filler.tokenizer.mask]
    assert [entry is not None for entry in facts["predictions"]] == [n == place for n in range(len(facts["read"]))]
    assert facts["predicted"] == "source"
    filled = filler.answer(["ol[MASK] wolf"], top=8)[0]
    top = facts["predictions"][place]["top"]
    assert [share for _, share in top] == pytest.approx([share for _, share in filled.gaps[0]], abs=1e-6)


def test_what_cannot_be_forced_is_said_in_one_line(family: Family):
    tree = family.trained.extras["tree"].call
    with pytest.raises(ValueError, match=r"prefix: token 1000000 is none that the model may write: take the ids"):
        tree(family.given, prefix=(1_000_000,))
    with pytest.raises(ValueError, match=r"prefix of 500 tokens where an answer has \d+ at most: force fewer"):
        tree(family.given, prefix=(7,) * 500)


def test_texts_translated_with_a_forced_beginning_keep_it():
    trained = regard.load(CHECKPOINT, device="cpu")
    tree = trained.tree(TEXT)
    place = next(place for place, node in enumerate(tree.nodes) if node.fate == "pruned" and node.step == 2)
    prefix = tuple(tree.tokens(place))
    forced = trained.tree(TEXT, prefix=prefix)
    assert trained.translate(TEXT, prefix=prefix) == forced.answer
    assert run_exchange(trained.make_engine(), trained.exchange([TEXT], prefix=prefix))[0].text == forced.answer
    with pytest.raises(ValueError, match="prefix must be text or a list"):
        trained.translate(TEXT, prefix=5)
