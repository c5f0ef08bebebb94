"""Comparison of a pre-trained text classifier with baselines: commonest label, linear model, training from scratch.

All are scored on the same held-out texts: always the commonest label; a linear model over words and n-grams; a BERT
trained from scratch; and the same BERT, pre-trained on all training text, labelled or not, then fine-tuned. Each is an
ordinary run in the folder, so the same command resumes an interrupted comparison exactly.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import checkpoint, recipe
from regard.data.encodings import find_path
from regard.metrics.scores import Scores, compare
from regard.models.encoder_with_head import BERTEncoderConfig
from regard.tasks.trained import usage_line
from regard.training import distributed
from regard.training import run as runs
from regard.training.comparison import DIVISION, RESULT

TEST_SHARE = 0.1  # of the texts, if no file names the test texts
MAX_P_VALUE = 0.05  # p-value below which a difference is significant
NUM_TRIALS = 2000  # random swaps of a paired test
MAX_RATE_TIMES_WIDTH = 0.15  # highest learning rate times width at which a BERT of several blocks learns from scratch
SHARED_MODEL_SETTINGS = (
    "width",
    "heads",
    "hidden",
    "depth",
    "context",
    "dropout",
    "norm",
    "positions",
    "activation",
    "embedding_norm",
)
# learns from few texts, from which a post-norm model learns nothing
PRETRAINED_MODEL = {"norm": "pre", "positions": "rotary"}
CLASSIFIER_POOLING = {"pool": "mean"}  # predicting masked tokens does not train the first token's vector
ALLOWED_SECTIONS = ("task", "data", "training")  # sections that may be set; the others follow from the data
COMMONEST, LINEAR, SCRATCH, PRETRAINED, TUNED = "commonest label", "linear", "scratch", "pretrained", "tuned"
RUN_FOLDERS = (LINEAR, SCRATCH, PRETRAINED, TUNED, "best", "best.new", "data")  # folders of a comparison
DESCRIPTIONS = {
    COMMONEST: "commonest label, always",
    LINEAR: "linear: words and n-grams",
    SCRATCH: "scratch: a BERT that knows nothing",
    TUNED: "tuned: the same BERT, pre-trained",
}


@dataclass(frozen=True)
class Entry:
    """A compared model: its scores on the held-out texts, the seconds it took, and its checkpoint."""

    name: str
    scores: Scores
    seconds: float
    folder: Path | None = None

    @property
    def accuracy(self) -> float:
        """Accuracy in per cent."""
        return next(iter(self.scores.metrics.values()))


@dataclass(frozen=True)
class BaselineComparison:
    """The scores of all models, and for each the models it beats significantly."""

    folder: Path
    entries: list[Entry]
    beaten: dict[str, list[str]]
    usage: str

    @property
    def winner(self) -> Entry:
        """The most accurate trained model; of equal ones the fastest."""
        return max(
            (entry for entry in self.entries if entry.folder is not None),
            key=lambda entry: (entry.accuracy, -entry.seconds),
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return table rows: model, accuracy with its interval, seconds, and the models it beats significantly."""
        table_rows = []
        for entry in self.entries:
            interval = next(iter(entry.scores.intervals.values()), None)
            score = f"{entry.accuracy:.2f}" + ("" if interval is None else f" ± {interval.half:.2g}")
            table_rows.append(
                (DESCRIPTIONS[entry.name], score, f"{entry.seconds:.0f}", ", ".join(self.beaten[entry.name]) or "-")
            )
        return table_rows

    @property
    def verdict(self) -> str:
        """The result in words: the model that was kept, and whether pre-training was worth it."""
        best, words = self.winner, "\n".join(self.conclusions)
        location = f"kept as {self.folder / 'best'}: {DESCRIPTIONS[best.name]}"
        return f"{location}\n{words}\n{usage_line(self.usage, self.folder / 'best')}"

    @property
    def conclusions(self) -> list[str]:
        """The models that the best one beats significantly or not, and the benefit of pre-training, in words."""
        beaten = self.beaten[self.winner.name]
        level = [entry.name for entry in self.entries if entry is not self.winner and entry.name not in beaten]
        lines = [f"better beyond chance than {_join_names(beaten)}"] if beaten else []
        lines += [f"not beyond chance better than {_join_names(level)}"] if level else []
        return [*lines, self._judge_pretraining()]

    def _judge_pretraining(self) -> str:
        """Return whether the pre-trained model is significantly better than the cheaper ones, in words."""
        if SCRATCH not in self.beaten[TUNED]:
            return "pre-training was not worth it beyond chance"
        if LINEAR not in self.beaten[TUNED]:
            return "pre-training helped, but is not beyond chance better than the linear model"
        return "pre-training was worth it"

    def plain(self) -> dict[str, Any]:
        """Return the comparison as plain data for JSON."""
        entries = [
            {
                "name": entry.name,
                "accuracy": entry.accuracy,
                "seconds": round(entry.seconds, 1),
                "beats": self.beaten[entry.name],
                "interval": [[span.low, span.high] for span in entry.scores.intervals.values()],
            }
            for entry in self.entries
        ]
        return {
            "folder": str(self.folder),
            "best": self.winner.name,
            "judgement": self.conclusions,
            "texts": len(self.entries[0].scores),
            "entries": entries,
        }


def _join_names(names: Sequence[str]) -> str:
    """Join names as in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


class Interrupted(Exception):
    """Raised if one of the runs was interrupted; the same command resumes the comparison."""


def compare_baselines(
    order: recipe.Order,
    unlabelled: Sequence[str] = (),
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: Sequence[str] = (),
    quiet: bool = False,
) -> BaselineComparison:
    """Train and score all models in the folder `out`; with `resume`, finished runs are kept and others resumed."""
    task, resolved = _check_order(order)
    for name in unlabelled:
        find_path(name)  # before anything is trained
    folder = Path(out) if out is not None else runs.find_vacant_folder(recipe.RUNS / order.name, resume=resume)
    division = task.divide(resolved.data, TEST_SHARE)
    _claim_folder(folder, division.fingerprint, resume=resume, overwrite=overwrite)
    data = division.write_files(folder / "data")
    models = _ModelRuns(folder, order.settings, resolved.task, data, division, command=tuple(command), quiet=quiet)
    commonest = division.score(COMMONEST, resolved.task, [division.majority_label] * len(division.test))
    linear = models.train_and_score(LINEAR, {"model": {"name": "linear"}, "tokenizer": {"kind": "words"}})
    pretrained = models.pretrain(unlabelled)
    scratch = models.train_and_score(SCRATCH, models.scratch_settings(pretrained))
    tuned = models.train_and_score(TUNED, {"model": CLASSIFIER_POOLING}, start=pretrained)
    entries = [Entry(COMMONEST, commonest, 0.0), linear, scratch, tuned]
    comparison = BaselineComparison(folder, entries, _find_beaten(entries), task.usage)
    _save_winner(comparison)
    return comparison


def _check_order(order: recipe.Order) -> tuple[Any, Any]:
    """Return the task and the resolved recipe; raise ValueError if models cannot be compared on them."""
    if unknown := sorted(order.settings.keys() - set(ALLOWED_SECTIONS)):
        raise ValueError(
            f"{unknown[0]} cannot be set where models are compared, whose sizes follow from the data: leave it out, or "
            "train one model, without --unlabelled"
        )
    task, resolved = recipe.resolve(order.settings)
    if not task.divides:
        raise ValueError(f"models are compared on labelled texts, not on {resolved.task}: give --labelled FILE")
    with distributed.team() as team:
        if team.size > 1:
            raise ValueError("models are compared by one process: start it without torchrun")
    return task, resolved


@dataclass(frozen=True)
class _ModelRuns:
    """The runs of a comparison: their folder, and the settings and data that they share."""

    folder: Path
    settings: Mapping[str, Any]
    task: str
    data: Mapping[str, Any]
    division: Any
    command: tuple[str, ...]
    quiet: bool

    def train_and_score(self, name: str, changes: Mapping[str, Any], *, start: Path | None = None) -> Entry:
        """Train a classifier unless it is trained, from the pre-trained model `start` or from scratch, and score it."""
        settings = {**self._shared_settings(), **changes, "task": self.task, "data": self.data}
        best = self._train_once(name, settings, start=start)
        start_time = time.monotonic()
        classifier = recipe.load(best, device=self.settings.get("training", {}).get("device", "auto"))
        answers = [str(answer.label) for answer in classifier.answer(self.division.inputs)]
        training_seconds = self._run_seconds(name) + (self._run_seconds(PRETRAINED) if start is not None else 0.0)
        seconds = training_seconds + time.monotonic() - start_time
        return Entry(name, self.division.score(name, self.task, answers), seconds, best)

    def pretrain(self, unlabelled: Sequence[str]) -> Path:
        """Pre-train a BERT on all training text without the held-out texts."""
        files = [str(self.folder / "data" / "text.jsonl"), *unlabelled]
        data = {"train": files, "valid": [str(self.folder / "data" / "held-out.jsonl")]}
        settings = {"task": recipe.tasks_with_verb("fill")[0], "model": PRETRAINED_MODEL, "data": data}
        return self._train_once(PRETRAINED, {**self._shared_settings(), **settings})

    def scratch_settings(self, pretrained: Path) -> dict[str, Any]:
        """Return the settings to train the same network, with the same kind of tokenizer, from scratch."""
        saved_config = checkpoint.peek(pretrained).config
        sizes = {name: saved_config["model"][name] for name in SHARED_MODEL_SETTINGS}
        tokenizer = {
            name: saved_config["tokenizer"][name] for name in ("kind", "vocab") if name in saved_config["tokenizer"]
        }
        tokenizer["longest"] = min(sizes["context"], 512)
        return {
            "model": {"name": "bert-encoder", "segments": 0, "pooler": False, **sizes, **CLASSIFIER_POOLING},
            "tokenizer": tokenizer,
            "optim": {
                "learning_rate": min(
                    BERTEncoderConfig.labeller_defaults.learning_rate, MAX_RATE_TIMES_WIDTH / sizes["width"]
                )
            },
        }

    def _run_seconds(self, name: str) -> float:
        """Return the training time of a run in seconds."""
        return float(json.loads((self.folder / name / RESULT).read_text(encoding="utf-8"))["seconds"])

    def _shared_settings(self) -> dict[str, Any]:
        """Return the settings shared by all runs."""
        return {"training": self.settings["training"]} if "training" in self.settings else {}

    def _train_once(self, name: str, settings: Mapping[str, Any], *, start: Path | None = None) -> Path:
        """Train a model unless its run is finished, and return its best checkpoint."""
        run_folder = self.folder / name
        if not (run_folder / RESULT).exists():
            options: dict[str, Any] = {"start": start, "command": self.command, "quiet": self.quiet}
            outcome = recipe.train(settings, out=run_folder, resume=run_folder.exists(), **options)
            if outcome.result.reason == "interrupted":
                resume_options = f"--resume --out {shlex.quote(str(self.folder))}"
                raise Interrupted(f"interrupted in {run_folder}: the same command with {resume_options} goes on")
            if outcome.result.has_failed:
                raise ValueError(f"{run_folder}: {outcome.result.reason}")
            record = json.dumps({"seconds": outcome.result.seconds})
            (run_folder / RESULT).write_text(record + "\n", encoding="utf-8")
        return run_folder / "best"


def _claim_folder(folder: Path, fingerprint: str, *, resume: bool, overwrite: bool) -> None:
    """Prepare the folder of a comparison: only comparisons are overwritten, and only ones of the same texts resumed."""
    division_file = folder / DIVISION
    is_comparison = division_file.is_file()
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not is_comparison):
        raise ValueError(f"{folder} holds something else than a comparison: name another folder with --out")
    if is_comparison and not (resume or overwrite):
        raise ValueError(f"{folder} is not empty: add --resume to go on there, or --overwrite to start anew")
    if is_comparison and resume and json.loads(division_file.read_bytes())["mark"] != fingerprint:
        raise ValueError(f"{folder} compares models on other texts: give those it began with, or another --out")
    if is_comparison and not resume:
        for name in RUN_FOLDERS:
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / RESULT).unlink(missing_ok=True)
    division_file.parent.mkdir(parents=True, exist_ok=True)
    division_file.write_text(json.dumps({"mark": fingerprint}) + "\n", encoding="utf-8")


def _find_beaten(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return for each entry the others that it beats significantly, by a paired test."""
    beaten: dict[str, list[str]] = {entry.name: [] for entry in entries}
    for entry in entries:
        for other in entries:
            if entry.accuracy > other.accuracy:
                tests = compare([other.scores, entry.scores], samples=1, trials=NUM_TRIALS).randomisation
                [(_, verdict)] = tests.values()
                if verdict.p is not None and verdict.p < MAX_P_VALUE:
                    beaten[entry.name].append(other.name)
    return beaten


def _save_winner(comparison: BaselineComparison) -> None:
    """Copy the winner to `best`, and write the scores of all."""
    assert comparison.winner.folder is not None
    new_folder, best_folder = comparison.folder / "best.new", comparison.folder / "best"
    shutil.rmtree(new_folder, ignore_errors=True)
    shutil.copytree(comparison.winner.folder, new_folder)
    shutil.rmtree(best_folder, ignore_errors=True)
    new_folder.replace(best_folder)
    (comparison.folder / RESULT).write_text(json.dumps(comparison.plain(), indent=1) + "\n", encoding="utf-8")
