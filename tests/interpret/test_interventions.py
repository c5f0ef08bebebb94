"""Silenced heads and words left out: equal to models and texts made without them."""

from pathlib import Path

import pytest
import torch

import regard
from regard.attention.masks import causal
from regard.attention.multihead import MultiHead
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.interventions import ablate_head, ablate_heads, agreement, answer_loss, deletions, kendall

CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "format-1"
PAIRS = [("Le chat noir dort.", "The black cat sleeps."), ("Le loup court vite !", "The wolf runs fast!")]
WIDTH, HEADS = 8, 2


@pytest.fixture(scope="module")
def reader() -> ForcedReader:
    return ForcedReader(regard.load(CHECKPOINT))


@pytest.fixture
def attention() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(MultiHead(WIDTH, HEADS))


def without(attention: torch.nn.Sequential, part: str, head: int) -> MultiHead:
    """The same attention with zeros where this head projects its values or queries."""
    other = MultiHead(WIDTH, HEADS)
    other.load_state_dict(attention[0].state_dict())
    own = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
    with torch.no_grad():
        getattr(other, part).weight[own] = 0.0
        getattr(other, part).bias[own] = 0.0
    return other


@pytest.mark.parametrize("head", range(HEADS))
@pytest.mark.parametrize(("way", "part"), [("silent", "value"), ("even", "query")])
def test_an_ablated_head_is_one_without_values_or_without_queries(attention, head: int, way, part: str):
    x = torch.randn(3, 5, WIDTH)
    for mask in ({}, {"mask": causal()}):
        with ablate_head(attention, "0", head, way=way):
            changed = attention[0](x, **mask)
        assert torch.allclose(changed, without(attention, part, head)(x, **mask), atol=1e-6)
        assert not torch.allclose(changed, attention[0](x, **mask), atol=1e-4)


def test_after_the_block_the_head_is_back(attention: torch.nn.Sequential):
    x = torch.randn(2, 4, WIDTH)
    before = attention[0](x)
    with pytest.raises(ZeroDivisionError), ablate_head(attention, "0", 1):
        raise ZeroDivisionError
    assert torch.equal(attention[0](x), before)
    assert not attention[0].weights.is_watched


@pytest.mark.parametrize(("where", "head", "message"), [("1", 0, "there are 0"), ("0", 2, "heads 0 to 1, not 2")])
def test_what_is_not_there_cannot_be_silenced(attention, where: str, head: int, message: str):
    with pytest.raises(ValueError, match=message), ablate_head(attention, where, head):
        pass


def test_every_head_of_a_model_has_an_effect_measured(reader: ForcedReader):
    loss = answer_loss(reader, PAIRS)
    found = ablate_heads(reader.model, loss)
    heads = [(one.where, one.head) for one in found]
    names = "encoder.0.attention", "decoder.0.attention", "decoder.0.cross"
    assert heads == [(name, head) for name in names for head in range(2)]
    with ablate_head(reader.model, "decoder.0.cross", 1):
        silent = loss()
    assert found[-1].silent == pytest.approx(silent - loss(), abs=1e-5)
    assert max(one.silent for one in found) > 0.01


def test_the_loss_is_the_mean_over_all_tokens(reader: ForcedReader):
    coded = [reader.encode(*pair) for pair in PAIRS]
    total = sum(reader.scores([read], [written])[0] for read, written in coded)
    assert answer_loss(reader, PAIRS)() == pytest.approx(
        -total / sum(len(written) + 1 for _, written in coded), abs=1e-5
    )


def test_a_deletion_costs_what_the_shorter_text_loses(reader: ForcedReader):
    source, target = PAIRS[0]
    costs = deletions(reader, source, target)
    assert len(costs) == 5
    read, written = reader.encode(source, target)
    shorter, _ = reader.encode("Le chat noir dort", target)
    whole, part = reader.scores([read, shorter], [written, written])
    assert costs[-1] == pytest.approx(whole - part, abs=1e-4)


def test_agreement_has_its_controls_beside_it(reader: ForcedReader):
    found = agreement(reader, [reader.look(*pair) for pair in PAIRS])
    methods = "decoder.0.cross", "mean of all", "mean of all, rolled out"
    assert tuple(one.method for one in found) == methods
    assert all(-1 <= number <= 1 for one in found for number in (one.value, one.permuted, one.letters))
    assert found[0].value == found[1].value  # one layer is its own mean
    assert {one.sentences for one in found} == {2}
    assert len({one.letters for one in found}) == 1
    assert agreement(reader, [reader.look(*pair) for pair in PAIRS]) == found


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ([1, 2, 3], [4, 5, 6], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 2, 2, 3], [1, 3, 2, 4], 5 / 30**0.5),  # five pairs agree, one is tied on the left
        ([1, 1, 1], [1, 2, 3], None),
        ([1], [1], None),
    ],
)
def test_kendalls_tau_is_that_computed_by_hand(first: list[int], second: list[int], tau: float | None):
    found = kendall(list(map(float, first)), list(map(float, second)))
    assert found == (None if tau is None else pytest.approx(tau))
