"""One command that compares itself: whether a network is worth it on some labelled texts, and whether pre-training is.

Scored on the same held-out texts, which none of them has seen: always the commonest label; a linear model over words
and what follows them; a BERT from scratch; and the same BERT, pre-trained on all training text, labelled or not, then
fine-tuned. Each is an ordinary run in the folder, so what was interrupted is resumed exactly by the same command.
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

TEST_SHARE = 0.1  # of the texts, where no file names those to be scored on
MAX_P_VALUE = 0.05  # below which a difference is not called chance
TRIALS = 2000
MAX_RATE_TIMES_WIDTH = 0.15  # highest rate times width at which a BERT of several blocks learns from scratch
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
PRETRAINED_MODEL = {
    "norm": "pre",
    "positions": "rotary",
}  # learns from few texts where norms after the blocks learn nothing
CLASSIFIER_POOLING = {"pool": "mean"}  # its first token, which masked tokens teach nothing, is a poor vector of a text
ALLOWED_SECTIONS = (
    "task",
    "data",
    "training",
)  # sections of settings that may be given: what is learnt follows from the data
COMMONEST, LINEAR, SCRATCH, PRETRAINED, TUNED = "commonest label", "linear", "scratch", "pretrained", "tuned"
OWN_FOLDERS = (LINEAR, SCRATCH, PRETRAINED, TUNED, "best", "best.new", "data")  # folders of a comparison
DESCRIPTIONS = {
    COMMONEST: "commonest label, always",
    LINEAR: "linear: words and n-grams",
    SCRATCH: "scratch: a BERT that knows nothing",
    TUNED: "tuned: the same BERT, pre-trained",
}


@dataclass(frozen=True)
class Entry:
    """One of those compared."""

    name: str
    scores: Scores
    seconds: float
    folder: Path | None = None

    @property
    def accuracy(self) -> float:
        """In per cent."""
        return next(iter(self.scores.metrics.values()))


@dataclass(frozen=True)
class Contest:
    """All entries, and which of the others each is better than beyond chance."""

    folder: Path
    entries: list[Entry]
    beaten: dict[str, list[str]]
    usage: str

    @property
    def winner(self) -> Entry:
        """The best of those that can be used; of equals the one that took least time."""
        return max(
            (entry for entry in self.entries if entry.folder is not None),
            key=lambda entry: (entry.accuracy, -entry.seconds),
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return rows of a table: entry, accuracy with its interval, seconds, and what it beats beyond chance."""
        table_rows = []
        for entry in self.entries:
            spread = next(iter(entry.scores.intervals.values()), None)
            score = f"{entry.accuracy:.2f}" + ("" if spread is None else f" ± {spread.half:.2g}")
            table_rows.append(
                (DESCRIPTIONS[entry.name], score, f"{entry.seconds:.0f}", ", ".join(self.beaten[entry.name]) or "-")
            )
        return table_rows

    @property
    def verdict(self) -> str:
        """What was kept, and whether pre-training was worth it, in words."""
        best, words = self.winner, "\n".join(self.judgement)
        location = f"kept as {self.folder / 'best'}: {DESCRIPTIONS[best.name]}"
        return f"{location}\n{words}\n{usage_line(self.usage, self.folder / 'best')}"

    @property
    def judgement(self) -> list[str]:
        """Which of the others the best one is better than beyond chance, which not, and what pre-training brought."""
        beaten = self.beaten[self.winner.name]
        level = [entry.name for entry in self.entries if entry is not self.winner and entry.name not in beaten]
        lines = [f"better beyond chance than {_join_names(beaten)}"] if beaten else []
        lines += [f"not beyond chance better than {_join_names(level)}"] if level else []
        return [*lines, self._judge_pretraining()]

    def _judge_pretraining(self) -> str:
        """Say whether the pre-trained model is better beyond chance than those that cost less."""
        if SCRATCH not in self.beaten[TUNED]:
            return "pre-training was not worth it beyond chance"
        if LINEAR not in self.beaten[TUNED]:
            return "pre-training helped, but is not beyond chance better than the linear model"
        return "pre-training was worth it"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
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
            "judgement": self.judgement,
            "texts": len(self.entries[0].scores),
            "entries": entries,
        }


def _join_names(names: Sequence[str]) -> str:
    """Join names as a sentence does."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


class Interrupted(Exception):
    """Somebody stopped one of the runs; the same command goes on."""


def contest(
    order: recipe.Order,
    unlabelled: Sequence[str] = (),
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: Sequence[str] = (),
    quiet: bool = False,
) -> Contest:
    """Train and score all entries in the folder `out`; with `resume` what is done there stays, and the rest goes on."""
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
    for name in unlabelled:
        find_path(name)  # before anything is trained
    folder = Path(out) if out is not None else runs.find_vacant_folder(recipe.RUNS / order.name, resume=resume)
    division = task.divide(resolved.data, TEST_SHARE)
    _claim(folder, division.fingerprint, resume=resume, overwrite=overwrite)
    data = division.write_files(folder / "data")
    runs_of_contest = _Runs(folder, order.settings, resolved.task, data, division, command=tuple(command), quiet=quiet)
    entries = [
        Entry(COMMONEST, division.score(COMMONEST, resolved.task, [division.majority_label] * len(division.test)), 0.0)
    ]
    entries.append(runs_of_contest.entry(LINEAR, {"model": {"name": "linear"}, "tokenizer": {"kind": "words"}}))
    before = runs_of_contest.pretrain(unlabelled)
    entries.append(runs_of_contest.entry(SCRATCH, runs_of_contest.matching_settings(before)))
    entries.append(
        runs_of_contest.entry(
            TUNED, {"model": CLASSIFIER_POOLING}, start=before, more=runs_of_contest.seconds(PRETRAINED)
        )
    )
    outcome = Contest(folder, entries, _find_beaten(entries), task.usage)
    _save_winner(outcome)
    return outcome


@dataclass(frozen=True)
class _Runs:
    """Where runs are, and what they share."""

    folder: Path
    settings: Mapping[str, Any]
    task: str
    data: Mapping[str, Any]
    division: Any
    command: tuple[str, ...]
    quiet: bool

    def entry(self, name: str, changes: Mapping[str, Any], *, start: Path | None = None, more: float = 0.0) -> Entry:
        """Train a classifier, or find it trained, and score it."""
        settings = {**self._shared_settings(), **changes, "task": self.task, "data": self.data}
        best = self._run(name, settings, start=start)
        began = time.monotonic()
        face = recipe.load(best, device=self.settings.get("training", {}).get("device", "auto"))
        answers = [str(answer.label) for answer in face.answer(self.division.inputs)]
        spent = self.seconds(name) + more + time.monotonic() - began
        return Entry(name, self.division.score(name, self.task, answers), spent, best)

    def pretrain(self, unlabelled: Sequence[str]) -> Path:
        """Pre-train a BERT on all training text; held-out texts are not among it, wherever they come from."""
        files = [str(self.folder / "data" / "text.jsonl"), *unlabelled]
        data = {"train": files, "valid": [str(self.folder / "data" / "held-out.jsonl")]}
        settings = {"task": recipe.tasks_with_verb("fill")[0], "model": PRETRAINED_MODEL, "data": data}
        return self._run(PRETRAINED, {**self._shared_settings(), **settings})

    def matching_settings(self, other: Path) -> dict[str, Any]:
        """Return settings of the same network with the same tokens that starts from scratch."""
        saved_config = checkpoint.peek(other).config
        same = {name: saved_config["model"][name] for name in SHARED_MODEL_SETTINGS}
        tokens = {
            name: saved_config["tokenizer"][name] for name in ("kind", "vocab") if name in saved_config["tokenizer"]
        }
        tokens["longest"] = min(same["context"], 512)
        return {
            "model": {"name": "bert-encoder", "segments": 0, "pooler": False, **same, **CLASSIFIER_POOLING},
            "tokenizer": tokens,
            "optim": {"rate": min(BERTEncoderConfig.RATE, MAX_RATE_TIMES_WIDTH / same["width"])},
        }

    def seconds(self, name: str) -> float:
        """Return how long a run took."""
        return float(json.loads((self.folder / name / "contest.json").read_text(encoding="utf-8"))["seconds"])

    def _shared_settings(self) -> dict[str, Any]:
        """Return the settings of all runs."""
        return {"training": self.settings["training"]} if "training" in self.settings else {}

    def _run(self, name: str, settings: Mapping[str, Any], *, start: Path | None = None) -> Path:
        """Return the best checkpoint of a run, which is trained unless it is done."""
        place = self.folder / name
        if not (place / "contest.json").exists():
            outcome = recipe.train(
                settings, out=place, resume=place.exists(), start=start, command=self.command, quiet=self.quiet
            )
            if outcome.result.reason == "interrupted":
                again = f"--resume --out {shlex.quote(str(self.folder))}"
                raise Interrupted(f"interrupted in {place}: the same command with {again} goes on")
            if outcome.result.has_failed:
                raise ValueError(f"{place}: {outcome.result.reason}")
            note = json.dumps({"seconds": outcome.result.seconds})
            (place / "contest.json").write_text(note + "\n", encoding="utf-8")
        return place / "best"


def _claim(folder: Path, mark: str, *, resume: bool, overwrite: bool) -> None:
    """Make the folder ours: nothing but a comparison is ever removed, and one of other texts is not continued."""
    note = folder / DIVISION
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not note.is_file()):
        raise ValueError(f"{folder} holds something else than a comparison: name another folder with --out")
    if note.is_file() and not (resume or overwrite):
        raise ValueError(f"{folder} is not empty: add --resume to go on there, or --overwrite to start anew")
    if note.is_file() and resume and json.loads(note.read_text(encoding="utf-8"))["mark"] != mark:
        raise ValueError(f"{folder} compares models on other texts: give those it began with, or another --out")
    if note.is_file() and not resume:
        for name in OWN_FOLDERS:
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / RESULT).unlink(missing_ok=True)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"mark": mark}) + "\n", encoding="utf-8")


def _find_beaten(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Return which of the others each entry is better than beyond chance, by a paired test."""
    beaten: dict[str, list[str]] = {entry.name: [] for entry in entries}
    for entry in entries:
        for other in entries:
            if entry.accuracy > other.accuracy:
                tests = compare([other.scores, entry.scores], samples=1, trials=TRIALS).randomisation
                [(_, verdict)] = tests.values()
                if verdict.p is not None and verdict.p < MAX_P_VALUE:
                    beaten[entry.name].append(other.name)
    return beaten


def _save_winner(outcome: Contest) -> None:
    """Copy the winner to `best`, and write the scores of all."""
    assert outcome.winner.folder is not None
    new_folder, place = outcome.folder / "best.new", outcome.folder / "best"
    shutil.rmtree(new_folder, ignore_errors=True)
    shutil.copytree(outcome.winner.folder, new_folder)
    shutil.rmtree(place, ignore_errors=True)
    new_folder.replace(place)
    (outcome.folder / RESULT).write_text(json.dumps(outcome.plain(), indent=1) + "\n", encoding="utf-8")
