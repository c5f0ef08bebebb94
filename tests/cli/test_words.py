"""The commands for word vectors, from a line in a terminal to its answer."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from regard.cli import run
from regard.tasks.word2vec.vectors import WordVectors
from tests.tasks import words


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of six words in two clusters, with king - man + woman at queen."""
    names = ["man", "woman", "king", "queen", "tea", "coffee"]
    vectors = [[1, 0, 0.1], [1, 1, 0.1], [0.9, 0, 1], [0.9, 1, 1], [-1, 0.1, 0], [-1, 0.2, 0]]
    directory = tmp_path_factory.mktemp("words") / "model"
    WordVectors(names, np.array(vectors, np.float32)).save(directory)
    return directory


def output_of(capsys, *line: object) -> str:
    assert run([str(word) for word in line]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_similar_prints_neighbours(model, capsys):
    assert output_of(capsys, "words", "similar", model, "tea", "--count", 1) == "tea\n  0.995  coffee\n"
    result = json.loads(output_of(capsys, "words", "similar", model, "tea", "king", "--json"))
    assert result["tea"][0]["word"] == "coffee"
    assert len(result["king"]) == 5


def test_analogy_answers(model, capsys):
    assert output_of(capsys, "words", "analogy", model, "man", "woman", "king", "--count", 1).split()[1] == "queen"
    assert (
        json.loads(output_of(capsys, "words", "analogy", model, "man", "woman", "king", "--json"))[0]["word"] == "queen"
    )


def test_evaluate_scores_vectors_by_pairs_and_by_questions(model, tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("tea\tcoffee\t9\nman\ttea\t1\nman\twoman\t7\nman\tx\t3\n")
    (tmp_path / "questions.txt").write_text(
        ": royal\nman woman king queen\nman king woman queen\n: drinks\ntea coffee x y\n"
    )
    table = output_of(capsys, "evaluate", model, tmp_path / "pairs.tsv", tmp_path / "questions.txt")
    assert "1.000 over 3 of 4 pairs" in " ".join(table.split())
    assert re.search(r"royal +100\.0% +2 of 2", table)
    result = json.loads(output_of(capsys, "evaluate", model, tmp_path / "questions.txt", "--json"))
    assert result["metrics"]["analogies, %"]["score"] == 100
    assert result["questions"] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            ["words", "export", "{0}", "-o", "/nowhere/a.txt"],
            "/nowhere/a.txt: there is no folder /nowhere, make it first",
        ),
        (["words", "map", "{0}", "tea", "king", "man", "-o", "a.xyz"], "a.xyz: cannot draw a xyz file"),
        (["words", "map", "{0}", "tea", "-o", "a.png"], "a map of 1 word says nothing"),
        (
            ["words", "similar", "nowhere", "tea"],
            "no model at nowhere: give a run folder, a checkpoint directory or a file of",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(model, capsys, line, message):
    assert run([word.format(model) for word in line]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_map_draws_a_picture(model, tmp_path, capsys):
    output = output_of(capsys, "words", "map", model, "tea", "king", "--near", 2, "-o", tmp_path / "map.png")
    assert output.startswith(f"{tmp_path / 'map.png'}: 5 words in two directions, which show ") or "6 words" in output
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_vectors_go_out_as_text_and_come_back(model, tmp_path, capsys):
    assert "6 words, 3 numbers each; first man, woman" in output_of(capsys, "words", "export", model)
    output_of(capsys, "words", "export", model, "-o", tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text().splitlines()[:2] == ["6 3", "man 1 0 0.100000001"]
    output_of(capsys, "words", "export", tmp_path / "a.txt", "-o", tmp_path / "again")
    expected = output_of(capsys, "words", "similar", model, "king")
    assert output_of(capsys, "words", "similar", tmp_path / "again", "king") == expected
    assert output_of(capsys, "words", "similar", tmp_path / "a.txt", "king") == expected


def test_a_line_without_a_recipe_trains(tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    monkeypatch.chdir(tmp_path)
    words.write(tmp_path / "text.txt", lines=200)
    settings = ["task=word2vec", "data.train.path=text.txt", "model.width=8", "training.epochs=1", "model.sample=null"]
    assert "use it with: regard words similar runs/text WORD" in output_of(capsys, "train", *settings)
    assert output_of(capsys, "words", "similar", "runs/text", "nouna", "--count", 2).startswith("nouna\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["words", "similar", "MODEL", "coffe"], "did you mean coffee?"),
        (["words", "analogy", "MODEL", "a", "b"], "give three words"),
        (["words", "similar", "nowhere", "x"], "no model at nowhere"),
        (["words", "map", "MODEL", "tea", "king"], "name at least three"),
        (["words", "map", "MODEL", "tea", "king", "man", "--method", "no"], "take pca or tsne"),
        (["words", "map", "MODEL", "tea", "king", "man", "-o", "nowhere.xyz"], "cannot draw a xyz file"),
    ],
)
def test_a_mistake_is_said_in_one_line(model, line, message, capsys):
    assert run([str(model) if word == "MODEL" else word for word in line]) == 1
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_a_translator_has_no_word_vectors(capsys):
    from regard import recipe

    assert run(["words", "similar", str(recipe.shipped.models()["en-fr"].path), "word"]) == 1
    message = "is a translator; regard words similar needs a table of word vectors (try regard translate)"
    assert message in capsys.readouterr().err


def test_word_vectors_are_no_translator_and_have_nothing_to_look_at(model, capsys):
    assert run(["translate", str(model), "x"]) == 1
    message = "is a table of word vectors; regard translate needs a translator (try regard words similar)"
    assert message in capsys.readouterr().err
    assert run(["explain", str(model), "tea"]) == 1
    assert "no attention to look at" in capsys.readouterr().err
