"""What explain shows and writes: numbers that are whole and add up, columns that tell something, links, a page."""

import csv
import io
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
    training = SMALL["training"] | {"steps": 2, "eval_every": 2, "save_every": 2}
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
    message = " ".join(lines[: lines.index("")])
    for words in (
        r"Alignment: .* \(error rate 0\.\d{3}; diagonal",
        r"Adjectives: .* \d+% \(",
        rf"Articles: .* \d+% of {articles}\b",
    ):
        assert re.search(words, message)
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
    stated_numbers = [float(number) for number in re.findall(r"0\.\d{3}", table["finding"])]
    assert stated_numbers[:4] == [round(value, 3) for value in (best["AER"], *controls)]
    verdict = "better than every control" if best["AER"] < min(controls) else "no better than its controls"
    assert verdict in table["finding"]
    assert {rows[number]["shift"] for number in table["main"]} == {best["shift"]}
    shown = [rows[number]["weights"] for number in table["main"]]
    assert not any(" head " in name for name in shown if not name.startswith("best head"))


def test_the_matrix_is_also_json(recurrent, capsys):
    assert run(["explain", str(recurrent), "chat", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["columns"] == list("chat")
    assert len(result["weights"]) == len(result["rows"])
    assert all(len(line) == 4 and 0 <= sum(line) <= 1.0001 for line in result["weights"])


def test_a_single_word_of_many_letters_is_shown_letter_by_letter(recurrent, capsys):
    assert run(["explain", str(recurrent), "chat"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == list("chat")
    assert run(["explain", str(recurrent), "chat", "--level", "word"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["chat"]
    assert run(["explain", str(recurrent), "le chat"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["le", "chat"]


def test_explain_shows_a_matrix_links_arithmetic_and_writes_a_page(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = "Le chat noir dort."
    assert run(["explain", str(trained), text]) == 0
    assert "decoder.0.cross" in capsys.readouterr().out
    assert run(["explain", str(trained), text, "--alignments"]) == 0
    assert "-" in capsys.readouterr().out
    assert run(["explain", str(trained), text, "--step", "1"]) == 0
    assert "softmax" in capsys.readouterr().out
    for name in ("page.html", "picture.png", "picture.svg", "trace.json"):
        assert run(["explain", str(trained), text, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 500
    capsys.readouterr()
    for wrong in (["--head", "9"], ["--attention", "nowhere"]):
        assert run(["explain", str(trained), text, *wrong]) == 1
        out, error = capsys.readouterr()
        assert (out, error.count("\n"), error[:8]) == ("", 1, "regard: ")


def test_explain_writes_a_table_that_adds_up_and_numbers_that_agree_with_it(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shown = ["explain", str(trained), "Le chat noir dort.", "--level", "subword", "--specials"]
    assert run([*shown, "-o", str(tmp_path / "looks.csv")]) == 0
    with (tmp_path / "looks.csv").open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    assert head[-1] == "<eos>"
    assert lines[-1][0] == "<eos>"
    for line in lines:
        assert sum(map(float, line[1:])) == pytest.approx(1.0, abs=1e-5)
    capsys.readouterr()
    assert run([*shown, "--numbers"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [int(cell) for cell in printed[2].split()[1:]] == [round(100 * float(cell)) for cell in lines[0][1:]]


def test_explain_judges_links_made_by_hand_and_links_many_lines(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    text = "Le chat noir dort."
    assert run(["explain", str(trained), text, "--alignments"]) == 0
    links = capsys.readouterr().out.strip()
    assert run(["explain", str(trained), text, "--gold", links]) == 0
    assert "AER of this sentence: 0.000" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run(["explain", str(trained), text, "--gold", links, "-o", str(page)]) == 0
    assert "AER of the diagonal" in page.read_text(encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{text}\nLe roi dort.\n".encode())))
    capsys.readouterr()
    assert run(["explain", str(trained), "--alignments", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == links
    assert run(["explain", str(trained), "--alignments"]) == 1
    assert "give one input" in capsys.readouterr().err
    assert run(["explain", str(trained), text, "--gold", links, "--attention", "encoder.0.attention"]) == 1
    assert "looks at one side only" in capsys.readouterr().err


@pytest.mark.unchecked
def test_explain_measures_heads_for_a_file_or_a_page(
    trained: Path, few_aligned: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["explain", str(trained), "--measures", "--to", "en", "-o", str(tmp_path / "heads.json")]) == 0
    titles = [table["title"] for table in json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))]
    assert "Heads that follow a relation of grammar" in titles
    page = tmp_path / "page.html"
    assert run(["explain", str(trained), "Le roi dort.", "--measures", "--to", "en", "-o", str(page)]) == 0
    assert '"article to noun":{"encoder.0.attention"' in page.read_text(encoding="utf-8")
    wrong = {
        ("Le roi dort.",): "takes no text, or a text and -o page.html",
        ("-o", "x.csv"): "measures are written as .json",
        ("-o", "x.html"): "takes no text, or a text and -o page.html",
    }
    for words, message in wrong.items():
        assert run(["explain", str(trained), "--measures", "--to", "en", *words]) == 1
        assert message in capsys.readouterr().err
