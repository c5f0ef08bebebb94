"""Choice of a task for files without a recipe: the task with the most confident claim is trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.config.file_kinds import FILE_KINDS
from regard.config.words import suggest_name
from regard.data.encodings import find_path
from regard.data.foreign_formats import describe_marked_folder, describe_marks
from regard.data.sniff import is_folder
from regard.tasks import TASKS
from regard.training.task import Claim, Given

TWO_COLUMNS = ("pairs", "labelled", "tagged")  # kinds of files with two columns


def choose_task(inputs: Given) -> tuple[str, Claim]:
    """Return the task for some files and its claim; files that fit no task or several tasks are an error."""
    requested = inputs.settings.get("task")
    if requested is not None and (not isinstance(requested, str) or requested not in TASKS):
        raise ValueError(f"unknown task {requested!r}{suggest_name(str(requested), TASKS)}")
    if inputs.kind is not None and inputs.kind not in FILE_KINDS:
        raise ValueError(f"unknown kind {inputs.kind!r}{suggest_name(str(inputs.kind), list(FILE_KINDS))}")
    entries = {name: entry for name, entry in TASKS.items() if entry.takes is not None and requested in (None, name)}
    if not entries:
        raise ValueError(f"{_join_names(inputs.files)}: {requested} is not trained on files: leave them out")
    candidates = {name: entry for name, entry in entries.items() if inputs.kind in (None, entry.takes)}
    if not candidates:
        raise ValueError(
            f"--{inputs.kind} is not for {requested}: give --{entries[str(requested)].takes}, or leave it out"
        )
    if folder := next((name for name in inputs.files if is_folder(name)), None):
        if inputs.kind in (None, "text") and (marks := describe_marked_folder(find_path(folder))) is not None:
            raise ValueError(marks)
        if not inputs.is_declared:
            reads = dict.fromkeys(f"--{entry.takes}" for entry in entries.values() if entry.folders)
            raise ValueError(f"{folder} is a folder: say what its files hold with {' or '.join(reads)}")
        candidates = {name: entry for name, entry in candidates.items() if entry.folders}
        if not candidates:
            raise ValueError(
                f"{folder} is a folder, which {requested or f'--{inputs.kind}'} does not read: name its files"
            )
    claims = {name: claim for name, entry in candidates.items() if (claim := entry.task.recognise(inputs)) is not None}
    if not claims:
        raise ValueError(_explain_unrecognised(inputs, requested))
    ranked = sorted(claims, key=lambda name: -claims[name].confidence)
    first, surest = ranked[0], claims[ranked[0]]
    equally_sure = [name for name in ranked if claims[name].confidence == surest.confidence]
    rivals = list(dict.fromkeys(TASKS[name].takes for name in equally_sure))
    if len(rivals) > 1:
        flags = " or ".join(f"--{kind}" for kind in rivals)
        firsts = [next(name for name in equally_sure if TASKS[name].takes == kind) for kind in rivals]
        could = ", or ".join(claims[name].sentence.partition(": training")[0] for name in firsts)
        raise ValueError(f"{_join_names(inputs.files)}: could be {could}: say which with {flags}")
    return first, surest if inputs.columns is None else _with_columns(surest, inputs.columns, TASKS[first].takes)


def _with_columns(claim: Claim, columns: tuple[int, int], kind: str | None) -> Claim:
    """Return the claim with these columns instead of the recognised ones."""

    def with_columns(file: Any) -> Any:
        if isinstance(file, list):
            return [with_columns(entry) for entry in file]
        if kind not in TWO_COLUMNS or "path" not in file:
            raise ValueError("--columns are those of files with both texts, or with text and label: leave them out")
        rest = {name: value for name, value in file.items() if name not in ("text", "label", "fields")}
        return {**rest, "columns": list(columns)}

    return replace(claim, data={name: with_columns(value) for name, value in claim.data.items()})


def describe_claim(inputs: Given, name: str, claim: Claim) -> str:
    """Return a line on how files are interpreted, what will be trained, and how to choose something else."""
    alternatives = [task for task, entry in TASKS.items() if task != name and entry.takes == TASKS[name].takes]
    choice = (
        "" if inputs.is_declared or not alternatives else f" (--task {' or '.join(alternatives)} chooses otherwise)"
    )
    return f"{_join_names(inputs.files)}: {claim.sentence}{choice}"


def _explain_unrecognised(inputs: Given, requested: str | None) -> str:
    """Return the error message for files that no task recognises."""
    files = _join_names(inputs.files)
    if inputs.to is not None:
        return f"{files}: --to names the language of translations, which {requested or 'these files'} have none of"
    if (marks := next(filter(None, map(describe_marks, inputs.files)), None)) is not None:
        return marks
    if requested is not None:
        return (
            f"{files}: not what {requested} learns from, which is --{TASKS[requested].takes}: name them in data.train"
        )
    options = ", ".join(f"--{kind}" for kind in FILE_KINDS)
    return f"{files}: cannot tell what this is: name it with {options}, or in a recipe"


def _join_names(files: tuple[str, ...]) -> str:
    """Join names of files in a sentence, shortened if there are many."""
    most = 4
    shown = [*files[:most], *([f"{len(files) - most} more"] if len(files) > most else [])]
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"
