"""Span corruption: lengths follow T5's published formulas, and source and target together are the text."""

import numpy as np
import pytest

from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.spans import SpanRows, SpansConfig, corrupt_spans, sample_spans, sentinel_names
from tests.tasks.pretraining.small import prepared

T5 = SpansConfig()


def rows(context=48, windows=5, seed=1, *, kind="bpe", fixed=False, how=T5) -> SpanRows:
    made = prepared(kind)
    return SpanRows(made.train, made.tokenizer, context, windows, seed, how=how, fixed=fixed)


def restored(source: list[int], target: list[int], sentinels: set[int]) -> list[int]:
    """The text: every sentinel of the source replaced by what follows it in the target."""
    spans: dict[int, list[int]] = {}
    for token in target[:-1]:
        if token in sentinels:
            now = spans[token] = []
        else:
            now.append(token)
    return [each for token in source[:-1] for each in spans.get(token, [token])]


def pairs(batch) -> list[tuple[int, list[int], list[int], list[int]]]:
    """Document, source, what the decoder reads and what it should say, of every sequence."""
    (source, target), found = batch.rows, []
    for number, document in enumerate(batch.documents.tolist()):
        read = slice(*source.offsets[number : number + 2].tolist())
        said = slice(*target.offsets[number : number + 2].tolist())
        texts = (batch.source[read], batch.target[said], batch.labels[said])
        found.append((document, *(text.tolist() for text in texts)))
    return found


def test_lengths_are_those_that_t5_publishes():
    assert (T5.length(512), T5.source(568), T5.target(568)) == (568, 512, 114)
    for length in range(2, 700):  # as in its preprocessors, computed apart
        noise = min(max(int(np.round(length * 0.15)), 1), length - 1)
        gaps = max(int(np.round(noise / 3.0)), 1)
        assert T5.counts(length) == (noise, gaps), length
        assert T5.source(length) == length - noise + gaps + 1
        assert T5.target(length) == noise + gaps + 1
    assert T5.counts(1) == (0, 0)


@pytest.mark.parametrize(
    "how", [T5, SpansConfig(share=0.5, mean_span_length=1.0), SpansConfig(share=0.9, mean_span_length=8.0)]
)
def test_gaps_have_exactly_the_asked_numbers_and_alternate_with_what_stays(how):
    random = np.random.default_rng(0)
    for length in [*range(1, 40), 568]:
        gone = sample_spans(np.array([length]), how, random)
        tokens, spans = how.counts(length)
        assert len(gone) == length
        assert int(gone.sum()) == tokens
        assert int((gone & ~np.r_[False, gone[:-1]]).sum()) == spans
        if spans:
            assert (gone[0], gone[-1]) == (False, True)
        text = np.arange(1000, 1000 + length)
        source, target = corrupt_spans(text, gone, np.array([length]), np.arange(500), -1)
        assert (len(source), len(target)) == (how.source(length), how.target(length))
        assert restored(source.tolist(), target.tolist(), set(range(500))) == text.tolist()


def test_every_place_is_left_out_about_as_often_and_spans_have_their_mean():
    random = np.random.default_rng(0)
    drawn = sample_spans(np.full(2000, 100), T5, random).reshape(2000, 100)
    inside = drawn.mean(0)[10:-10]  # the first never is and the last always
    assert inside.mean() == pytest.approx(0.13, abs=0.01)
    assert inside.std() < 0.01
    assert drawn.sum(1).mean() / (drawn[:, 1:] & ~drawn[:, :-1]).sum(1).mean() == pytest.approx(3.0)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("context", "windows"), [(16, 20), (48, 5), (200, 3)])
def test_source_and_target_give_every_document_back_once_in_an_epoch(context, windows, fixed):
    given, own = rows(context, windows, fixed=fixed), prepared().tokenizer
    corpus, sentinels = given.corpus, set(given.sentinels.tolist())
    for epoch in (0, 1):
        found: dict[int, list[int]] = {document: [] for document in range(corpus.documents)}
        for number in range(epoch * given.rows, (epoch + 1) * given.rows):
            for document, source, target, labels in pairs(given.batch(number)):
                assert max(len(source), len(labels)) <= context
                assert source[-1] == labels[-1] == own.end
                assert target == [own.pad, *labels[:-1]]
                found[document] += restored(source, labels, sentinels)
        for document, tokens in found.items():
            text = corpus.tokens[corpus.starts[document] : corpus.starts[document + 1] - 1]
            assert sorted(tokens) == sorted(text.tolist())


@pytest.mark.parametrize(("context", "windows"), [(16, 20), (48, 5), (200, 1)])
@pytest.mark.parametrize("how", [T5, SpansConfig(share=0.4, mean_span_length=2.0)])
def test_fixed_rows_have_one_shape_and_the_same_content(context, windows, how):
    fixed, free = (rows(context, windows, how=how, fixed=each) for each in (True, False))
    shapes = set()
    for number in range(fixed.rows + 4):
        batch, other = fixed.batch(number), free.batch(number)
        shapes.add(
            (len(batch.source), len(batch.target), *(len(row.offsets) for row in batch.rows), batch.rows[0].most)
        )
        assert pairs(batch) == pairs(other)
        assert batch.labels[len(other.labels) :].eq(IGNORE).all()
    assert len(shapes) == 1


def test_a_row_is_the_same_again_and_halves_hold_the_same():
    given = rows(fixed=True)
    batch, again = given.batch(3), rows(fixed=True).batch(3)
    assert pairs(batch) == pairs(again)
    assert pairs(batch) != pairs(rows(seed=2, fixed=True).batch(3))
    halves = batch.to("cpu").halves()
    assert len(halves) == 2
    assert [pair for half in halves for pair in pairs(half)] == pairs(batch)


def test_a_tokenizer_without_enough_sentinels_is_refused_with_the_numbers():
    assert len(sentinel_names(T5, 512)) == 100
    assert len(sentinel_names(T5, 4096)) == 227
    with pytest.raises(ValueError, match=r"a context of 4096 needs 227 sentinels.* has 100"):
        rows(4096)
    with pytest.raises(ValueError, match="a context of 2 has no room"):
        rows(2)
