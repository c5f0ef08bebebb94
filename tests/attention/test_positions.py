"""What each way of telling places apart promises, and where it breaks its promise."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.attend import AttentionSpec, attend
from regard.attention.masks import Grid, Row, causal, packed, padded
from regard.attention.positions import (
    SCHEMES,
    ALiBi,
    Learned,
    Relative,
    Rotary,
    alibi_slopes,
    binary_table,
    integer_table,
    normalised_table,
    scheme,
    sinusoidal_table,
)
from regard.models.transformer import Transformer, TransformerConfig

CODES = {
    "normalised": normalised_table,
    "integer": integer_table,
    "binary": lambda length: binary_table(length, 10),
    "sinusoidal": lambda length: sinusoidal_table(length, 16),
    "sinusoidal_halves": lambda length: sinusoidal_table(length, 16, halves=True),
    "learned": lambda length: Learned(1000, 16).table.weight.detach()[:length],
}
PROPERTIES = {
    "deterministic": lambda code: torch.equal(code(20), code(20)),
    "unique": lambda code: (torch.cdist(code(50).double(), code(50).double()) + torch.eye(50)).min().item() > 1e-3,
    "bounded": lambda code: code(1000).abs().max().item() <= 1,
    "the same step in every length": lambda code: torch.allclose(
        (code(20)[1] - code(20)[0]).norm(), (code(50)[1] - code(50)[0]).norm(), atol=1e-6
    ),
    "the same step at every place": lambda code: torch.allclose(
        (code(20)[1:] - code(20)[:-1]).norm(dim=1), (code(20)[1] - code(20)[0]).norm(), atol=1e-5
    ),
}
TABLE = {  # in the order of PROPERTIES
    "normalised": (True, True, True, False, True),
    "integer": (True, True, False, True, True),
    "binary": (True, True, True, True, False),
    "sinusoidal": (True, True, True, True, True),
    "sinusoidal_halves": (True, True, True, True, True),
    "learned": (False, True, True, False, False),  # before training it is noise
}


@pytest.mark.parametrize("name", CODES)
def test_each_code_has_exactly_the_properties_it_is_known_for(name):
    found = {each: holds(CODES[name]) for each, holds in PROPERTIES.items()}
    assert found == dict(zip(PROPERTIES, TABLE[name], strict=True))


def test_a_binary_code_with_too_few_bits_repeats_itself():
    assert torch.equal(binary_table(16, 3)[:8], binary_table(16, 3)[8:])


def test_bit_k_flips_every_two_to_the_k_places():
    code = binary_table(64, 6)
    assert set(code.unique().tolist()) == {0.0, 1.0}
    for bit in range(6):
        flips = (code[1:, bit] != code[:-1, bit]).nonzero()[:, 0] + 1
        assert flips.tolist() == [place for place in range(1, 64) if place % 2**bit == 0]


def test_sinusoids_are_the_formula_of_the_paper():
    table = sinusoidal_table(40, 6)
    for place in range(40):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            assert table[place, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[place, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    halves = sinusoidal_table(40, 6, halves=True)
    assert torch.equal(halves, torch.cat([table[:, 0::2], table[:, 1::2]], dim=1))


@pytest.mark.parametrize("shift", [1, 7, 30])
def test_shifting_a_sinusoid_is_one_rotation_for_all_places(shift):
    width, table = 8, sinusoidal_table(100, 8).double().numpy()
    rotation = np.zeros((width, width))
    for i in range(0, width, 2):
        angle = shift / 10000 ** (i / width)
        rotation[i : i + 2, i : i + 2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    assert np.allclose(rotation @ rotation.T, np.eye(width))
    assert np.allclose(table[:-shift] @ rotation.T, table[shift:], atol=1e-6)


@settings(max_examples=10)
@given(query=st.integers(0, 30), key=st.integers(0, 30), shift=st.integers(0, 200))
def test_rotated_scores_see_distances_only(query, key, shift):
    rotary = Rotary(8).double()
    q, k = torch.randn(2, 1, 1, 8).double()

    def score(i, j):
        return (rotary.turn(q, torch.tensor([i])) * rotary.turn(k, torch.tensor([j]))).sum()

    assert torch.allclose(score(query, key), score(query + shift, key + shift), atol=1e-6)
    assert torch.allclose(rotary.turn(q, torch.tensor([query])).norm(), q.norm())


def test_rotation_is_multiplying_complex_numbers():
    vectors, places = torch.randn(3, 2, 5, 6).double(), torch.randint(0, 50, (3, 5))
    turned = Rotary(6).double().turn(vectors, places)
    numbers = torch.complex(vectors[..., :3], vectors[..., 3:])
    rates = 10000 ** (-torch.arange(3).double() / 3)
    expected = numbers * torch.exp(1j * places[:, None, :, None] * rates)
    assert torch.allclose(turned, torch.cat([expected.real, expected.imag], dim=-1), atol=1e-5)


def test_rotation_changes_scores_at_other_distances():
    rotary, (q, k) = Rotary(8), torch.randn(2, 1, 1, 8)
    near, far = (rotary.turn(k, torch.tensor([place])) for place in (0, 3))
    assert not torch.allclose((q * near).sum(), (q * far).sum(), atol=1e-3)


def test_odd_rotations_are_refused():
    with pytest.raises(ValueError, match="3 per head is odd"):
        Rotary(3)


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [0.5 * n for n in range(1, 17)]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
        (3, [4, 8, 2]),
    ],
)
def test_slopes_are_the_published_ones(heads, exponents):
    assert alibi_slopes(heads).tolist() == pytest.approx([2**-exponent for exponent in exponents])


def test_scores_fall_in_proportion_to_the_distance():
    bias = ALiBi(2).bias(torch.tensor([[0, -1, -2], [3, 2, 1]]))
    assert bias.shape == (2, 2, 3)
    assert bias[0].tolist() == [[0, -1 / 16, -2 / 16], [-3 / 16, -2 / 16, -1 / 16]]
    assert torch.allclose(bias[1] * 16, bias[0])


@pytest.mark.parametrize("backwards", [False, True])
def test_relative_buckets_are_exact_when_near_and_logarithmic_when_far(backwards):
    bucket = Relative(2, causal=backwards, buckets=32, furthest=128).bucket
    past = bucket(-torch.arange(0, 300)[None])[0]
    exact, last = (16, 31) if backwards else (8, 15)
    assert past[:exact].tolist() == [*range(exact)]
    assert past.diff().ge(0).all()
    assert past[128:].eq(last).all()
    assert past[exact:128].diff().bincount()[1:].sum() == last - exact  # every bucket is met once
    future = bucket(torch.arange(1, 300)[None])[0]
    assert torch.equal(future, torch.zeros_like(future) if backwards else past[1:] + 16)


@pytest.mark.parametrize("positions", [ALiBi(2), Relative(2, causal=False), Relative(2, causal=True)])
def test_biases_mean_the_same_in_every_length_and_layout(positions):
    short, long = causal().distance(3, 3), causal().distance(9, 9)
    assert torch.equal(positions.bias(short), positions.bias(long)[:, :3, :3])
    assert torch.equal(positions.bias(short), positions.bias(long)[:, 4:7, 4:7])  # nor does the place matter
    row = positions.bias(packed(Row.of([4, 3])).distance(7, 7))
    assert torch.equal(row[:, 4:, 4:], positions.bias(short))
    assert torch.equal(positions.bias(padded(Grid(torch.tensor([3]), 3)).distance(3, 3)), positions.bias(short))


def test_a_bias_is_added_to_scores_before_the_softmax():
    query, key, value = torch.randn(3, 2, 5, 4)
    positions = Relative(2, causal=False)
    torch.nn.init.normal_(positions.table.weight)
    distance = torch.arange(5)[None, :] - torch.arange(5)[:, None]
    added = torch.stack([positions.table.weight[positions.bucket(distance), head] for head in range(2)])
    expected = (query @ key.mT / 2 + added).softmax(-1) @ value
    assert torch.allclose(attend(query, key, value, way=AttentionSpec(bias=positions.bias)), expected, atol=1e-6)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_answers_to_the_same_three_questions(name):
    positions = scheme(name, width=8, heads=2, context=16, causal=True)
    places = torch.arange(5)
    added = positions.embed(places)
    turned = positions.turn(torch.ones(1, 2, 5, 4), places)
    felt = [
        added is not None and not torch.equal(added[0], added[1]),
        not torch.equal(turned[:, :, 0], turned[:, :, 1]),
        positions.biased,
    ]
    assert sum(felt) == (0 if name == "none" else 1)
    assert added is None or added.shape == (5, 8)
    if positions.biased:
        assert positions.bias(causal().distance(5, 5)).shape == (2, 5, 5)
    else:
        with pytest.raises(NotImplementedError, match="adds nothing to scores"):
            positions.bias(causal().distance(5, 5))


@pytest.mark.parametrize("lengths", [[5, 3], [2, 9], [1, 4]])
def test_a_normalised_place_is_a_share_of_its_own_text(lengths):
    positions = scheme("normalised", width=4, heads=2, context=64, causal=False)
    row, grid = Row.of(lengths, size=20), Grid(torch.tensor(lengths), max(lengths))
    in_row, in_grid = positions.embed(row.place, row.span), positions.embed(grid.place, grid.span)
    for number, length in enumerate(lengths):
        expected = normalised_table(length).expand(-1, 4)
        assert torch.equal(in_row[row.segment == number], expected)
        assert torch.equal(in_grid[number, :length], expected)


def test_a_normalised_step_means_something_else_in_every_length():
    model = Transformer(
        TransformerConfig(vocab=9, width=8, heads=2, hidden=8, encoder=1, positions="normalised")
    ).eval()
    steps = []
    for length in (3, 5):
        added = model.embedding(torch.full((1, length), 4), *_places(model, length))
        steps.append(added[0, 1] - added[0, 0])
    assert torch.allclose(steps[0], torch.full((8,), 1 / 2))
    assert torch.allclose(steps[1], torch.full((8,), 1 / 4))


def _places(model, length):
    grid = Grid(torch.tensor([length]), length)
    return grid.place, model.encoder_positions, grid.span


def test_only_learned_schemes_have_weights_and_no_table_is_saved():
    for name in SCHEMES:
        saved = scheme(name, width=8, heads=2, context=16, causal=True).state_dict()
        assert bool(saved) == (name in ("learned", "relative"))


def test_an_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown position scheme sinusoid: choose one of none, sinusoidal"):
        scheme("sinusoid", width=8, heads=2, context=16, causal=True)
