"""Checks of answers that are fixed: looks that are permuted or even, heads that are silenced, and intervals."""

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.attention.masks import Grid, causal, padded
from regard.attention.multihead import MultiHead
from regard.interpret.measure import trust
from regard.interpret.measure.fixed_answers import (
    CROSS,
    Finding,
    Ranking,
    check_answers,
    check_rankings,
    list_heads,
    make_finding,
)
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.interventions import change_heads, kendall
from regard.interpret.measure.map_checks import MapExamples
from regard.interpret.watch import watch
from regard.metrics import alignment
from regard.metrics.significance import lead_interval, mean_statistics
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.vit import ViT, ViTConfig
from regard.tasks.translation.translator import Translator
from tests.interpret.looking import LABELLING, model

CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "format-1"
TEXTS = [
    "le chat noir dort ici",
    "un chien blanc mange",
    "le chien noir dort",
    "un chat blanc dort ici",
    "le chat mange",
]
WIDTH, HEADS = 8, 2


@pytest.mark.parametrize("name", ["causal", "padded"])
def test_permuted_rows_keep_their_weights_and_even_rows_are_uniform_over_what_is_visible(name: str):
    torch.manual_seed(0)
    attention = torch.nn.Sequential(MultiHead(WIDTH, HEADS))
    mask = {"causal": causal(), "padded": padded(Grid(torch.tensor([5, 3]), 5))}[name]
    visible = mask.dense(5, 5).expand(2, 5, 5)
    x, heads = torch.randn(2, 5, WIDTH), [("0", 0), ("0", 1)]

    def look(**changes) -> torch.Tensor:
        with change_heads(attention, **changes), watch(attention) as record:
            attention[0](x, mask=mask)
        return record.looks["0"][0].weights.detach()

    plain = look(heads=[], way="even")
    even = look(heads=heads, way="even")
    expected = visible / visible.sum(-1, keepdim=True)
    assert torch.equal(even, expected[:, None].expand_as(even))
    permuted = look(heads=heads, way="permuted", generator=torch.Generator().manual_seed(1))
    assert torch.equal(permuted.sort(-1).values, plain.sort(-1).values)
    assert torch.equal(permuted[~visible[:, None].expand_as(permuted)], torch.zeros(HEADS * int((~visible).sum())))
    assert not torch.equal(permuted, plain)
    one = look(heads=heads[1:], way="permuted", generator=torch.Generator().manual_seed(1))
    assert torch.equal(one[:, 0], plain[:, 0])
    assert not torch.equal(one[:, 1], plain[:, 1])


def test_random_orders_are_all_as_frequent():
    torch.manual_seed(0)
    attention = torch.nn.Sequential(MultiHead(WIDTH, 1))
    generator, counts = torch.Generator().manual_seed(0), {}
    x = torch.randn(600, 3, WIDTH)
    with watch(attention) as plain:
        attention[0](x)
    with change_heads(attention, [("0", 0)], way="permuted", generator=generator), watch(attention) as record:
        attention[0](x)
    for before, after in zip(plain["0"], record["0"], strict=True):
        for first, second in zip(before[0], after[0], strict=True):
            order = tuple(first.argsort().argsort()[second.argsort()].tolist())
            counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 300) < 5 * (1800 * 5 / 36) ** 0.5 for count in counts.values())


def test_the_interval_of_a_lead_is_that_of_numpy():
    draw = np.random.default_rng(3)
    value, first, second, weights = (draw.random(40) for _ in range(4))
    system = mean_statistics(value, weights)
    controls = [mean_statistics(values, weights) for values in (first, second)]
    interval = lead_interval(system, controls, samples=4000, seed=1)
    other, leads = np.random.default_rng(99), []
    for _ in range(4000):
        chosen = other.integers(40, size=40)
        score, *rivals = ((values[chosen].sum() / weights[chosen].sum()) for values in (value, first, second))
        leads.append(score - max(rivals))
    low, high = np.quantile(leads, [0.025, 0.975])
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.03 * (high - low) + 0.01)
    reverse = lead_interval(
        mean_statistics(-value, weights, lower=True),
        [mean_statistics(-values, weights, lower=True) for values in (first, second)],
        samples=4000,
        seed=1,
    )
    assert (reverse.low, reverse.high) == pytest.approx((interval.low, interval.high))


def test_a_verdict_is_what_the_interval_says():
    def verdict(value: float, low: float, high: float, examples: int = 30, check: str = "deletion") -> str:
        return Finding("attention", check, value, {"length": 0.2, "permuted": 0.0}, examples, low, high).verdict

    assert verdict(0.4, 0.1, 0.3) == "good"
    assert verdict(0.3, 0.05, 0.15) == "weak"
    assert verdict(0.4, -0.01, 0.4) == "unsure"
    assert verdict(0.1, -0.2, 0.0) == "none"
    assert verdict(0.4, 0.1, 0.3, examples=4) == "unsure", "four inputs say nothing"


def test_what_is_only_noise_is_not_told_from_chance_and_a_sure_lead_is():
    draw = np.random.default_rng(0)
    noise, control = draw.normal(size=30), draw.normal(size=30)
    finding = make_finding("attention", "deletion", mean_statistics(noise), {"permuted": mean_statistics(control)})
    assert finding.verdict == "unsure"
    better = make_finding("attention", "deletion", mean_statistics(noise + 3), {"permuted": mean_statistics(control)})
    assert (better.verdict, better.margin) == ("good", pytest.approx(finding.margin + 3))


def test_rankings_are_compared_input_by_input():
    rankings = [
        Ranking({"a": [3.0, 2.0, 1.0], "flat": [1.0] * 3}, [0.9, 0.5, 0.1], {"length": [1.0, 2.0, 3.0]}),
        Ranking({"a": [1.0, 2.0, 3.0], "flat": [1.0] * 3}, [0.9, 0.1, 0.5], {"length": [3.0, 1.0, 2.0]}),
    ]
    report = check_rankings(rankings)
    [finding] = report.findings
    expected = [kendall(ranking.scores["a"], ranking.effects) for ranking in rankings]
    assert finding.value == pytest.approx(np.mean(expected))
    assert finding.controls["length"] == pytest.approx((-1 + 1) / 2)
    assert [(gap.method, gap.reason) for gap in report.gaps] == [("flat", "constant")]


def test_a_translator_is_checked_by_every_method_and_reads_as_often_as_it_says():
    trained, counted = regard.load(CHECKPOINT, device="cpu"), []
    pairs = [("Le chat noir dort.", "The black cat sleeps."), ("Le loup court vite !", "The wolf runs fast!")] * 2
    reader, planned = trust.CountingReader(trained, None, counted.append), []
    report = trust.check_own_answers(reader, pairs, planned.append)
    assert [sum(counted)] == planned
    assert {(found.method, found.check) for found in report.findings} == {
        *((method, "deletion") for method in ("attention", "rollout", "gradient")),
        *(("attention", check) for check in ("silenced", "permuted", "even")),
    }
    assert [vars(gap) for gap in report.gaps] == [{"method": "attention", "check": "alignment", "reason": "no_links"}]
    changes = {found.check: found for found in report.findings if found.check in ("permuted", "even")}
    assert all(found.controls["same"] == 0.0 and 0.0 < found.value <= 1.0 for found in changes.values())


def test_what_a_changed_probability_says_is_what_reading_again_says():
    reader = ForcedReader(regard.load(CHECKPOINT, device="cpu"))
    pairs = [("Le chat noir dort.", "The black cat sleeps."), ("Le loup court vite !", "The wolf runs fast!")]
    report = check_answers(trust.fix_pairs(reader, pairs, lambda: iter(())))
    [even] = [found for found in report.findings if found.check == "even"]
    coded = [reader.encode(*pair) for pair in pairs]
    before = [reader.token_scores([read], [written])[0].exp() for read, written in coded]
    with change_heads(reader.model, list_heads(reader.model, CROSS), way="even"):
        after = [reader.token_scores([read], [written])[0].exp() for read, written in coded]
    expected = [float(np.median((first - second).abs())) for first, second in zip(before, after, strict=True)]
    assert even.value == pytest.approx(np.mean(expected), abs=1e-6)


def test_of_a_translator_without_attention_the_gradient_is_checked_and_the_rest_says_why():
    known = regard.load(CHECKPOINT, device="cpu")
    torch.manual_seed(0)
    shape = Seq2SeqConfig(vocab=known.source.vocab, width=16, embedding=16, attention="none", context=64)
    trained = Translator(Seq2Seq(shape).eval(), (known.source, known.target), known.decoding, "small")
    report = trust.check_translator(ForcedReader(trained), [gold.swap_languages() for gold in alignment.read()[:2]])
    assert [(found.method, found.check) for found in report.findings] == [
        ("gradient", "alignment"), ("gradient", "deletion"),
    ]  # fmt: skip
    reasons = {(gap.method, gap.check): gap.reason for gap in report.gaps}
    assert set(reasons.values()) == {"no_attention"}
    assert reasons.keys() == {
        *((method, check) for method in ("attention", "rollout") for check in ("alignment", "deletion")),
        *(("attention", check) for check in ("silenced", "permuted", "even")),
    }


@pytest.mark.parametrize("kind", LABELLING)
def test_labels_are_checked_as_far_as_the_model_allows(kind: str):
    labeller, counted = model(kind), []
    answers = labeller.fix_answers(TEXTS, tell=counted.append)
    report = check_answers(answers)
    assert sum(counted) == answers.count
    layered = "pooled" not in kind or "transformer" in kind
    methods = ["attention", *(["rollout"] if layered else []), "gradient"]
    assert [found.method for found in report.findings if found.check == "deletion"] == methods
    checks = {found.check for found in report.findings}
    reasons = {(gap.method, gap.check): gap.reason for gap in report.gaps}
    assert reasons.pop(("attention", "alignment")) == "no_translation"
    if layered:
        assert (checks, reasons) == ({"deletion", "silenced", "permuted", "even"}, {})
    else:
        assert reasons == {("rollout", "deletion"): "no_layers", ("attention", "silenced"): "one_head"}


@pytest.mark.parametrize("kind", ["mean", "tagger"])
def test_leaving_a_word_out_costs_what_the_shorter_text_loses(kind: str):
    labeller = model(kind)
    text, words = labeller.label_text(TEXTS[0]), TEXTS[0].split()
    ranking = labeller.rank_words(text)
    assert len(ranking.effects) == len(words)
    for number, effect in enumerate(ranking.effects):
        shorter = labeller.label_text(" ".join([*words[:number], *words[number + 1 :]]))
        labels = text.labels if kind == "mean" else [*text.labels[:number], *text.labels[number + 1 :]]
        [whole] = labeller.score_labels([text])
        with torch.no_grad():
            [part] = labeller._label_scores([shorter.encoded])
        kept = whole if kind == "mean" else whole[[place for place in range(len(words)) if place != number]]
        assert effect == pytest.approx(float(kept.sum() - part[shorter.rows, labels].sum()), abs=1e-5)


def test_heads_of_a_classifier_of_pictures_are_changed_too():
    torch.manual_seed(0)
    config = ViTConfig(size=16, patch=4, width=16, heads=2, hidden=16, depth=1, classes=3)
    examples, counted = MapExamples(torch.randn(3, 3, 16, 16), torch.tensor([0, 1, 2])), []
    network = ViT(config).eval()
    report = trust.check_maps(network, examples, counted.append)
    assert sum(counted) == trust.count_map_readings(network, 3)
    assert {"silenced", "permuted", "even", "map_deletion"} <= {found.check for found in report.findings}
    assert {(gap.method, gap.reason) for gap in report.gaps} <= {("cam", "no_mean")}


def test_numbers_of_this_version_stay_as_they_are():
    """Whoever changes what is measured raises VERSION, so that no older result is shown as a new one."""
    reader = ForcedReader(regard.load(CHECKPOINT, device="cpu"))
    pairs = [("Le chat noir dort.", "The black cat sleeps."), ("Le loup court vite !", "The wolf runs fast!")]
    found = {(one.method, one.check): one.value for one in trust.check_own_answers(reader, pairs).findings}
    assert trust.VERSION == 2
    expected = {
        ("attention", "deletion"): 0.2000,
        ("rollout", "deletion"): 0.7000,
        ("gradient", "deletion"): 0.5000,
        ("attention", "silenced"): 0.6534,
        ("attention", "permuted"): 0.6790,
        ("attention", "even"): 0.5027,
    }
    assert found == pytest.approx(expected, abs=1e-3)
