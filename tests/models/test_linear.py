"""The linear model counts words and pairs inside each text, and nothing across texts."""

from __future__ import annotations

import math

import pytest
import torch

from regard import config
from regard.attention.masks import Grid, Row
from regard.models import revive
from regard.models.linear import LinearConfig, LinearText
from regard.models.weights import weights


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


def weighed(**changes: int) -> LinearText:
    model = LinearText(LinearConfig(vocab=12, classes=3, buckets=64, dropout=0.0, scaling="ratio", **changes)).eval()
    torch.nn.init.normal_(model.table.weight)
    model.weigh([(torch.tensor(ALL), Row.of([3, 1, 4]), torch.tensor([0, 1, 0]))])
    return model


def test_a_feature_counts_by_how_much_oftener_texts_of_a_label_have_it() -> None:
    model = weighed(reach=1)
    texts, have = [2.0, 1.0, 0.0], {3: [2, 0], 4: [2, 0], 5: [1, 0], 6: [0, 1], 7: [0, 0]}
    for word, (first, second) in have.items():
        for label, (own, other) in enumerate([(first, second), (second, first)]):
            share = texts[label] / 3
            ratio = (own + 2 * share) / (other + 2 * (1 - share)) / (share / (1 - share))
            assert float(model.scale[word, label]) == pytest.approx(math.log(ratio), abs=1e-5)
    assert model.scale[:, 2].eq(1).all(), "a label without texts"
    found = model(torch.tensor([3, 4, 4]), Row.of([3]))
    table = model.table.weight * model.scale
    torch.testing.assert_close(found[0], (table[3] + table[4]) / 2**0.5, msg="each counts once")


def test_scaled_features_are_the_same_alone_and_in_a_row_and_of_a_model_that_was_saved() -> None:
    model = weighed(reach=3)
    alone = torch.cat([model(torch.tensor(text), Row.of([len(text)])) for text in TEXTS])
    torch.testing.assert_close(model(torch.tensor(ALL), Row.of([3, 1, 4])), alone)
    fixed = Row.of([3, 1, 4], size=10, segments=5, longest=4, most=4)
    torch.testing.assert_close(model(torch.tensor([*ALL, 7, 7]), fixed)[:3], alone)
    again = revive(config.plain(model.config), weights(model))
    torch.testing.assert_close(again(torch.tensor(ALL), Row.of([3, 1, 4])), alone)


def test_a_model_from_before_there_were_scales_is_read_as_it_was() -> None:
    model = drawn(reach=2)
    settings = {name: value for name, value in config.plain(model.config).items() if name != "scaling"}
    again = revive(settings, weights(model))
    assert not hasattr(again, "scale")
    torch.testing.assert_close(again(torch.tensor(ALL), Row.of([3, 1, 4])), model(torch.tensor(ALL), Row.of([3, 1, 4])))
