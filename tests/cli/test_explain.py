"""What explain shows in a terminal: numbers that are whole, and columns that tell something."""

from pathlib import Path

import pytest

from regard import recipe
from regard.cli import run
from tests.conftest import SMALL, sentences

RECURRENT = {"name": "recurrent", "cell": "gru", "width": 16, "embedding": 16, "attention": "bahdanau"}


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


@pytest.mark.parametrize("kind", ["trained", "recurrent"])
def test_measures_fit_the_terminal_with_every_number_whole(kind, request, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    model = request.getfixturevalue(kind)
    assert run(["explain", str(model), "--measures", "--to", "en"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    shown = " ".join(lines)
    for word in ("precision", "recall", "permuted", "diagonal", "uniform", "exchanged"):
        assert f" {word} " in f"{shown} "
    heads = [line.split() for line in lines if " head 0 " in line]
    numbers = [word for line in heads for word in line if "." in word and word[0].isdigit()]
    assert numbers
    assert all(len(number.split(".")[1]) in (2, 3) for number in numbers)
    assert "…" not in shown


def test_a_single_word_of_many_letters_is_shown_letter_by_letter(recurrent, capsys):
    assert run(["explain", str(recurrent), "chat"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == list("chat")
    assert run(["explain", str(recurrent), "chat", "--level", "word"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["chat"]
    assert run(["explain", str(recurrent), "le chat"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["le", "chat"]
