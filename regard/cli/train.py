"""The command that trains: files or a recipe in, a scored model out."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.few import fit as fitted
from regard.cli.few import instead
from regard.cli.grammar import Json
from regard.cli.lines import say

if TYPE_CHECKING:
    from regard.training.task import Given

INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended
SETTING = re.compile(r"[A-Za-z_][\w.]*=")
WHAT, WHERE = "What the files hold (seen when not said)", "The run"

EPILOG = """
Tasks, by what they learn from:

\b
translation          pairs of texts: a translator (Transformer or seq2seq)
classification       labelled texts: a classifier
tagging              tagged words: a tagger
similarity           rated pairs: how alike two texts are
choice               questions with choices: which answer is right
question-answering   questions about texts: answers found in them
causal-lm            plain text: a GPT that continues it
masked-lm            plain text: a BERT that fills gaps (--masked)
span-corruption      plain text: a T5 that restores spans
text-to-text         texts with answers: a T5 that learns what is asked
language             plain text: a recurrent language model
word2vec             plain text: word vectors
matching             pairs of texts: vectors in which partners lie near one another
regression           a table: a number or a class from other columns
omics                several tables of the same samples: their classes
node-classification  a graph: classes of its nodes (GAT)
pictures             labelled pictures: a classifier (ViT or CNN)
gan                  labelled pictures: a generator of such pictures (SAGAN)
captions             pictures with captions: a captioner
pixels               pictures: a model that writes them pixel by pixel
localisation         pictures it draws itself: which digit, and where
counting             pictures it draws itself: how many digits
remembering          sequences of bits it draws itself: copy, repeat, recall

Examples:

\b
regard train a.fr a.en
regard train reviews.csv --valid more.csv
regard train --labelled reviews.csv --unlabelled more/
regard train --text book.txt notes/
regard train --text book.txt --masked
regard train --few labelled.csv --from imported/minilm
regard train story.txt --task word2vec
regard train --pairs pairs.tsv model.name=seq2seq training.epochs=20
regard train --from en-fr new.en new.fr
regard train --pictures photos/
regard train --captions captions.csv --from runs/photos
regard train --pictures photos/ --task pixels data.size=16
regard train --tables mrna.csv mirna.csv --labels labels.csv
regard train --edges edges.csv --nodes nodes.csv
regard train recipes/pendulum.yaml optim.rate=0.01
regard train --resume --out runs/a
"""


def train(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE... SETTING...",
            help="Files to train on, or a recipe (.yaml); then settings, such as model.width=256.",
        ),
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Pairs of texts: TSV, JSON lines, or two files.", rich_help_panel=WHAT),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Text to translate from, one sentence per line.", rich_help_panel=WHAT)
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, line by line.", rich_help_panel=WHAT)] = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Texts with labels: CSV, TSV, JSON lines.", rich_help_panel=WHAT),
    ] = None,
    unlabelled: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="More texts, to pre-train on; with --labelled, models are compared.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    few: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Few labelled texts: a linear head on --from.", rich_help_panel=WHAT),
    ] = None,
    tagged: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Words with tags: CoNLL, or word/tag.", rich_help_panel=WHAT),
    ] = None,
    rated: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Pairs of texts with a score.", rich_help_panel=WHAT),
    ] = None,
    choices: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Questions with answers to choose from.", rich_help_panel=WHAT),
    ] = None,
    questions: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Questions with answers in a text: SQuAD, JSON lines.", rich_help_panel=WHAT),
    ] = None,
    text: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Plain text: files, folders.", rich_help_panel=WHAT)
    ] = None,
    masked: Annotated[
        bool, typer.Option("--masked", help="Train a BERT on the text, not a GPT.", rich_help_panel=WHAT)
    ] = False,
    pictures: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Pictures with labels: a folder for each class, a table of paths, idx, npz.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    captions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Pictures with captions: CSV, JSON lines, Flickr8k's token file.", rich_help_panel=WHAT
        ),
    ] = None,
    graph: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A graph with labelled nodes: npz.", rich_help_panel=WHAT),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="Edges of a graph: CSV, both ends named.", rich_help_panel=WHAT)
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Its nodes: CSV with id, label and features.", rich_help_panel=WHAT)
    ] = None,
    table: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A table of numbers, its columns named.", rich_help_panel=WHAT),
    ] = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Tables of the same samples, one per omic.", rich_help_panel=WHAT),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="With --tables: the labels of the samples.", rich_help_panel=WHAT)
    ] = None,
    valid: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Validation files; else some data is held out.", rich_help_panel=WHAT),
    ] = None,
    task: Annotated[str | None, typer.Option(help="What to train on them; see below.", rich_help_panel=WHAT)] = None,
    to: Annotated[str | None, typer.Option(help="Language of the translations.", rich_help_panel=WHAT)] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="A model to start from (fine-tuning).", rich_help_panel=WHERE)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; runs/NAME when not given.", rich_help_panel=WHERE),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in the folder.", rich_help_panel=WHERE)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run in the folder.", rich_help_panel=WHERE)
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting, said as other commands say it."),
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps: training.device.")] = None,
    as_json: Json = False,
) -> None:
    """Train a model on your own data: files in, a scored checkpoint out."""
    from regard.training.task import Given

    if resume and overwrite:
        raise ValueError("--resume continues a run and --overwrite starts anew: give one of them")
    if unlabelled and not labelled:
        text, masked, unlabelled = [*(text or []), *unlabelled], True, None
    kinds = {"pairs": pairs, "labelled": labelled, "text": text, "tagged": tagged, "table": table, "rated": rated}
    kinds |= {"choices": choices, "questions": questions, "pictures": pictures, "captions": captions}
    kinds |= {"tables": tables}
    if labels is not None and not tables:
        raise ValueError(f"--labels {labels} goes with --tables: name the tables whose samples it labels")
    kinds["graph"] = joined(graph, edges, nodes)
    kind, files = told(kinds, source, target)
    given = Given(files, valid=tuple(map(str, valid or [])), kind=kind, aligned=source is not None, to=to)
    given = replace(given, labels=None if labels is None else str(labels))
    asked, changes = sort(words or [])
    how: Any = {"start": start, "out": out, "valid": valid or [], "overwrite": overwrite, "device": device}
    if few:
        if asked or files or masked or task is not None or to is not None or resume:
            raise ValueError("--few fits a head to its own files: give --from, --valid, --out and settings beside it")
        return fitted(few, [*changes, *(settings or [])], as_json=as_json, **how)
    free = not (changes or settings or masked or resume or unlabelled or task or to)
    if start is not None and free and (asked or files) and (found := _few(asked, given, start)):
        return fitted(found, [], as_json=as_json, **how)
    if masked and task is not None:
        raise ValueError(f"--masked and --task {task} ask for two trainings: give one of them")
    task = _filling() if masked else task
    changes += [*(settings or []), *([] if task is None else [f"task={task}"])]
    changes += [] if device is None else [f"training.device={device}"]
    if unlabelled:
        if start is not None:
            raise ValueError("--unlabelled pre-trains a model of its own, --from names another: give one of them")
        _compared(asked, changes, given, unlabelled, as_json=as_json, out=out, resume=resume, overwrite=overwrite)
        return
    _trained(asked, changes, given, as_json=as_json, out=out, resume=resume, overwrite=overwrite, start=start)


def _few(asked: list[str], given: Given, start: str) -> list[Any]:
    """The files, if they hold so few labelled texts that `--few` takes them; a recipe says by itself what to do."""
    from regard import recipe as recipes

    several = "LOCAL_RANK" in os.environ  # started by torchrun, to train together
    if several or any(Path(name).suffix.lower() in recipes.RECIPES for name in asked):
        return []
    order = recipes.order(asked, given=given)
    found = instead(order, start)
    if found:
        names, task = ", ".join(str(one["path"]) for one in found), order.settings["task"]
        told = "few labelled texts: fitting a head to vectors, as --few does"
        print(f"{names}: {told} (--task {task} fine-tunes the whole model)", file=sys.stderr)
    return found


def _trained(
    asked: list[str], changes: list[str], given: Given, *, as_json: bool, out: Path | None, **options: Any
) -> None:
    """Train what was asked for, print how it went, and end with a status that says so."""
    from regard import recipe as recipes
    from regard.training import distributed

    with distributed.team() as team:  # from here on, an error that all processes meet is said once
        order = recipes.order(asked, *changes, given=given)
        if options["resume"] and "data" not in order.settings:
            order = recipes.order(recipes.begun(_begun(out)), *changes)
        if not order.settings.keys() & {"data", "task"}:
            raise ValueError("nothing to train on: give a recipe file with data, or files to train on")
        outcome = recipes.train(order, out=out, command=sys.argv, **options)
        if team.is_main:
            say(json.dumps(outcome.plain(), ensure_ascii=False) if as_json else outcome.summary)
    if outcome.result.failed or outcome.result.reason == "interrupted":
        raise typer.Exit(1 if outcome.result.failed else INTERRUPTED)


def _compared(
    asked: list[str], changes: list[str], given: Given, unlabelled: list[Path], *, as_json: bool, **options: Any
) -> None:
    """Train several models, print how they compare, and keep the best."""
    from regard import contest as contests
    from regard import recipe as recipes

    order = recipes.order(asked, *changes, given=given)
    try:
        found = contests.contest(order, [str(path) for path in unlabelled], command=sys.argv, **options)
    except contests.Interrupted as stopped:
        say(str(stopped))
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        say(json.dumps(found.plain(), ensure_ascii=False))
        return
    from rich.console import Console

    from regard.cli.tables import Fitted

    head = ("model", "accuracy, 95 %", "seconds", "better beyond chance than")
    title = f"{len(found.entries[0].scores):,} held-out texts"
    Console(highlight=False).print(Fitted(head, found.rows(), title))
    say(found.verdict)


def sort(words: list[str]) -> tuple[list[str], list[str]]:
    """Files and settings, whichever come first."""
    changes = [word for word in words if SETTING.match(word) and not Path(word).exists()]
    return [word for word in words if word not in changes], changes


def joined(graph: list[Path] | None, edges: Path | None, nodes: Path | None) -> list[Path] | None:
    """The files of a graph."""
    if edges is None and nodes is None:
        return graph
    if edges is None or nodes is None or graph:
        raise ValueError("--edges and --nodes go together, without --graph: give both files")
    return [edges, nodes]


def told(
    kinds: dict[str, list[Path] | None], source: Path | None, target: Path | None
) -> tuple[str | None, tuple[str, ...]]:
    """What files were said to hold, and their names."""
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    sides = [source, target] if source is not None and target is not None else []
    said = {f"--{kind}": paths for kind, paths in kinds.items() if paths}
    if sides:
        said["--source and --target"] = [side for side in sides if side is not None]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} contradict each other about the files: give one of them")
    kind = next((kind for kind, paths in kinds.items() if paths), "pairs" if sides else None)
    return kind, tuple(str(path) for paths in said.values() for path in paths)


def _filling() -> str:
    """The task that makes a model which fills gaps."""
    from regard import recipe

    return recipe.able("fill")[0]


def _begun(folder: Path | None) -> Path:
    """The folder of a run to resume by itself; a run that is not there has a remedy."""
    if folder is None:
        raise ValueError("--resume needs to know which run: name its folder, --resume --out runs/NAME, or its data")
    if not (folder / "config.yaml").is_file():
        known = sorted(str(path.parent) for path in folder.parent.glob("*/config.yaml"))[:5]
        others = f"there are {', '.join(known)}" if known else "leave --resume out to start one"
        raise ValueError(f"{folder}: there is no run to resume; {others}")
    return folder
