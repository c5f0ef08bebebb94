"""The examples of attention have the numbers of the courses, and controls that show no effect."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.cli import run
from regard.lab.attention import dictionary, masking, merging, permutation, scaling, worked
from regard.lab.attention.examples import EXAMPLES, run_example
from regard.lab.demonstration import Demonstration

MASKS = ("both directions", "causal", "window of 1", "causal window of 1", "padding")


def matrix(demonstration: Demonstration, title: str) -> np.ndarray:
    """Return the matrix of this title."""
    matrices = [*demonstration.matrices, *demonstration.tables]
    return np.array(next(candidate.values for candidate in matrices if candidate.title == title))


def test_thinking_machines_has_the_numbers_of_the_course():
    [table] = worked.thinking_machines().tables
    assert [row[:2] for row in table.values] == [[112, 14], [96, 12]]
    assert [round(row[2], 2) for row in table.values] == [0.88, 0.12]
    assert table.values[1][3] == pytest.approx(math.exp(-16), rel=1e-6)


def test_the_big_dog_has_the_numbers_of_the_course():
    mixed = matrix(worked.big_dog(), "Weights times vectors")
    np.testing.assert_allclose(mixed, [[0.35, -0.12], [0.10, 0.46], [0.13, 0.42]], atol=0.01)
    weights = np.array([[0.50, 0.20, 0.30], [0.12, 0.45, 0.43], [0.15, 0.42, 0.43]])
    np.testing.assert_allclose(mixed, weights @ [[0.50, -0.87], [-0.70, 0.70], [0.81, 0.59]], atol=1e-12)


def test_tokens_as_columns_give_the_transpose_of_tokens_as_rows():
    shown = worked.columns_and_rows()
    np.testing.assert_allclose(
        matrix(shown, "V softmax(K'Q / 2)"), matrix(shown, "softmax(QK' / 2) V, tokens as rows").T, atol=1e-12
    )
    assert matrix(shown, "X: a column is a token").shape == (3, 4)


def test_vectors_of_a_reader_are_attended_to_as_numpy_would():
    query, key, value = np.random.randn(2, 3), np.random.randn(4, 3), np.random.randn(4, 5)
    shown = worked.attend_to_vectors(query.tolist(), key.tolist(), value.tolist())
    shares = np.exp(query @ key.T / math.sqrt(3))
    expected = shares / shares.sum(1, keepdims=True) @ value
    np.testing.assert_allclose(matrix(shown, "Weighted means of the values"), expected, atol=1e-12)


def test_a_soft_dictionary_ends_as_a_lookup_and_begins_as_a_mean():
    assert dictionary.look_up("wolf", 0.0)[1] == pytest.approx(np.mean(list(dictionary.WEIGHTS_OF_ANIMALS.values())))
    for word, weight in dictionary.WEIGHTS_OF_ANIMALS.items():
        assert dictionary.look_up(word, 1e4)[1] == pytest.approx(weight)


def test_the_gradient_through_the_softmax_is_that_of_autograd():
    scores = torch.randn(5, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)
    assert float(scaling.softmax_gradient(scores.softmax(-1))) == pytest.approx(float(jacobian.norm()))


def test_scores_deviate_by_the_root_of_the_width_unless_divided_by_it():
    [table] = scaling.compare_depths().tables
    values = np.array(table.values)
    np.testing.assert_allclose(values[:, 0], np.sqrt(scaling.DEPTHS), rtol=0.03)
    np.testing.assert_allclose(values[:, 3], 1, rtol=0.03)
    assert values[-1, 2] < 0.25 * values[0, 2]  # the gradient vanishes
    assert values[-1, 5] > 0.9 * values[0, 5]  # and does not where scores are divided


@pytest.mark.parametrize("words", [("dog", "bites", "man"), ("a", "b", "a", "c", "d")])
def test_order_changes_outputs_only_where_there_are_positions(words):
    for measurement in permutation.reverse_words(words).measurements:
        assert measurement.value > 1e-3
        assert measurement.control < 1e-12


def test_masks_hide_what_they_say():
    shown = masking.compare_masks()
    length = len(masking.WORDS)
    visible = {title: matrix(shown, title) > 0 for title in MASKS}
    assert visible["both directions"].all()
    assert (visible["causal"] == np.tril(np.ones((length, length), bool))).all()
    distance = np.abs(np.subtract.outer(range(length), range(length)))
    assert (visible["window of 1"] == (distance <= 1)).all()
    assert (visible["causal window of 1"] == (visible["causal"] & visible["window of 1"])).all()
    assert visible["padding"][:, :length].all()
    assert not visible["padding"][:, length:].any()
    assert [measurement.control for measurement in shown.measurements] == [0, 0]
    assert all(measurement.value > 1e-3 for measurement in shown.measurements)


def test_heads_put_side_by_side_are_those_of_torch_and_added_ones_have_no_order():
    shown = merging.merge_heads()
    layer = nn.MultiheadAttention(merging.WIDTH, merging.HEADS)
    counts = matrix(shown, "4 heads, 16 wide")
    assert counts[0].tolist() == [
        sum(p.numel() for p in layer.out_proj.parameters()),
        sum(p.numel() for p in layer.parameters()),
    ]
    assert counts[1, 0] == merging.WIDTH * merging.WIDTH // merging.HEADS + merging.WIDTH
    [measurement] = shown.measurements
    assert measurement.value > 0.01
    assert measurement.control < 1e-12


# The command.


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_prints_a_number_with_its_control(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["lab", "attention", name]) == 0
    printed = capsys.readouterr().out
    assert "\ncontrol " in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert all(measurement.value != measurement.control for measurement in run_example(name).measurements)


@pytest.mark.parametrize("name", ["masks", "dictionary"])
def test_examples_are_drawn(name, tmp_path, capsys):
    assert run(["lab", "attention", name, "-o", str(tmp_path / "a.png")]) == 0
    assert "a.png: " in capsys.readouterr().out
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_vectors_can_be_typed(capsys):
    assert run(["lab", "attention", "--keys", "1 0; 0 1", "--values", "10; 20", "--words", "yes no", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    weight = 1 / (1 + math.exp(-1 / math.sqrt(2)))
    means = record["matrices"][-1]
    assert means["rows"] == ["yes", "no"]
    assert means["values"][0] == pytest.approx([10 * weight + 20 * (1 - weight)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["maks"], "unknown example maks, did you mean masks?"),
        (["--keys", "1 0; x 1"], "--keys '1 0; x 1': x is no number: write vectors as \"1 0; 0.5 -2\""),
        (["--keys", "1 0; 1"], "--keys '1 0; 1': give every vector as many numbers, at least one"),
        (["--keys", "1 nan"], "--keys '1 nan': give numbers from -1,000 to 1,000"),
        (["--queries", "1"], 'give --keys too, such as --keys "1 0; 0 1"'),
        (["--keys", "1 0", "--queries", "1"], "--queries have 1 features and --keys 2: give them as many"),
        (["--keys", "1; 2", "--values", "1"], "--values: 1 vectors for 2 keys: give one for each key"),
        (["--keys", "1; 2", "--words", "a"], "--words: 1 words for 2 keys: give one for each key"),
        (["masks", "--words", "a " * 13], "--words: give at most 12 words of at most 20 letters"),
        (["permutation", "--words", "alone"], "--words 'alone': give words that are others in reverse order"),
        (["dictionary", "--words", "cow"], "--words 'cow': give one key of the dictionary, cat, dog, wolf, horse"),
        (["root", "--keys", "1"], "root has vectors of its own: leave it out, or --queries, --keys and --values"),
    ],
)
def test_what_cannot_be_attended_to_is_refused_in_one_line(words, message, capsys):
    assert run(["lab", "attention", *words]) == 1
    assert capsys.readouterr().err == f"regard: {message}\n"
