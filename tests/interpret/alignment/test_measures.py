"""Attention against hand alignments: looks made by hand have the scores computed by hand."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from regard.interpret.measure.alignment_scores import (
    Example,
    View,
    best_head,
    examples,
    links,
    measure_alignments,
    measure_articles,
    measure_inversions,
    views,
)
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.summary import summary
from regard.interpret.trace import Item, Trace, Weights
from regard.metrics.alignment import Gold, Phrase, parse_links

CHECKPOINT = Path(__file__).parent.parent.parent / "checkpoints" / "format-1"
GOLD = Gold(
    "Le chat noir dort.",
    "The black cat sleeps.",
    ("Le", "chat", "noir", "dort", "."),
    ("The", "black", "cat", "sleeps", "."),
    *parse_links("0-0 1-2 2-1 3-3 4-4"),
    adjectives=(Phrase((2, 1), (1, 2)),),
    articles=(Phrase((0, 0), (1, 2)),),
)
RIGHT = [0, 2, 1, 3, 4]
STRAIGHT = [0, 1, 2, 3, 4]
VIEW = View("decoder.0.cross", 0)


def looking(*heads: list[int], layers: int = 1, gold: Gold = GOLD) -> Example:
    """Every head gives 0.7 of row r to word `head[r]` and shares out the rest; the end looks at the end."""
    size = len(gold.source) + 1
    weights = torch.full((len(heads), size, size), 0.3 / (size - 1))
    for head, chosen in enumerate(heads):
        for row, key in enumerate([*chosen, size - 1]):
            weights[head, row, key] = 0.7
    return Example(gold, traced(weights, layers=layers, gold=gold))


def traced(weights: Tensor, *, layers: int = 1, gold: Gold = GOLD) -> Trace:
    source = [Item(f" {word}", number) for number, word in enumerate(gold.source)]
    target = [Item(f" {word}", number) for number, word in enumerate(gold.target)]
    end, begin = Item("<eos>", special=True), Item("<bos>", special=True)
    items = {"source": [*source, end], "target": [*target, end], "fed": [begin, *target]}
    kept = [Weights(f"decoder.{layer}.cross", "target", "source", weights) for layer in range(layers)]
    return Trace("made", "translation", items, kept)


def test_each_target_word_is_linked_with_the_word_it_looks_at_most():
    assert links(torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.2]])) == {(1, 0), (0, 1)}


def test_views_are_heads_then_means():
    seen = [view for view, _ in views(looking(RIGHT, STRAIGHT, layers=2))]
    names = "decoder.0.cross", "decoder.1.cross"
    assert seen == [view for name in names for view in (View(name, 0), View(name, 1), View(name))] + [View()]
    assert [str(view) for view in (seen[0], seen[2], seen[-1])] == [
        "decoder.0.cross head 0",
        "decoder.0.cross, mean",
        "all layers, mean",
    ]


def test_pieces_become_words_and_special_tokens_are_hidden():
    gold = Gold("ab c", "X", ("ab", "c"), ("X",), *parse_links("0-0"))
    items = {
        "source": [Item(" a", 0), Item("b", 0), Item(" c", 1), Item("<eos>", special=True)],
        "target": [Item(" X", 0), Item("x", 0), Item("<eos>", special=True)],
        "fed": [Item("<bos>", special=True), Item(" X", 0), Item("x", 0)],
    }
    weights = torch.tensor([[[0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.1, 0.2], [0.0, 0.0, 0.5, 0.5]]])
    example = Example(gold, Trace("made", "x", items, [Weights("decoder.0.cross", "target", "source", weights)]))
    [(_, now), _] = views(example)
    [(_, later), _] = views(example, shift=1)
    assert now.tolist() == [pytest.approx([(0.3 + 0.7) / 2, (0.3 + 0.1) / 2])]
    assert later.tolist() == [pytest.approx([(0.7 + 0.0) / 2, (0.1 + 0.5) / 2])]
    with pytest.raises(ValueError, match="shift 2 means nothing"):
        list(views(example, shift=2))


def test_a_trace_of_another_text_is_refused():
    other = Gold("a", "b", ("a",), ("b",), *parse_links("0-0"))
    with pytest.raises(ValueError, match="5 and 5 words, the hand alignment 1 and 1"):
        list(views(Example(other, looking(RIGHT).trace)))


def test_heads_have_the_error_rates_computed_by_hand():
    right, straight, mean = measure_alignments([looking(RIGHT, STRAIGHT)])
    assert (right.counts.aer, right.counts.precision, right.counts.recall) == (0.0, 1.0, 1.0)
    assert straight.counts.aer == pytest.approx(1 - (3 + 3) / (5 + 5))
    assert straight.counts == straight.diagonal
    assert mean.view == View("decoder.0.cross")
    assert right.uniform.aer == pytest.approx(1 - (1 + 1) / 10)
    assert right.permuted.aer == pytest.approx(1 - (1 + 1) / 10)  # each source word once among five places


def test_with_shift_one_a_row_belongs_to_the_word_it_was_fed():
    early = [4, *RIGHT[:4]]  # the row of word r looks where word r - 1 should
    example = looking(early)
    example.trace.weights[0].values[0, 5] = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    assert measure_alignments([example])[0].counts.aer > 0.5
    assert measure_alignments([example], shift=1)[0].counts.aer == 0.0


def test_the_best_head_is_scored_where_it_was_not_chosen():
    one, other = looking(RIGHT, STRAIGHT), looking(STRAIGHT, RIGHT)
    assert best_head([one, one]).counts.aer == 0.0
    fooled = best_head([one, other])  # the head that is right on one half is wrong on the other
    assert fooled.counts == measure_alignments([looking(STRAIGHT)] * 2)[0].counts
    with pytest.raises(ValueError, match="cannot be halved"):
        best_head([one])


def test_inverted_adjectives_are_seen_and_the_diagonal_never_inverts():
    right, straight, _ = measure_inversions([looking(RIGHT, STRAIGHT)])
    assert (right.share, right.exact, right.exchanged, right.places) == (1.0, 1.0, 0.0, 1)
    assert (straight.share, straight.exact, straight.exchanged) == (0.0, 0.0, 1.0)
    assert right.diagonal == 0.0
    assert right.uniform == pytest.approx((1 - 1 / 5) / 2)
    turned = looking(RIGHT, STRAIGHT, gold=GOLD.swap_languages())
    assert [one.share for one in measure_inversions([turned])][:2] == [1.0, 0.0]


def test_an_article_that_looks_ahead_is_told_from_one_that_does_not():
    ahead, own, mean = measure_articles([looking([1, 2, 1, 3, 4], RIGHT)])
    rest = 0.3 / 5
    assert (ahead.article, ahead.noun, ahead.share) == (pytest.approx(rest), pytest.approx(0.7), 1.0)
    assert (own.article, own.noun, own.share) == (pytest.approx(0.7), pytest.approx(rest), 0.0)
    assert mean.article == pytest.approx((0.7 + rest) / 2)
    assert ahead.even == pytest.approx((0.7 + 4 * rest) / 5)
    assert ahead.others == 0.0  # the other three words give both the same
    assert ahead.places == 1


def test_without_marks_there_are_no_claims():
    plain = Gold("a b", "A B", ("a", "b"), ("A", "B"), *parse_links("0-0 1-1"))
    example = looking([0, 1], gold=plain)
    assert measure_inversions([example]) == []
    assert measure_articles([example]) == []


def test_a_trained_model_is_summed_up_in_tables_of_finite_numbers():
    reader = ForcedReader(regard.load(CHECKPOINT))
    other = Gold(
        "Le loup court vite !",
        "The wolf runs fast!",
        ("Le", "loup", "court", "vite", "!"),
        ("The", "wolf", "runs", "fast", "!"),
        *parse_links("0-0 1-1 2-2 3-3 4-4"),
    )
    tables = summary(reader, [GOLD, other])
    assert [table.title.split(" (")[0] for table in tables] == [
        "Alignment of 2 pairs against links drawn by hand",
        "Adjective order inverted",
        "The article looks ahead",
        "Heads that follow a relation of grammar",
        "Heads that look across",
        "Heads that look at their own side",
        "Heads silenced one by one",
        "Agreement with leaving one word out",
    ]
    for table in tables:
        assert table.note
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
        assert all(math.isfinite(cell) for row in table.rows for cell in row if isinstance(cell, float)), table.title
    assert summary(reader, [GOLD, other], intervene=False) == tables[:6]


def test_every_shipped_pair_can_be_looked_at_with_its_own_words():
    from regard.metrics import alignment

    reader = ForcedReader(regard.load(CHECKPOINT))
    for gold in alignment.read()[::20]:
        [example] = examples(reader, [gold])
        for shift in (0, 1):
            for _, weights in views(example, shift=shift):
                assert weights.shape == (len(gold.target), len(gold.source))
