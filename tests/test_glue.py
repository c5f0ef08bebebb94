"""The tasks of GLUE by one command: files as they are published are read, and a table names what is missing."""

import json

import pytest

from benchmarks import glue

WORDS = ["cat", "dog", "king", "wolf", "boy"]


@pytest.fixture
def folder(tmp_path):
    """The files of CoLA and RTE in small, in their published forms: with and without headings and a column more."""
    (tmp_path / "glue" / "CoLA").mkdir(parents=True)
    (tmp_path / "glue" / "RTE").mkdir()
    for part in ("train", "val", "dev"):
        lines = [f"gj04\t{number % 2}\t\tThe {word} sleeps {number} ." for number, word in enumerate(WORDS * 8)]
        (tmp_path / "glue" / "CoLA" / f"{part}.tsv").write_text("\n".join(lines) + "\n")
        labels = ("entailment", "not_entailment")
        rows = [
            f"{number}\tThe {word} eats.\tIt eats {number}.\t{labels[number % 2]}"
            for number, word in enumerate(WORDS * 8)
        ]
        heading = [] if part == "val" else ["index\tsentence1\tsentence2\tlabel"]
        (tmp_path / "glue" / "RTE" / f"{part}.tsv").write_text("\n".join([*heading, *rows]) + "\n")
    return tmp_path


def test_published_files_are_read_without_their_headings(folder):
    cola, rte = (next(task for task in glue.TASKS if task.name == name) for name in ("CoLA", "RTE"))
    assert glue.read_examples(folder / cola.train, cola)[1] == (("The dog sleeps 1 .",), "1")
    for file in (rte.train, rte.valid, rte.test):
        examples = glue.read_examples(folder / file, rte)
        assert len(examples) == 40
        assert examples[0] == (("The cat eats.", "It eats 0."), "entailment")
    (folder / "wrong.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"wrong.tsv: no example of RTE"):
        glue.read_examples(folder / "wrong.tsv", rte)


def test_tasks_are_learnt_and_scored_in_one_table(folder, capsys):
    settings = ["model.name=linear", "training.steps=2", "training.device=cpu"]
    words = [str(folder), "scratch", "--only", "cola", "rte", "--settings", *settings]
    glue.main([*words, "--out", str(folder / "glue.json")])
    shown = capsys.readouterr().out
    assert "| CoLA | 40 | 40 | matthews " in shown
    assert "| RTE | 40 | 40 | accuracy " in shown
    assert "Not among them: MNLI, QNLI, QQP, STS-B." in shown
    record = json.loads((folder / "glue.json").read_text())
    assert record["tasks"].keys() == {"CoLA", "RTE"}
    assert "average" not in record
    with pytest.raises(SystemExit):
        glue.main([str(folder), "scratch", "--only", "mnli"])
