"""Files without a recipe: every task is asked what it makes of them, and the surest one learns from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.config.file_kinds import FILE_KINDS
from regard.config.words import suggest_name
from regard.data.encodings import find_path
from regard.data.foreign_formats import describe_marked_folder, describe_marks
from regard.data.glimpse import is_folder
from regard.tasks import TASKS
from regard.training.task import Claim, Given

TWO_COLUMNS = ("pairs", "labelled", "tagged")  # kinds of files of which two columns are read


def understood(given: Given) -> tuple[str, Claim]:
    """The name of the task that is to learn from files, and what it takes them for; who cannot tell says what would."""
    wanted = given.settings.get("task")
    if wanted is not None and (not isinstance(wanted, str) or wanted not in TASKS):
        raise ValueError(f"unknown task {wanted!r}{suggest_name(str(wanted), TASKS)}")
    if given.kind is not None and given.kind not in FILE_KINDS:
        raise ValueError(f"unknown kind {given.kind!r}{suggest_name(str(given.kind), list(FILE_KINDS))}")
    entries = {name: entry for name, entry in TASKS.items() if entry.takes is not None and wanted in (None, name)}
    if not entries:
        raise ValueError(f"{_joined(given.files)}: {wanted} is not trained on files: leave them out")
    fitting = {name: entry for name, entry in entries.items() if given.kind in (None, entry.takes)}
    if not fitting:
        raise ValueError(f"--{given.kind} is not for {wanted}: give --{entries[str(wanted)].takes}, or leave it out")
    if folder := next((name for name in given.files if is_folder(name)), None):
        if given.kind in (None, "text") and (marks := describe_marked_folder(find_path(folder))) is not None:
            raise ValueError(marks)
        if not given.is_declared:
            reads = dict.fromkeys(f"--{entry.takes}" for entry in entries.values() if entry.folders)
            raise ValueError(f"{folder} is a folder: say what its files hold with {' or '.join(reads)}")
        fitting = {name: entry for name, entry in fitting.items() if entry.folders}
        if not fitting:
            raise ValueError(f"{folder} is a folder, which {wanted or f'--{given.kind}'} does not read: name its files")
    claims = {name: claim for name, entry in fitting.items() if (claim := entry.task.recognise(given)) is not None}
    if not claims:
        raise ValueError(_strange(given, wanted))
    ranked = sorted(claims, key=lambda name: -claims[name].confidence)
    first, surest = ranked[0], claims[ranked[0]]
    equal = [name for name in ranked if claims[name].confidence == surest.confidence]
    rivals = list(dict.fromkeys(TASKS[name].takes for name in equal))
    if len(rivals) > 1:
        flags = " or ".join(f"--{kind}" for kind in rivals)
        firsts = [next(name for name in equal if TASKS[name].takes == kind) for kind in rivals]
        could = ", or ".join(claims[name].sentence.partition(": training")[0] for name in firsts)
        raise ValueError(f"{_joined(given.files)}: could be {could}: say which with {flags}")
    return first, surest if given.columns is None else _with_columns(surest, given.columns, TASKS[first].takes)


def _with_columns(claim: Claim, columns: tuple[int, int], kind: str | None) -> Claim:
    """The same with these columns of its files, whichever were recognised."""

    def changed(file: Any) -> Any:
        if isinstance(file, list):
            return [changed(one) for one in file]
        if kind not in TWO_COLUMNS or "path" not in file:
            raise ValueError("--columns are those of files with both texts, or with text and label: leave them out")
        kept = {name: value for name, value in file.items() if name not in ("text", "label", "fields")}
        return {**kept, "columns": list(columns)}

    return replace(claim, data={name: changed(value) for name, value in claim.data.items()})


def introduced(given: Given, name: str, claim: Claim) -> str:
    """In one line what files are taken for and what will be trained, with the word that chooses something else."""
    other = [task for task, entry in TASKS.items() if task != name and entry.takes == TASKS[name].takes]
    choice = "" if given.is_declared or not other else f" (--task {' or '.join(other)} chooses otherwise)"
    return f"{_joined(given.files)}: {claim.sentence}{choice}"


def _strange(given: Given, wanted: str | None) -> str:
    """What to do with files that nobody knows."""
    files = _joined(given.files)
    if given.to is not None:
        return f"{files}: --to names the language of translations, which {wanted or 'these files'} have none of"
    if (marks := next(filter(None, map(describe_marks, given.files)), None)) is not None:
        return marks
    if wanted is not None:
        return f"{files}: not what {wanted} learns from, which is --{TASKS[wanted].takes}: name them in data.train"
    options = ", ".join(f"--{kind}" for kind in FILE_KINDS)
    return f"{files}: cannot tell what this is: name it with {options}, or in a recipe"


def _joined(files: tuple[str, ...]) -> str:
    """Names of files, of very many the first ones."""
    most = 4
    shown = [*files[:most], *([f"{len(files) - most} more"] if len(files) > most else [])]
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"
