"""What explain shows in a terminal: numbers that are whole, and columns that tell something."""

import json
import re
from pathlib import Path

import pytest

from regard import recipe
from regard.cli import run
from tests.conftest import SMALL, sentences

RECURRENT = {"name": "seq2seq", "cell": "gru", "width": 16, "embedding": 16, "attention": "bahdanau"}


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator of letters that is hardly trained, a GRU with attention."""
    place = tmp_path_factory.mktemp("looking")
    for side, texts in zip(("fr", "en"), zip(*sentences(), strict=True), strict=True):
        (place / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = {"source": str(place / "train.fr"), "target": str(place / "train.en")}
    training = SMALL["training"] | {"steps": 2, "evaluate": 2, "save": 2}
    settings = {**SMALL, "data": {**SMALL["data"], "train": files}, "model": RECURRENT, "training": training}
    settings["tokenizer"] = {"kind": "characters"}
    return recipe.train(settings, out=place / "run", quiet=True).folder


@pytest.fixture
def every_pair() -> None:
    """All sentences aligned by hand."""


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("kind", "pairs", "articles"),
    [pytest.param("trained", "every_pair", 54, marks=pytest.mark.slow), ("recurrent", "few_aligned", 6)],
)
def test_measures_begin_with_sentences_and_fit_the_terminal_with_every_number_whole(
    kind, pairs, articles, request, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    request.getfixturevalue(pairs)
    model = request.getfixturevalue(kind)
    assert run(["explain", str(model), "--measures", "--to", "en"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 80
    assert max(map(len, lines)) <= 80
    said = " ".join(lines[: lines.index("")])
    for words in (
        r"Alignment: .* \(error rate 0\.\d{3}; diagonal",
        r"Adjectives: .* \d+% \(",
        rf"Articles: .* \d+% of {articles}\b",
    ):
        assert re.search(words, said)
    shown = " ".join(lines)
    for word in ("precision", "recall", "permuted", "diagonal", "uniform", "exchanged"):
        assert f" {word} " in f"{shown} "
    means = [line.split() for line in lines if ", mean " in line]
    numbers = [word for line in means for word in line if "." in word and word[0].isdigit()]
    assert numbers
    assert all(len(number.split(".")[1]) == 3 for number in numbers)
    assert "…" not in shown


@pytest.mark.unchecked
def test_what_the_sentences_say_is_what_the_tables_hold(trained, few_aligned, capsys):
    assert run(["explain", str(trained), "--measures", "--to", "en", "--json"]) == 0
    tables = {table["title"].split(" of ")[0]: table for table in json.loads(capsys.readouterr().out)}
    table = tables["Alignment"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert any(row["weights"].endswith("head 0") for row in rows), "every head is in the JSON"
    best = min((row for row in rows if row["weights"].endswith(", mean")), key=lambda row: row["AER"])
    controls = [best[f"AER {name}"] for name in ("diagonal", "permuted", "uniform")]
    told = [float(number) for number in re.findall(r"0\.\d{3}", table["finding"])]
    assert told[:4] == [round(value, 3) for value in (best["AER"], *controls)]
    verdict = "better than every control" if best["AER"] < min(controls) else "no better than its controls"
    assert verdict in table["finding"]
    assert {rows[number]["shift"] for number in table["main"]} == {best["shift"]}
    shown = [rows[number]["weights"] for number in table["main"]]
    assert not any(" head " in name for name in shown if not name.startswith("best head"))


def test_the_matrix_is_also_json(recurrent, capsys):
    assert run(["explain", str(recurrent), "chat", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"] == list("chat")
    assert len(told["weights"]) == len(told["rows"])
    assert all(len(line) == 4 and 0 <= sum(line) <= 1.0001 for line in told["weights"])


def test_a_single_word_of_many_letters_is_shown_letter_by_letter(recurrent, capsys):
    assert run(["explain", str(recurrent), "chat"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == list("chat")
    assert run(["explain", str(recurrent), "chat", "--level", "word"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["chat"]
    assert run(["explain", str(recurrent), "le chat"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["le", "chat"]
