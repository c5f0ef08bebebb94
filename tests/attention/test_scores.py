"""Every score against plain arithmetic, and the same answer however the tokens are laid out."""

import math

import numpy as np
import pytest
import torch

from regard.attention.attend import PLAIN, AttentionSpec, attend, weigh
from regard.attention.masks import EVERYONE, Grid, Row, Stepping, neighbours, packed, padded, stepping
from regard.attention.scores import Additive, Bilinear, Graph, cosine, dot, scaled_dot

HEADS, DEPTH = 2, 4


def by_hand(name, score, query, key, head):
    """The score of one query and one key, in plain float64."""
    numbers = {n: p.detach().numpy()[head] for n, p in score.named_parameters()} if hasattr(score, "parameters") else {}
    match name:
        case "dot":
            return sum(a * b for a, b in zip(query, key, strict=True))
        case "scaled dot":
            return np.dot(query, key) / math.sqrt(DEPTH)
        case "cosine":
            return np.dot(query, key) / (np.sqrt((query**2).sum()) * np.sqrt((key**2).sum()))
        case "bilinear":
            return query @ numbers["weight"] @ key
        case "additive":
            return numbers["vector"] @ np.tanh(numbers["query"].T @ query + numbers["key"].T @ key)
        case "graph":
            both = np.concatenate([numbers["query"][:, 0], numbers["key"][:, 0]]) @ np.concatenate([query, key])
            return both if both > 0 else 0.2 * both


MAKERS = {
    "dot": lambda: dot,
    "scaled dot": lambda: scaled_dot,
    "cosine": lambda: cosine,
    "bilinear": lambda: Bilinear(DEPTH, DEPTH, heads=HEADS).double(),
    "additive": lambda: Additive(DEPTH, DEPTH, 5, heads=HEADS).double(),
    "graph": lambda: Graph(DEPTH, heads=HEADS).double(),
}


def answers(name, score, query, key, value):
    """Attention of one sequence by hand: (heads, query, features)."""
    query, key, value = query.numpy(), key.numpy(), value.numpy()
    scores = np.array(
        [[[by_hand(name, score, q, k, head) for k in key[head]] for q in query[head]] for head in range(HEADS)]
    )
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return torch.from_numpy(shares / shares.sum(-1, keepdims=True) @ value)


@pytest.mark.parametrize("name", MAKERS)
def test_a_score_is_its_formula(name):
    score = MAKERS[name]()
    query, key = torch.randn(3, HEADS, 5, DEPTH).double(), torch.randn(3, HEADS, 4, DEPTH).double()
    scores = score(query, key)
    assert scores.shape == (3, HEADS, 5, 4)
    for place in np.ndindex(*scores.shape):
        batch, head, i, j = place
        expected = by_hand(name, score, query[batch, head, i].numpy(), key[batch, head, j].numpy(), head)
        assert scores[place].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["bilinear", "additive"])
def test_query_and_key_may_have_different_depths(name):
    score = (Bilinear(3, 5) if name == "bilinear" else Additive(3, 5, 4)).double()
    query, key = torch.randn(1, 2, 3).double(), torch.randn(1, 6, 5).double()
    expected = by_hand(name, score, query[0, 1].numpy(), key[0, 4].numpy(), 0)
    assert score(query, key)[0, 1, 4].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_every_score_serves_a_batch_a_row_an_edge_list_and_a_decoding_step_alike(name):
    score, lengths = MAKERS[name](), [3, 1, 4]
    query, key = torch.randn(2, HEADS, sum(lengths), DEPTH).double()
    value = torch.randn(HEADS, sum(lengths), 3).double()
    way, row = AttentionSpec(score=score), Row.of(lengths)
    parts = [tensor.split(lengths, dim=1) for tensor in (query, key, value)]
    expected = torch.cat([answers(name, score, q, k, v) for q, k, v in zip(*parts, strict=True)], dim=1)

    assert torch.allclose(attend(query, key, value, mask=packed(row), way=way), expected, atol=1e-12)

    ends, starts = (row.segment[:, None] == row.segment).nonzero().T
    shuffled = torch.randperm(len(ends))
    edges = neighbours(ends[shuffled], starts[shuffled], nodes=sum(lengths))
    assert torch.allclose(attend(query, key, value, mask=edges, way=way), expected, atol=1e-12)

    def batch(parts):
        return torch.stack(
            [torch.cat([p, 99 * torch.ones(HEADS, 4 - p.shape[1], p.shape[2]).double()], 1) for p in parts]
        )

    grid = Grid(torch.tensor(lengths), 4)
    together = attend(*(batch(part) for part in parts), mask=padded(grid), way=way)
    for line, (length, answer) in enumerate(zip(lengths, expected.split(lengths, dim=1), strict=True)):
        assert torch.allclose(together[line, :, :length], answer, atol=1e-12)

    # The newest token of every sequence, all before it being a prompt of its own length in a room for three.
    newest, prompts = row.offsets[1:].long() - 1, torch.tensor(lengths) - 1
    where = Stepping.begin(prompts, beams=1, limit=2, room=3).advance()

    def cached(parts):
        cache = torch.full((3, HEADS, 3 + 1, parts[0].shape[2]), 99.0).double()
        for line, part in enumerate(parts):
            cache[line, :, : part.shape[1] - 1], cache[line, :, 3] = part[:, :-1], part[:, -1]
        return cache

    step = attend(
        query[:, newest].transpose(0, 1)[:, :, None], cached(parts[1]), cached(parts[2]), mask=stepping(where), way=way
    )
    assert torch.allclose(step[:, :, 0].transpose(0, 1), expected[:, newest], atol=1e-12)


def test_dividing_by_the_root_of_the_depth_keeps_the_second_key_in_sight():
    query = torch.ones(1, 64)
    key = torch.tensor([[112 / 64], [96 / 64]]).expand(2, 64)
    assert dot(query, key).tolist() == [[112, 96]]
    assert scaled_dot(query, key).tolist() == [[14, 12]]
    scaled, unscaled = weigh(scaled_dot(query, key))[0], weigh(dot(query, key))[0]
    assert [round(share, 4) for share in scaled.tolist()] == [0.8808, 0.1192]
    assert round(unscaled[0].item(), 4) == 1.0
    assert unscaled[1].item() == pytest.approx(1.125e-7, rel=1e-3)


def test_many_queries_get_what_each_would_get_alone():
    query, key, value = torch.randn(1, 5, 4), torch.randn(1, 7, 4), torch.randn(1, 7, 3)
    together = attend(query, key, value)
    for i in range(5):
        scores = (query[0, i] * key[0]).sum(-1) / 2
        expected = sum(share * row for share, row in zip(scores.softmax(0), value[0], strict=True))
        assert torch.allclose(together[0, i], expected, atol=1e-6)
        assert torch.allclose(attend(query[:, i : i + 1], key, value)[0, 0], expected, atol=1e-6)


@pytest.mark.parametrize("score", [scaled_dot, dot, cosine])
def test_a_soft_dictionary_hardens_into_a_plain_one(score):
    words = ["chat", "chien", "loup", "roi"]
    plain = {word: torch.randn(3) for word in words}
    keys = dict(zip(words, torch.eye(4), strict=True))
    asked = ["roi", "chat", "roi"]
    expected = torch.stack([plain[word] for word in asked])
    key, value = torch.stack([*keys.values()])[None], torch.stack([*plain.values()])[None]

    def answer(sharpness):
        def sharp(query, key):
            return sharpness * score(query, key)

        return attend(torch.stack([keys[word] for word in asked])[None], key, value, way=AttentionSpec(score=sharp))[0]

    assert torch.allclose(answer(0), value.mean(1).expand(3, -1), atol=1e-6)
    errors = [(answer(sharpness) - expected).abs().max().item() for sharpness in (0, 1, 4, 16, 64)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1
    assert errors[-1] < 1e-6


def test_the_worked_matrix_of_weights_mixes_the_worked_values():
    weights = torch.tensor([[0.50, 0.20, 0.30], [0.12, 0.45, 0.43], [0.15, 0.42, 0.43]])
    value = torch.tensor([[[0.50, -0.87], [-0.70, 0.70], [0.81, 0.59]]])
    way = AttentionSpec(score=lambda query, key: weights[None].log())  # each row sums to 1, so its softmax is itself
    mixed = attend(torch.zeros(1, 3, 2), torch.zeros(1, 3, 2), value, way=way)[0]
    expected = [[0.353, -0.118], [0.093, 0.464], [0.129, 0.417]]
    assert [[round(number, 3) for number in row] for row in mixed.tolist()] == expected


def test_tokens_as_columns_give_the_transpose_of_tokens_as_rows():
    query, key, value = np.random.randn(4, 3), np.random.randn(4, 5), np.random.randn(2, 5)
    shares = np.exp(key.T @ query / math.sqrt(4))
    columns = value @ (shares / shares.sum(0))  # V softmax(K' Q / sqrt d), each column a query
    rows = attend(*(torch.from_numpy(np.ascontiguousarray(side.T))[None] for side in (query, key, value)))
    assert np.allclose(rows[0].numpy().T, columns, atol=1e-12)


def test_looking_without_a_mask_leaves_nothing_behind():
    for length in (2, 3):
        attend(*torch.randn(3, 1, length, 4), mask=EVERYONE, way=PLAIN)
        attend(*torch.randn(3, 1, length, 4), mask=EVERYONE, way=AttentionSpec(score=dot))
    assert EVERYONE.memory == {}
