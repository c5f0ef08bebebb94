"""Plain text in a terminal: a GPT, a BERT and a T5 are trained on it, used, measured and looked into."""

import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import regard
from regard.cli import run

pytestmark = pytest.mark.unchecked

LINES = ["the old wolf sleeps", "a dog runs", "the horse runs, the dog sleeps", "an old dog runs after the wolf"]
BRIEF = ["training.steps=2", "training.tensorboard=false", "data.context=32", "data.batch_size=4", "model.width=16"]
BRIEF += ["model.heads=2", "model.hidden=16", "tokenizer.kind=characters", "--device", "cpu"]
KINDS = {"gpt": [], "bert": ["--masked"], "t5": ["--task", "span-corruption", "model.encoder=1", "model.decoder=1"]}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book and a folder of notes."""
    place = tmp_path_factory.mktemp("plain")
    (place / "notes" / "deep").mkdir(parents=True)
    (place / "book.txt").write_text("".join(f"{line}\n" for line in LINES * 10))
    (place / "notes" / "one.txt").write_text("a wolf runs after the horse\n")
    (place / "notes" / "deep" / "two.md").write_text("the dog and the horse\n")
    (place / "notes" / "picture.png").write_bytes(b"\x89PNG")
    (place / "test.txt").write_text("".join(f"{line}\n" for line in LINES))
    return place


def train(desk: Path, kind: str, out: Path, *more: str) -> int:
    sizes = [] if kind == "t5" else ["model.depth=1"]
    files = ["--text", str(desk / "book.txt"), str(desk / "notes")]
    return run(["train", *files, *KINDS[kind], *BRIEF, *sizes, "--out", str(out), *more])


@pytest.fixture(scope="module")
def runs(desk: Path) -> dict[str, Path]:
    """A model of each kind, hardly trained."""
    for kind in KINDS:
        assert train(desk, kind, desk / "runs" / kind) == 0
    return {kind: desk / "runs" / kind for kind in KINDS}


def output_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def type_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_files_and_folders_make_a_model_of_the_kind_that_is_asked_for(runs, desk):
    tasks = {"gpt": "causal-lm", "bert": "masked-lm", "t5": "span-corruption"}
    for kind, folder in runs.items():
        assert regard.load(folder, device="cpu").task == tasks[kind]
        report = json.loads((folder / "data.json").read_text())
        assert report["train"]["corpora"][0]["read"] == 42
        assert "picture.png" not in json.dumps(report)
    log = (runs["gpt"] / "train.log").read_text()
    assert "plain text: training a GPT that continues it" in log
    assert "plain text: training a BERT" in (runs["bert"] / "train.log").read_text()


def test_generate_streams_reads_standard_input_and_answers_in_json(runs, capsys, monkeypatch):
    model = regard.load(runs["gpt"], device="cpu")
    how = ["--length", 40, "--temperature", 0, "--device", "cpu"]
    [expected] = model.write("the old", length=40, temperature=0.0, samples=1)
    assert output_of(capsys, "generate", runs["gpt"], "the old", *how) == f"{expected.text}\n"
    type_input(monkeypatch, "the old\n")
    assert output_of(capsys, "generate", runs["gpt"], "-", *how) == f"{expected.text}\n"
    result = json.loads(output_of(capsys, "generate", runs["gpt"], "the old", *how, "--json"))
    assert result == expected.plain()
    several = [text.text for text in model.write("a", length=5, samples=3, seed=4)]
    how = ["--length", 5, "--samples", 3, "--seed", 4, "--device", "cpu"]
    assert output_of(capsys, "generate", runs["gpt"], "a", *how).split("---\n") == [f"{text}\n" for text in several]


def test_fill_shows_the_text_and_candidates_and_answers_in_json(runs, desk, capsys, monkeypatch):
    text = "the [MASK]og s[MASK]eeps"
    trained = regard.load(runs["bert"], device="cpu").fill(text, top=3)
    shown = output_of(capsys, "fill", runs["bert"], text, "--top", 3, "--device", "cpu").splitlines()
    assert shown[0] == trained.filled.replace("\n", " ")
    assert [re.findall(r"('.*?'|\S+) 0\.\d{3}", line) for line in shown[1:]] == [
        [word for word, _ in g] for g in trained.gaps
    ]
    result = json.loads(output_of(capsys, "fill", runs["bert"], text, "--top", 3, "--json", "--device", "cpu"))
    assert result["filled"] == trained.filled
    assert [[record["token"] for record in gap] for gap in result["gaps"]] == [
        [word for word, _ in g] for g in trained.gaps
    ]
    (desk / "gaps.txt").write_text(f"{text}\n\na [MASK]\n")
    type_input(monkeypatch, (desk / "gaps.txt").read_text())
    lines = [
        [json.loads(line) for line in output_of(capsys, "fill", runs["bert"], *words, "--json").splitlines()]
        for words in (["-i", desk / "gaps.txt"], ["-"])
    ]
    assert lines[0] == lines[1]
    assert [line["filled"] == "" for line in lines[0]] == [False, True, False]
    output_of(capsys, "fill", runs["bert"], text, "-o", desk / "filled.jsonl")
    assert json.loads((desk / "filled.jsonl").read_text())["filled"] == trained.filled


def test_a_gap_may_be_written_as_people_write_it(runs):
    model = regard.load(runs["bert"], device="cpu")
    gaps = [model.fill(f"the {gap} sleeps").gaps for gap in ("[MASK]", "[mask]", "<mask>", "<MASK>", "___", "________")]
    assert all(candidates == gaps[0] for candidates in gaps)
    assert [len(candidates) for candidates in gaps] == [1] * 6


def test_predict_answers_with_every_one_of_them(runs, capsys):
    restored = regard.load(runs["t5"], device="cpu").restore("the <extra_id_0> sleeps")
    result = json.loads(output_of(capsys, "predict", runs["t5"], "the <extra_id_0> sleeps", "--json"))
    assert result["answer"] == restored.answer
    assert result["spans"] == restored.spans
    assert output_of(capsys, "predict", runs["bert"], "a [MASK]og").startswith("a ")
    assert output_of(capsys, "predict", runs["gpt"], "the", "-s", "length=3").startswith("the")


def test_evaluate_measures_every_one_of_them(runs, desk, capsys):
    size = (desk / "test.txt").stat().st_size
    gpt = json.loads(output_of(capsys, "evaluate", runs["gpt"], desk / "test.txt", "--json"))
    assert gpt["bits_per_byte"] == pytest.approx(gpt["loss"] / 0.6931471805599453, rel=1e-6), "a letter is a byte"
    table = output_of(capsys, "evaluate", runs["gpt"], desk / "test.txt")
    assert re.search(rf"tokens +{size}\b", table)
    assert "bits per byte" in table
    assert "perplexity per word" in table
    strided = json.loads(output_of(capsys, "evaluate", runs["gpt"], desk / "test.txt", "-s", "stride=8", "--json"))
    assert strided["loss"] != gpt["loss"]
    bert = json.loads(output_of(capsys, "evaluate", runs["bert"], desk / "test.txt", "--json"))
    assert 0 <= bert["accuracy"] <= 1 < bert["loss"]
    t5 = json.loads(output_of(capsys, "evaluate", runs["t5"], desk / "test.txt", "--json"))
    assert t5["perplexity"] > t5["loss"] > 1
    assert "perplexity" in output_of(capsys, "evaluate", runs["t5"], desk / "test.txt")


@pytest.mark.parametrize(
    ("kind", "text"), [("gpt", "the old wolf"), ("bert", "the [MASK]og sleeps"), ("t5", "the <extra_id_0> sleeps")]
)
def test_explain_shows_every_one_of_them(kind, text, runs, desk, capsys):
    result = json.loads(
        output_of(capsys, "explain", runs[kind], text, "--json", "--level", "subword", "--device", "cpu")
    )
    assert len(result["weights"]) == len(result["rows"])
    assert all(0 <= sum(line) < 1.0001 for line in result["weights"])
    assert output_of(capsys, "explain", runs[kind], text).strip()
    assert output_of(capsys, "explain", runs[kind], text, "--step", 1).strip()
    output_of(capsys, "explain", runs[kind], text, "-o", desk / f"{kind}.html")
    assert "<html" in (desk / f"{kind}.html").read_text()


def error_of(capsys: pytest.CaptureFixture[str], words: Sequence[object]) -> str:
    capsys.readouterr()
    assert run([str(word) for word in words]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["generate", "{gpt}", "é"], "never seen 'é'"),
        (["generate", "{bert}", "a"], "is a masked language model; regard generate needs a language model"),
        (["fill", "{gpt}", "a [MASK]"], "is a language model; regard fill needs a masked language model"),
        (["fill", "{bert}", "a dog"], "no gap in 'a dog': write [MASK]"),
        (["fill", "{bert}", "a snake___case"], "no gap in 'a snake___case'"),
        (["train", "--masked"], "nothing to train on: give a recipe file with data, or files to train on"),
        (["evaluate", "{bert}"], "no text to measure on: give at least one file"),
        (["fill", "{bert}", "[MASK]" * 40], "42 tokens in one text, the model reads 32: split it"),
        (["predict", "{t5}", "a <extra_id_500>"], "knows no <extra_id_500>"),
        (["explain", "{bert}", "a dog"], "no gap in 'a dog'"),
        (["evaluate", "{gpt}", "{desk}/test.txt", "-s", "stride=99"], "stride is 99, the model reads 32"),
        (
            ["evaluate", "{gpt}", "{desk}/test.txt", "-s", "stride=0"],
            "stride must be a whole number from 1 to 1,048,576, not 0",
        ),
        (
            ["evaluate", "{gpt}", "{desk}/test.txt", "-s", "stride=few"],
            "stride must be a whole number from 1 to 1,048,576, not 'few'",
        ),
        (["evaluate", "{bert}", "{desk}/test.txt", "-s", "stride=9"], "stride is nothing that a masked language model"),
        (["evaluate", "{t5}", "nowhere.txt"], "nowhere.txt"),
        (["train", "--text", "{desk}/book.txt", "--masked", "--task", "word2vec"], "ask for two trainings"),
        (["train", "--text", "{desk}/nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(line, message, runs, desk, capsys):
    assert message in error_of(capsys, [word.format(desk=desk, **runs) for word in line])


def test_a_run_goes_on_from_a_model_of_its_task_within_its_context(runs, desk, tmp_path, capsys):
    files = ["--text", desk / "book.txt", "--from", runs["gpt"], "training.steps=1", "--device", "cpu"]
    error = error_of(capsys, ["train", *files, "data.context=64", "--out", tmp_path / "a"])
    assert "data.context is 64, the model holds 32 tokens: set data.context=32" in error
    output_of(capsys, "train", *files, "--out", tmp_path / "b")
    assert regard.load(tmp_path / "b", device="cpu").model.config.context == 32
    error = error_of(capsys, ["train", *files, "data.context=32", "--masked", "--out", tmp_path / "c"])
    assert "leave out --from" in error
