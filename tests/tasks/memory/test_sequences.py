"""Sequences to copy, repeat and recall from are laid out as the paper has them, and drawn from their seed and row."""

import numpy as np
import pytest
import torch

from regard import config
from regard.tasks.memory.notation import SequenceInput, format_bits, format_input, parse_input
from regard.tasks.memory.sequences import (
    MAX_SHAPES,
    TEST,
    VALID,
    SequencesConfig,
    build_sequences,
    draw_for_part,
    training_batch,
)

COPY = SequencesConfig(bits=3, max_length=4, batch_size=5)
REPEAT = SequencesConfig(kind="repeat-copy", bits=3, max_length=4, repeats=3, batch_size=5)
RECALL = SequencesConfig(kind="recall", bits=3, min_length=2, max_length=4, item=2, batch_size=5)
ALL = [COPY, REPEAT, RECALL]


def lines(asked: str, data: SequencesConfig) -> list[str]:
    """Every step as text: what is read, then what must be answered, - where nothing counts."""
    batch = parse_input(asked, data).to_batch(data)
    read = [" ".join(f"{number:g}" for number in step) for step in batch.inputs[0].tolist()]
    right = [
        " ".join(f"{number:g}" for number in step) if counts else "-"
        for step, counts in zip(batch.targets[0].tolist(), batch.scored[0].tolist(), strict=True)
    ]
    return [f"{one} | {other}" for one, other in zip(read, right, strict=True)]


def test_a_copy_is_asked_for_by_a_mark():
    assert lines("110 001", COPY) == [
        "1 1 -1 0 | -",
        "-1 -1 1 0 | -",
        "0 0 0 1 | -",
        "0 0 0 0 | 1 1 0",
        "0 0 0 0 | 0 0 1",
    ]


def test_a_repeat_says_how_often_and_the_answer_ends_with_a_stop():
    spread = (2 / 3) ** 0.5  # of 1, 2 and 3
    assert lines("110 001 x3", REPEAT) == [
        "1 1 -1 0 0 | -",
        "-1 -1 1 0 0 | -",
        f"0 0 0 1 {1 / spread:g} | -",
        *["0 0 0 0 0 | 1 1 0 0", "0 0 0 0 0 | 0 0 1 0"] * 3,
        "0 0 0 0 0 | 0 0 0 1",
    ]


def test_the_item_after_the_one_asked_about_is_recalled():
    assert lines("110 001 / 111 000 / 100 101 ? 111 000", RECALL) == [
        "0 0 0 1 0 | -", "1 1 -1 0 0 | -", "-1 -1 1 0 0 | -",
        "0 0 0 1 0 | -", "1 1 1 0 0 | -", "-1 -1 -1 0 0 | -",
        "0 0 0 1 0 | -", "1 -1 -1 0 0 | -", "1 -1 1 0 0 | -",
        "0 0 0 0 1 | -", "1 1 1 0 0 | -", "-1 -1 -1 0 0 | -", "0 0 0 0 1 | -",
        "0 0 0 0 0 | 1 0 0", "0 0 0 0 0 | 1 0 1",
    ]  # fmt: skip


@pytest.mark.parametrize("data", ALL, ids=lambda data: data.kind)
def test_a_row_is_a_function_of_the_seed_and_its_number(data):
    def same(one, other):
        pairs = zip(vars(one).values(), vars(other).values(), strict=True)
        return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)

    assert same(training_batch(data, 7), training_batch(data, 7))
    assert not same(training_batch(data, 7), training_batch(data, 8))
    assert not same(training_batch(data, 7), training_batch(SequencesConfig(**{**vars(data), "seed": 1}), 7))


@pytest.mark.parametrize("kind", ["copy", "repeat-copy", "recall"])
def test_rows_have_all_lengths_and_few_shapes(kind):
    data = SequencesConfig(kind=kind, min_length=2, max_length=20, batch_size=1)
    rows = [training_batch(data, number) for number in range(150)]
    marks = {int(each.inputs[0, :, data.bits].nonzero()[-1]) for each in rows}  # after the sequence, or its last item
    assert len(marks) == 19
    assert len({each.inputs.shape for each in rows}) <= MAX_SHAPES
    for each in rows[:20]:
        assert each.inputs.shape[-1] == data.inputs
        assert each.targets.shape[-1] == data.outputs
        assert not each.targets[~each.scored].any(), "what does not count is blank"


def test_padding_after_the_end_is_blank_and_does_not_count():
    batch = build_sequences(COPY, *draw_for_part(COPY, VALID, 3, count=2))
    longer = batch.pad(11)
    assert longer.inputs.shape == (2, 11, 4)
    assert torch.equal(longer.inputs[:, :7], batch.inputs)
    assert not longer.inputs[:, 7:].any()
    assert longer.scored.sum() == batch.scored.sum() == 6


def test_what_is_measured_on_is_drawn_apart():
    valid, test = (draw_for_part(COPY, part, 4, count=50)[0] for part in (VALID, TEST))
    assert (valid != test).any()
    assert abs(valid.mean() - 0.5) < 0.1


def test_a_batch_is_halved():
    whole = training_batch(COPY, 0)
    halves = whole.halves()
    assert [len(half) for half in halves] == [2, 3]
    assert torch.equal(torch.cat([half.inputs for half in halves]), whole.inputs)
    assert len(halves[0].halves()[0].halves()) == 1


@pytest.mark.parametrize("data", ALL, ids=lambda data: data.kind)
def test_what_is_typed_is_read_as_it_was_meant(data):
    bits, items = draw_for_part(data, TEST, 3, count=4)
    for one, item in zip(bits, items, strict=True):
        meant = SequenceInput(one, int(item), 2 if data.kind == "repeat-copy" else 1)
        read = parse_input(format_input(meant, data), data)
        assert np.array_equal(read.bits, one)
        assert read.repeats == meant.repeats
        assert torch.equal(read.to_batch(data).targets, meant.to_batch(data).targets)
    assert format_bits(np.array([[1, 0, 1, 9]]), 3) == "101"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (COPY, "1101 001"), (COPY, "12 001"), (COPY, ""), (REPEAT, "110"), (REPEAT, "110 x0"), (REPEAT, "110 xx"),
        (RECALL, "110 001"), (RECALL, "110 / 111 000 ? 110"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_a_line_with_an_example(data, text):
    with pytest.raises(ValueError, match=r"cannot be read as .*vectors of 3 bits .*such as 101") as error:
        parse_input(text, data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["110 001 / 111 000 ? 111 000", "110 001 / 111 000 ? 111 111"])
def test_an_item_that_has_no_next_one_cannot_be_asked_about(text):
    with pytest.raises(ValueError, match=r"the item after \? is none of those before the last: ask about one of them"):
        parse_input(text, RECALL)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min_length": 0}, r"data\.min_length must be a whole number from 1 to 1,000"),
        ({"max_length": 0}, r"data\.max_length must be a whole number from 1 to 1,000"),
        ({"min_length": 9, "max_length": 8}, "min_length 9 exceeds max_length 8: lower it"),
        ({"kind": "recall"}, "recall from 1 item has no next one to answer with: set min_length to 2"),
    ],
)
def test_lengths_that_cannot_be_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        config.build(SequencesConfig, settings, where="data")
