"""The linear model counts words and pairs inside each text, and nothing across texts."""

from __future__ import annotations

import pytest
import torch

from regard.attention.masks import Grid, Row
from regard.models.linear import LinearConfig, LinearText


def drawn(**changes: int) -> LinearText:
    torch.manual_seed(0)
    model = LinearText(LinearConfig(vocab=12, classes=3, buckets=64, dropout=0.0, **changes)).eval()
    torch.nn.init.normal_(model.table.weight)
    torch.nn.init.normal_(model.output.bias)
    return model


TEXTS = [[3, 4, 5], [6], [4, 3, 4, 4]]
ALL = [token for text in TEXTS for token in text]


@pytest.mark.parametrize("reach", [1, 2, 3])
def test_a_text_alone_in_a_row_and_padded_has_the_same_logits(reach: int) -> None:
    model = drawn(reach=reach)
    alone = torch.cat([model(torch.tensor(text), Row.of([len(text)])) for text in TEXTS])
    packed = model(torch.tensor(ALL), Row.of([3, 1, 4]))
    padded = model(torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0], [4, 3, 4, 4]]), Grid(torch.tensor([3, 1, 4]), 4))
    fixed = Row.of([3, 1, 4], size=10, segments=5, longest=4, most=4)
    filled = model(torch.tensor([*ALL, 7, 7]), fixed)
    torch.testing.assert_close(packed, alone)
    torch.testing.assert_close(padded, alone)
    assert filled.shape == (4, 3)
    torch.testing.assert_close(filled[:3], alone)


def test_words_alone_are_a_sum_over_the_root_of_their_number() -> None:
    model = drawn(reach=1)
    found = model(torch.tensor([3, 4, 4]), Row.of([3]))
    table = model.table.weight
    torch.testing.assert_close(found[0], (table[3] + 2 * table[4]) / 3**0.5 + model.output.bias)


def test_pairs_tell_orders_apart_and_words_do_not() -> None:
    one, other = torch.tensor([3, 4, 5]), torch.tensor([5, 4, 3])
    words, pairs = drawn(reach=1), drawn(reach=2)
    row = Row.of([3])
    torch.testing.assert_close(words(one, row), words(other, row))
    assert not torch.allclose(pairs(one, row), pairs(other, row))


def test_tags_are_refused() -> None:
    with pytest.raises(ValueError, match="labels whole texts, not their words"):
        LinearConfig(vocab=3, classes=2, per_token=True)
