"""One grammar for all commands: `regard VERB MODEL [INPUT...] [-i FILE] [-o FILE] [-s name=value]... [--device D]`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard.cli.former import FORMER
from regard.cli.lines import is_address
from regard.config.paths import real_path
from regard.config.words import suggest

LONGEST = 255  # letters of a path that could be asked for
SENTENCE_ENDS = (".", "!", "?", "…", ":", ";", ",")
HELP = {"help_option_names": ["-h", "--help"]}

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A run folder or a checkpoint directory.")]
Texts = Annotated[
    list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts; - reads lines from standard input.")
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL] [TEXT]...", help="A model, else the shipped one; texts, or - for stdin."),
]
Input = Annotated[
    Path | None,
    typer.Option("--input", "-i", metavar="FILE", help="Read the lines of this file, or a column of a table."),
]
Column = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of a table (.csv, .tsv, .jsonl): the column to read, or its number.")
]
Answers = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here: .jsonl, .csv, or any other name for plain text."),
]
Picture = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Draw into this PNG or SVG file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set an option of the model; again for more."),
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda or mps.")]
Node = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A node of the graph that the model was trained on; again for more."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Labels = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Names for the models, in their order, between commas.")
]


class Family(TyperGroup):
    """Some commands; a name that is no longer one of them answers with what it became."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names."""
        former = " ".join([*ctx.command_path.split()[1:], *args[:1]])
        if args and args[0] not in self.commands and former in FORMER:
            raise ValueError(f"{former} is now: regard {FORMER[former]}")
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{suggest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def group(help: str) -> typer.Typer:
    """A family of commands, which prints its help when none of them is named."""
    family = typer.Typer(help=help, cls=Family, context_settings=HELP, rich_markup_mode="rich")

    @family.callback(invoke_without_command=True)
    def _family(context: typer.Context) -> None:
        show_help(context)

    return family


def show_help(context: typer.Context) -> None:
    """The help of a family none of whose commands was named."""
    if context.invoked_subcommand is None and (text := context.get_help()):
        print(text)  # with Rich it is printed already


def options(settings: list[str] | None) -> dict[str, Any]:
    """What `-s name=value` says, as keyword arguments."""
    from regard import config

    return config.override({}, settings or [])


def named(words: list[str]) -> tuple[Path | None, list[str]]:
    """The model that the first word names, if it is a folder, a path to one or a shipped model; and the other words.

    A folder is a folder whatever its name. Several words that name nothing are a text, unless they look like a path.
    """
    if not words:
        return None, []
    first, rest = words[0], words[1:]
    if not first.strip() or first == "-" or "\0" in first or is_address(first) or _is_file(first):
        return None, words
    if _is_folder(first) or ships(first):
        return Path(first), rest
    if len(first) > LONGEST or not _looks_like_path(first):
        return None, words
    if len(first.split()) > 1:
        remedy = "correct the path, or name a model before it if it is a text"
        raise ValueError(f"no model at {first}: {remedy}")
    return Path(first), rest


def _looks_like_path(word: str) -> bool:
    """True for one word with a separator; of several words, for those that name a place in a folder which is there."""
    if os.sep not in word:
        return False
    if len(word.split()) == 1 or word.startswith((f".{os.sep}", f"..{os.sep}")):
        return True
    folder = Path(word).parent
    sentence = word.rstrip().endswith(SENTENCE_ENDS)
    return not sentence and folder not in (Path(), Path(folder.anchor)) and _is_folder(str(folder))


def _is_folder(name: str) -> bool:
    with suppress(OSError):  # a name too long to ask for
        return Path(name).is_dir()
    return False


def _is_file(name: str) -> bool:
    with suppress(OSError):
        return Path(name).is_file()
    return False


def meant(words: list[str], command: str) -> tuple[Path, list[str]]:
    """The model that the first word names, else the one that comes with Regard for this command; the other words."""
    from regard import shipped

    model, texts = named(words)
    if model is not None:
        return model, texts
    try:
        return shipped.model_for_command(command).path, texts
    except ValueError as error:
        alone = f"no model at {words[0]}, and " if len(words) == 1 and len(words[0].split()) == 1 else ""
        raise ValueError(f"{alone}{error}") from None


def called(path: Path) -> str:
    """The name of a folder; of a checkpoint in a run folder both names, since many are called best."""
    found = real_path(path)
    folder = found.parents[1] if found.parent.name == "checkpoints" else found.parent
    return f"{folder.name}/{found.name}" if (folder / "metrics.jsonl").is_file() else found.name


def ships(name: str) -> bool:
    """Whether a model of this name comes with Regard."""
    from regard import shipped

    return name in shipped.models()
