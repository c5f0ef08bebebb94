"""What single heads do: values computed by hand, and heads made to follow a relation are named after it."""

import math

import pytest
import torch
from torch import Tensor

from regard.interpret.measure.patterns import diagonality, entropy, measure_heads, rollout
from regard.interpret.trace import Item, Trace, Weights

SIZE = 5


def trace(*heads: Tensor, name: str = "encoder.0.attention", query: str = "source", key: str = "source") -> Trace:
    pieces = [Item("a", 0), Item("b", 1), Item("c", 1), Item("d", 2), Item("<eos>", special=True)]
    items = {"source": pieces, "target": pieces, "fed": pieces}
    return Trace("made", "translation", items, [Weights(name, query, key, torch.stack(heads))])


def follow(offset: int) -> Tensor:
    """All the weight so many keys away, or on oneself where there is no such key."""
    weights = torch.zeros(SIZE, SIZE)
    for row in range(SIZE):
        weights[row, row + offset if 0 <= row + offset < SIZE else row] = 1.0
    return weights


EVEN = torch.full((SIZE, SIZE), 1 / SIZE)


def test_entropy_counts_bits_of_choice():
    weights = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0.0]]])
    assert entropy(weights)[0].tolist() == pytest.approx([0.0, 2.0, 1.5])


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3)])
def test_diagonality_is_one_on_the_diagonal_and_zero_for_an_even_look(shape: tuple[int, int]):
    queries, keys = shape
    straight = torch.zeros(queries, keys)
    for row in range(queries):
        height = (row + 0.5) / queries
        straight[row, min(range(keys), key=lambda key: abs((key + 0.5) / keys - height))] = 1.0
    crossed, even = straight.flip(-1), torch.full(shape, 1 / keys)
    one, zero, less = diagonality(torch.stack([straight, even, crossed])).tolist()
    assert one == pytest.approx(1.0, abs=1e-6)
    assert zero == pytest.approx(0.0, abs=1e-5)
    assert less < 0


def test_diagonality_is_the_same_for_rows_that_hide_a_part_of_their_weight():
    weights = torch.rand(2, 4, 5)
    assert torch.allclose(diagonality(weights), diagonality(0.3 * weights), atol=1e-5)


def test_a_head_is_named_after_the_relation_it_follows():
    last = torch.zeros(SIZE, SIZE)
    last[:, -1] = 1.0
    heads = measure_heads([trace(follow(0), follow(-1), follow(1), last, EVEN)] * 2)
    assert [head.role for head in heads] == ["itself", "previous token", "next token", "last token", None]
    assert heads[1].relations["previous token"].value == 1.0
    assert heads[1].relations["previous token"].even == pytest.approx(1 / SIZE)
    assert heads[1].relations["previous token"].places == 2 * (SIZE - 1)
    assert heads[4].entropy.value == pytest.approx(heads[4].entropy.even) == pytest.approx(math.log2(SIZE))


def test_pieces_of_one_word_are_a_relation():
    weights = follow(0)
    weights[1], weights[2] = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
    [head] = measure_heads([trace(weights)])
    assert head.relations["rest of its word"].value == 1.0
    assert head.relations["rest of its word"].places == 2
    assert head.role == "rest of its word"


def test_a_decoder_is_held_against_an_even_look_at_its_past_only():
    even = torch.ones(SIZE, SIZE).tril() / torch.arange(1, SIZE + 1)[:, None]
    [head] = measure_heads([trace(even, name="decoder.0.attention", query="target", key="fed")])
    assert head.entropy.value == pytest.approx(head.entropy.even)
    assert set(head.relations) == {"itself", "previous token", "first token", "rest of its word"}
    for mean in head.relations.values():
        assert mean.value == pytest.approx(mean.even)
    assert head.role is None


def test_heads_that_look_across_have_a_diagonality_and_no_relations():
    [head] = measure_heads([trace(follow(0), name="decoder.0.cross", query="target", key="source")])
    assert head.diagonality == pytest.approx(1.0)
    assert head.relations == {}


def test_rollout_multiplies_layers_mixed_with_the_identity():
    first, second = torch.tensor([[0.5, 0.5], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    items = {"source": [Item("a", 0), Item("b", 1)]}
    layers = [Weights(f"encoder.{n}.attention", "source", "source", one[None]) for n, one in ((1, second), (0, first))]
    rolled = rollout(Trace("made", "translation", items, layers))
    # layer 0: [[0.75, 0.25], [0, 1]]; layer 1: [[0.5, 0.5], [0.5, 0.5]]; the product by hand:
    assert torch.allclose(rolled, torch.tensor([[0.375, 0.625], [0.375, 0.625]]))
    assert torch.allclose(rollout(trace(follow(0), follow(0))), torch.eye(SIZE))


def test_rollout_of_a_stack_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no self-attention of a stack called decoder"):
        rollout(trace(EVEN), "decoder")
