"""Words out of pieces: nothing is lost, nothing invented, and special tokens are hidden honestly."""

import pytest
import torch

from regard.interpret.trace import Item
from regard.interpret.words import group_items, merge, normalise

SOURCE = [
    Item("<2en>", special=True),
    Item(" Le", word=0),
    Item(" gar", word=1),
    Item("<0xC3>", word=1),
    Item("<0xA7>", word=1),
    Item("on", word=1),
    Item(".", word=2),
    Item("<eos>", special=True),
]
TARGET = [Item(" The", word=0), Item(" bo", word=1), Item("y", word=1), Item(".", word=2), Item("<eos>", special=True)]


def weights() -> torch.Tensor:
    return torch.rand(2, len(TARGET), len(SOURCE)).softmax(-1)


def test_a_word_gets_what_its_pieces_get_and_looks_as_they_do_on_average():
    given = weights()
    queries, keys = group_items(TARGET), group_items(SOURCE)
    matrix = merge(given, queries, keys)
    assert [unit.text for unit in queries] == ["The", "boy", "."]
    assert [unit.text for unit in keys] == ["Le", "garçon", "."]
    assert torch.allclose(matrix[:, 1, 1], given[:, 1:3, 2:6].sum(-1).mean(-1))
    assert matrix.shape == (2, 3, 3)


def test_no_weight_is_lost_when_special_tokens_are_shown():
    matrix = merge(weights(), group_items(TARGET, specials=True), group_items(SOURCE, specials=True))
    assert matrix.shape == (2, 4, 5)
    assert torch.allclose(matrix.sum(-1), torch.ones(2, 4))


def test_hidden_weight_is_missing_until_it_is_shared_out():
    given = weights()
    hidden = merge(given, group_items(TARGET), group_items(SOURCE))
    assert torch.allclose(hidden[:, 0].sum(-1), 1 - given[:, 0, [0, -1]].sum(-1))
    assert torch.allclose(normalise(hidden).sum(-1), torch.ones(2, 3))


def test_pieces_stay_as_they_are_at_their_own_level():
    given = weights()
    rows = group_items(TARGET, level="subword", specials=True)
    columns = group_items(SOURCE, level="subword", specials=True)
    assert torch.allclose(merge(given, rows, columns), given)
    assert [unit.word for unit in rows] == [0, 1, 1, 2, None]


def test_what_belongs_to_no_word_stands_for_itself():
    patches = [Item("", box=(0.0, 0.0, 0.5, 1.0)), Item("", box=(0.5, 0.0, 1.0, 1.0))]
    assert [unit.places for unit in group_items(patches)] == [(0,), (1,)]


def test_a_row_that_looks_nowhere_stays_empty():
    assert torch.equal(normalise(torch.zeros(1, 2)), torch.zeros(1, 2))


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="choose word or subword"):
        group_items(TARGET, level="letters")
