"""Five tasks of GLUE by one command, in one table: CoLA, RTE, WNLI, SST-2 and MRPC.

    python -m benchmarks.glue data runs/minilm --out glue.json
    python -m benchmarks.glue data runs/minilm --only rte wnli --settings training.epochs=3

The folder has `glue/CoLA`, `glue/RTE`, `glue/WNLI`, `sst2` and `mrpc` in it (docs/data.md). A model is fine-tuned on
each task by itself, starting from the weights named, chosen on the validation texts, and scored once: on GLUE's
development texts, since the labels of its test texts are not public, and on the test pairs of MRPC. MNLI, QNLI, QQP and
STS-B are not among them, so there is no average, which would not be GLUE's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regard
from benchmarks.finetune import Example, scored

MISSING = ("MNLI", "QNLI", "QQP", "STS-B")


@dataclass(frozen=True)
class GlueTask:
    """Where the examples of a task are, and what it is scored by."""

    name: str
    train: str
    valid: str
    test: str
    texts: tuple[int, ...]
    """Columns of the texts, counted from 0."""
    label: int
    measures: tuple[str, ...] = ("accuracy",)


TASKS = (
    GlueTask("CoLA", "glue/CoLA/train.tsv", "glue/CoLA/val.tsv", "glue/CoLA/dev.tsv", (3,), 1, ("matthews",)),
    GlueTask("SST-2", "sst2/train.tsv.gz", "sst2/dev.tsv.gz", "sst2/test.tsv", (0,), 1),
    GlueTask(
        "MRPC", "mrpc/msr-para-train.tsv", "mrpc/msr-para-val.tsv", "mrpc/msr-para-test.tsv", (3, 4), 0,
        ("accuracy", "f1"),
    ),
    GlueTask("RTE", "glue/RTE/train.tsv", "glue/RTE/val.tsv", "glue/RTE/dev.tsv", (1, 2), 3),
    GlueTask("WNLI", "glue/WNLI/train.tsv", "glue/WNLI/val.tsv", "glue/WNLI/dev.tsv", (1, 2), 3),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for every task, and write all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data of the tasks is")
    parser.add_argument("model", help="a model to start from; scratch trains from random weights")
    parser.add_argument("--only", nargs="*", default=[task.name for task in TASKS], help="names of tasks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", nargs="*", default=[], help="such as training.epochs=3")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    names = {task.name.casefold(): task for task in TASKS}
    if unknown := [name for name in options.only if name.casefold() not in names]:
        parser.error(f"no task {unknown[0]}: choose among {', '.join(task.name for task in TASKS)}")
    results = {}
    print("| task | texts to learn from | scored on | score |\n| --- | --- | --- | --- |")
    for task in (names[name.casefold()] for name in options.only):
        results[task.name] = result = run_task(task, options)
        scores = ", ".join(f"{measure} {100 * result[measure]:.1f}" for measure in task.measures)
        print(f"| {task.name} | {result['train']:,} | {result['test']:,} | {scores} |", flush=True)
    print(f"Not among them: {', '.join(MISSING)}. So this is no GLUE score, and there is no average.")
    if options.out is not None:
        record = {"model": options.model, "seed": options.seed, "settings": options.settings, "tasks": results}
        options.out.write_text(json.dumps({**record, "missing": MISSING}, indent=1) + "\n", encoding="utf-8")


def run_task(task: GlueTask, options: argparse.Namespace) -> dict[str, Any]:
    """Fine-tune a model on a task, and score its answers."""
    files = {"train": task.train, "valid": task.valid, "test": task.test}
    parts = {name: read_examples(options.folder / file, task) for name, file in files.items()}
    with tempfile.TemporaryDirectory() as scratch:
        tables = {name: write_examples(Path(scratch) / f"{name}.tsv", examples) for name, examples in parts.items()}
        outcome = regard.train(
            [tables["train"]],
            f"training.seed={options.seed}",
            "training.tensorboard=false",
            *options.settings,
            valid=[tables["valid"]],
            start=None if options.model == "scratch" else options.model,
            out=Path(scratch) / "run",
            kind="labelled",
            quiet=True,
        )
        labeller = regard.load(outcome.best)
        texts = [texts if len(texts) > 1 else texts[0] for texts, _ in parts["test"]]
        answers = [answer.label for answer in labeller.classify(texts)]
    return {"train": len(parts["train"]), "test": len(parts["test"]), **scored(parts["test"], answers)}


def read_examples(path: Path, task: GlueTask) -> list[Example]:
    """Return the texts of a file with their labels; lines that are no example, such as a heading, are left out."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="\n") as lines:
        rows = [line.rstrip("\r\n").split("\t") for line in lines]
    columns = (*task.texts, task.label)
    whole = [row for row in rows if len(row) > max(columns)]
    examples = [(tuple(row[column].strip() for column in task.texts), row[task.label].strip()) for row in whole]
    if not (kept := [example for example in examples if example[1] in ("0", "1", "entailment", "not_entailment")]):
        raise ValueError(f"{path}: no example of {task.name}: is it the file that docs/data.md names?")
    return kept


def write_examples(path: Path, examples: Sequence[Example]) -> Path:
    """Write examples as a table with a heading."""
    columns = ["sentence1", "sentence2"] if len(examples[0][0]) > 1 else ["sentence"]
    lines = ["\t".join([*columns, "label"]), *("\t".join([*texts, label]) for texts, label in examples)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
