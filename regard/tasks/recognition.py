"""Files without a recipe: every task is asked what it makes of them, and the surest one learns from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.config.words import nearest
from regard.data.encodings import find
from regard.data.foreign_formats import describe_marked_folder, describe_marks
from regard.data.glimpse import is_folder
from regard.tasks import TASKS
from regard.training.task import Claim, Given

TWO_COLUMNS = ("pairs", "labelled", "tagged")  # kinds of files of which two columns are read
WORDS = {
    "labelled": "labelled texts",
    "tagged": "tagged words",
    "table": "a table",
    "tables": "tables of omics",
    "rated": "rated pairs",
    "choices": "questions with choices",
    "questions": "questions about texts",
    "pictures": "labelled pictures",
    "graph": "a graph",
}


def understood(given: Given) -> tuple[str, Claim]:
    """The name of the task that is to learn from files, and what it takes them for; who cannot tell says what would."""
    wanted = given.settings.get("task")
    if wanted is not None and (not isinstance(wanted, str) or wanted not in TASKS):
        raise ValueError(f"unknown task {wanted!r}{nearest(str(wanted), TASKS)}")
    kinds = list(dict.fromkeys(task.takes for task, _ in TASKS.values() if hasattr(task, "takes")))
    if given.kind not in (None, *kinds):
        raise ValueError(f"unknown kind {given.kind!r}{nearest(str(given.kind), kinds)}")
    asked = {name: task for name, (task, _) in TASKS.items() if hasattr(task, "recognise") and wanted in (None, name)}
    if not asked:
        raise ValueError(f"{_joined(given.files)}: {wanted} is not trained on files: leave them out")
    fitting = {name: task for name, task in asked.items() if given.kind in (None, task.takes)}
    if not fitting:
        raise ValueError(f"--{given.kind} is not for {wanted}: give --{asked[str(wanted)].takes}, or leave it out")
    if folder := next((name for name in given.files if is_folder(name)), None):
        if given.kind in (None, "text") and (marks := describe_marked_folder(find(folder))) is not None:
            raise ValueError(marks)
        if not given.told:
            reads = dict.fromkeys(f"--{task.takes}" for task in asked.values() if getattr(task, "folders", False))
            raise ValueError(f"{folder} is a folder: say what its files hold with {' or '.join(reads)}")
        fitting = {name: task for name, task in fitting.items() if getattr(task, "folders", False)}
        if not fitting:
            raise ValueError(f"{folder} is a folder, which {wanted or f'--{given.kind}'} does not read: name its files")
    claims = {name: claim for name, task in fitting.items() if (claim := task.recognise(given)) is not None}
    if not claims:
        raise ValueError(_strange(given, wanted))
    ranked = sorted(claims, key=lambda name: -claims[name].confidence)
    first, surest = ranked[0], claims[ranked[0]]
    equal = [name for name in ranked if claims[name].confidence == surest.confidence]
    rivals = list(dict.fromkeys(_takes(name) for name in equal))
    if len(rivals) > 1:
        flags = " or ".join(f"--{kind}" for kind in rivals)
        firsts = [next(name for name in equal if _takes(name) == kind) for kind in rivals]
        could = ", or ".join(claims[name].sentence.partition(": training")[0] for name in firsts)
        raise ValueError(f"{_joined(given.files)}: could be {could}: say which with {flags}")
    return first, surest if given.columns is None else _with_columns(surest, given.columns, _takes(first))


def _with_columns(claim: Claim, columns: tuple[int, int], kind: str) -> Claim:
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
    other = [task for task, (kind, _) in TASKS.items() if task != name and getattr(kind, "takes", "") == _takes(name)]
    choice = "" if given.told or not other else f" (--task {' or '.join(other)} chooses otherwise)"
    return f"{_joined(given.files)}: {claim.sentence}{choice}"


def _strange(given: Given, wanted: str | None) -> str:
    """What to do with files that nobody knows."""
    files = _joined(given.files)
    if given.to is not None:
        return f"{files}: --to names the language of translations, which {wanted or 'these files'} have none of"
    if (marks := next(filter(None, map(describe_marks, given.files)), None)) is not None:
        return marks
    kinds = dict.fromkeys(task.takes for task, _ in TASKS.values() if hasattr(task, "takes"))
    if wanted is not None:
        return f"{files}: not what {wanted} learns from, which is --{_takes(wanted)}: name them in data.train"
    return f"{files}: cannot tell what this is: name it with {', '.join(f'--{kind}' for kind in kinds)}, or in a recipe"


def _takes(name: str) -> str:
    return getattr(TASKS[name][0], "takes", "")


def _called(kind: str) -> str:
    return WORDS.get(kind, kind)


def _joined(files: tuple[str, ...]) -> str:
    """Names of files, of very many the first ones."""
    most = 4
    shown = [*files[:most], *([f"{len(files) - most} more"] if len(files) > most else [])]
    return " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])} and {shown[-1]}"
