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
from regard.models.reader import BERTEncoderConfig
from regard.tasks.trained import usage_line
from regard.training import distributed
from regard.training import run as runs
from regard.training.comparison import DIVISION, RESULT

TESTED = 0.1  # of the texts, where no file names those to be scored on
CHANCE = 0.05  # below which a difference is not called chance
TRIALS = 2000
STEADY = 0.15  # highest rate times width at which a BERT of several blocks learns from scratch
SAME = ("width", "heads", "hidden", "depth", "context", "dropout", "norm", "positions", "activation", "embedding_norm")
KIND = {"norm": "pre", "positions": "rotary"}  # learns from few texts where norms after the blocks learn nothing
POOLED = {"pool": "mean"}  # its first token, which masked tokens teach nothing, is a poor vector of a text
SHARED = ("task", "data", "training")  # sections of settings that may be given: what is learnt follows from the data
COMMONEST, LINEAR, SCRATCH, PRETRAINED, TUNED = "commonest label", "linear", "scratch", "pretrained", "tuned"
OWN = (LINEAR, SCRATCH, PRETRAINED, TUNED, "best", "best.new", "data")  # folders of a comparison
SAYS = {
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
        """A table: what it is, its accuracy with its interval, seconds, and what it beats beyond chance."""
        table_rows = []
        for entry in self.entries:
            spread = next(iter(entry.scores.intervals.values()), None)
            score = f"{entry.accuracy:.2f}" + ("" if spread is None else f" ± {spread.half:.2g}")
            table_rows.append(
                (SAYS[entry.name], score, f"{entry.seconds:.0f}", ", ".join(self.beaten[entry.name]) or "-")
            )
        return table_rows

    @property
    def verdict(self) -> str:
        """What was kept, and whether pre-training was worth it, in words."""
        best, words = self.winner, "\n".join(self.judgement)
        location = f"kept as {self.folder / 'best'}: {SAYS[best.name]}"
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
    if unknown := sorted(order.settings.keys() - set(SHARED)):
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
    division = task.divide(resolved.data, TESTED)
    _claim(folder, division.fingerprint, resume=resume, overwrite=overwrite)
    data = division.write_files(folder / "data")
    all_runs = _Team(folder, order.settings, resolved.task, data, division, command=tuple(command), quiet=quiet)
    entries = [
        Entry(COMMONEST, division.score(COMMONEST, resolved.task, [division.majority_label] * len(division.test)), 0.0)
    ]
    entries.append(all_runs.entry(LINEAR, {"model": {"name": "linear"}, "tokenizer": {"kind": "words"}}))
    before = all_runs.pretrain(unlabelled)
    entries.append(all_runs.entry(SCRATCH, all_runs.alike(before)))
    entries.append(all_runs.entry(TUNED, {"model": POOLED}, start=before, more=all_runs.seconds(PRETRAINED)))
    outcome = Contest(folder, entries, _find_beaten(entries), task.usage)
    _save_winner(outcome)
    return outcome


@dataclass(frozen=True)
class _Team:
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
        settings = {**self._shared(), **changes, "task": self.task, "data": self.data}
        best = self._run(name, settings, start=start)
        began = time.monotonic()
        face = recipe.load(best, device=self.settings.get("training", {}).get("device", "auto"))
        answers = [str(answer.label) for answer in face.answer(self.division.inputs)]
        spent = self.seconds(name) + more + time.monotonic() - began
        return Entry(name, self.division.score(name, self.task, answers), spent, best)

    def pretrain(self, unlabelled: Sequence[str]) -> Path:
        """A BERT that has read all training text; held-out texts are not among it, wherever they come from."""
        files = [str(self.folder / "data" / "text.jsonl"), *unlabelled]
        data = {"train": files, "valid": [str(self.folder / "data" / "held-out.jsonl")]}
        settings = {"task": recipe.able("fill")[0], "model": KIND, "data": data}
        return self._run(PRETRAINED, {**self._shared(), **settings})

    def alike(self, other: Path) -> dict[str, Any]:
        """Settings of the same network with the same tokens that begins with nothing."""
        saved_config = checkpoint.peek(other).config
        same = {name: saved_config["model"][name] for name in SAME}
        tokens = {
            name: saved_config["tokenizer"][name] for name in ("kind", "vocab") if name in saved_config["tokenizer"]
        }
        tokens["longest"] = min(same["context"], 512)
        return {
            "model": {"name": "bert-encoder", "segments": 0, "pooler": False, **same, **POOLED},
            "tokenizer": tokens,
            "optim": {"rate": min(BERTEncoderConfig.RATE, STEADY / same["width"])},
        }

    def seconds(self, name: str) -> float:
        """How long a run took."""
        return float(json.loads((self.folder / name / "contest.json").read_text(encoding="utf-8"))["seconds"])

    def _shared(self) -> dict[str, Any]:
        """Settings of all runs."""
        return {"training": self.settings["training"]} if "training" in self.settings else {}

    def _run(self, name: str, settings: Mapping[str, Any], *, start: Path | None = None) -> Path:
        """The best checkpoint of a run, which is trained unless it is done."""
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
    """Make the folder ours: nothing but a comparison is ever removed, and one of other texts is not gone on with."""
    note = folder / DIVISION
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not note.is_file()):
        raise ValueError(f"{folder} holds something else than a comparison: name another folder with --out")
    if note.is_file() and not (resume or overwrite):
        raise ValueError(f"{folder} is not empty: add --resume to go on there, or --overwrite to start anew")
    if note.is_file() and resume and json.loads(note.read_text(encoding="utf-8"))["mark"] != mark:
        raise ValueError(f"{folder} compares models on other texts: give those it began with, or another --out")
    if note.is_file() and not resume:
        for name in OWN:
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / RESULT).unlink(missing_ok=True)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"mark": mark}) + "\n", encoding="utf-8")


def _find_beaten(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Which of the others each entry is better than beyond chance, by a paired test."""
    beaten: dict[str, list[str]] = {entry.name: [] for entry in entries}
    for entry in entries:
        for other in entries:
            if entry.accuracy > other.accuracy:
                tests = compare([other.scores, entry.scores], samples=1, trials=TRIALS).randomisation
                [(_, verdict)] = tests.values()
                if verdict.p is not None and verdict.p < CHANCE:
                    beaten[entry.name].append(other.name)
    return beaten


def _save_winner(outcome: Contest) -> None:
    """The winner as `best`, and the scores of all."""
    assert outcome.winner.folder is not None
    fresh, place = outcome.folder / "best.new", outcome.folder / "best"
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(outcome.winner.folder, fresh)
    shutil.rmtree(place, ignore_errors=True)
    fresh.replace(place)
    (outcome.folder / RESULT).write_text(json.dumps(outcome.plain(), indent=1) + "\n", encoding="utf-8")
