"""Windows over documents: every token once an epoch, never across a document, the same row for the same number."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.rows import EvaluationBatches, Rows, Windows, split_batch

END, OPENING = 2, 1
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def corpus(lengths: list[int]) -> Corpus:
    """Documents of so many tokens, their end included; every other token is a number of its own."""
    starts = np.cumsum([0, *lengths])
    tokens = np.arange(10, 10 + starts[-1]).astype(np.int32)
    tokens[starts[1:] - 1] = END
    origins = np.stack([np.zeros(len(lengths), np.int64), np.arange(1, len(lengths) + 1)], 1)
    return Corpus(tokens, starts, origins, ("a.txt",), OPENING, *[int(starts[-1])] * 3)


def taught(batch, text: Corpus) -> list[int]:
    """The places of the corpus that a batch asks for; each is predicted from the one before, or from the opening."""
    found = []
    row = batch.row
    for segment in range(int(row.count)):
        first, last = row.offsets[segment].item(), row.offsets[segment + 1].item()
        tokens, labels = batch.tokens[first:last].tolist(), batch.labels[first:last].tolist()
        document = int(batch.documents[segment])
        begin, end = text.starts[document], text.starts[document + 1]
        own = text.tokens[begin:end].tolist()
        read = [OPENING, *own[:-1]]
        asked = [label for label in labels if label != IGNORE]
        at = read.index(tokens[0])
        assert tokens == read[at : at + len(tokens)]
        assert own[at : at + len(tokens)][len(tokens) - len(asked) :] == asked
        found += [int(begin) + at + n for n, label in enumerate(labels) if label != IGNORE]
    return found


@settings(max_examples=12)
@given(LENGTHS, st.integers(1, 50), st.integers(1, 9), st.booleans())
def test_in_an_epoch_every_token_is_learnt_once_from_the_one_before_in_its_document(lengths, context, windows, fixed):
    text = corpus(lengths)
    rows = Rows(text, context, windows, 3, fixed=fixed)
    for epoch in (0, 1, 4):
        numbers = range(epoch * rows.rows, (epoch + 1) * rows.rows)
        places = [taught(rows.batch(number), text) for number in numbers]
        assert all(places)
        assert sorted(place for row in places for place in row) == list(range(len(text.tokens)))


@settings(max_examples=12)
@given(LENGTHS, st.integers(1, 50), st.integers(1, 9))
def test_fixed_rows_have_one_shape_and_the_same_content(lengths, context, windows):
    text = corpus(lengths)
    rows, free = Rows(text, context, windows, 3, fixed=True), Rows(text, context, windows, 3)
    shapes = set()
    for number in range(3 * rows.rows):
        batch, other = rows.batch(number), free.batch(number)
        shapes.add((len(batch.tokens), len(batch.row.offsets), batch.row.longest, batch.row.most))
        filled = int(batch.row.filled)
        assert batch.labels[:filled].tolist() == other.labels.tolist()
        assert batch.labels[filled:].eq(IGNORE).all()
        assert int(batch.row.lengths.max()) <= context
    assert len(shapes) == 1
    assert shapes.pop()[0] == rows.tokens <= context * windows


def test_a_row_is_the_same_again_and_epochs_differ():
    text = corpus([300, 7, 90, 1, 1, 500])
    rows, again = Rows(text, 16, 4, 5), Rows(text, 16, 4, 5)
    for number in (0, 7, rows.rows * 3 + 2):
        assert rows.batch(number).tokens.tolist() == again.batch(number).tokens.tolist()
    other = Rows(text, 16, 4, 6)
    assert rows.batch(1).tokens.tolist() != other.batch(1).tokens.tolist()
    shifts = {rows.windows.shift(epoch) for epoch in range(40)}
    assert len(shifts) > 5
    firsts = {tuple(rows.batch(epoch * rows.rows).tokens.tolist()) for epoch in range(10)}
    assert len(firsts) == 10


def test_whole_windows_come_first_so_that_they_stand_at_multiples_of_the_context():
    text = corpus([1000])
    rows = Rows(text, 64, 4, 0, fixed=True)
    for number in range(3 * rows.rows):
        lengths = rows.batch(number).row.lengths.tolist()
        real = lengths[: int(rows.batch(number).row.count)]
        assert real == sorted(real, key=lambda length: length < 64)


@settings(max_examples=12)
@given(LENGTHS, st.integers(1, 30), st.integers(1, 9))
def test_there_are_at_least_as_many_shifts_left_as_lost_and_windows_are_never_empty(lengths, size, most):
    windows = Windows(np.cumsum([0, *lengths]), size, most, 1)
    assert 2 * len(windows.shifts) >= size
    assert windows.fullest <= most
    for row in range(2 * windows.rows):
        assert 0 < len(windows.row(row).first) <= windows.pieces


@settings(max_examples=12)
@given(LENGTHS, st.integers(1, 50), st.integers(1, 5), st.integers(1, 50) | st.none())
def test_measuring_predicts_every_token_once_in_windows_of_one_document(lengths, context, windows, stride):
    text = corpus(lengths)
    measured = EvaluationBatches(text, context, windows, stride=stride)
    places = [place for number in range(len(measured)) for place in taught(measured[number], text)]
    assert places == list(range(len(text.tokens)))
    for batch in measured:
        assert len(batch.tokens) <= context * windows
        assert int(batch.row.lengths.max()) <= context


def test_overlapping_windows_see_what_is_before_them():
    text = corpus([100])
    measured = EvaluationBatches(text, 10, 1, stride=3)
    [batch] = [each for each in measured if each.labels[-1] == text.tokens[17]]  # 15, 16 and 17 count
    assert batch.labels.tolist() == [IGNORE] * 7 + text.tokens[15:18].tolist()
    assert batch.tokens.tolist() == text.tokens[7:17].tolist()


def test_halves_hold_the_same_pieces():
    text = corpus([30, 5, 70, 12, 3])
    batch = Rows(text, 16, 6, 0, fixed=True).batch(0)
    halves = batch.halves()
    assert len(halves) == 2
    assert sorted(place for half in halves for place in taught(half, text)) == sorted(taught(batch, text))
    alone = Rows(corpus([5]), 16, 6, 0).batch(0)
    assert alone.halves() == [alone]
    assert batch.to("cpu").labels.equal(batch.labels)


@pytest.mark.parametrize("windows", [1, 3])
def test_attention_never_crosses_a_document(windows):
    batch = Rows(corpus([5, 9, 2, 30]), 8, windows, 0).batch(0)
    segment = batch.row.segment
    for first in range(len(segment)):
        for second in range(len(segment)):
            if segment[first] == segment[second]:
                assert batch.documents[segment[first]] == batch.documents[segment[second]]
    assert torch.equal(
        batch.row.place[batch.row.offsets[: int(batch.row.count)].long()], torch.zeros(int(batch.row.count))
    )


@settings(max_examples=12)
@given(LENGTHS, st.integers(1, 50), st.integers(1, 60))
def test_a_batch_is_split_into_parts_of_so_many_tokens_that_hold_all_of_it(lengths, context, most):
    [batch] = EvaluationBatches(corpus(lengths), context, 1000)
    parts = split_batch(batch, most)
    assert torch.cat([part.tokens for part in parts]).equal(batch.tokens)
    assert torch.cat([part.labels for part in parts]).equal(batch.labels)
    assert torch.cat([part.row.lengths for part in parts]).equal(batch.row.lengths)
    assert all(len(part.tokens) <= most or len(part.row.lengths) == 1 for part in parts)
