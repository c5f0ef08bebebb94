"""What all commands share: `regard VERB MODEL [INPUT...] [-i FILE] [-o FILE] [-s NAME=VALUE]... [--device D]`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from regard.cli.renamed_commands import RENAMED
from regard.cli.text_io import is_address
from regard.config.paths import real_path
from regard.config.words import suggest

MAX_PATH_LENGTH = 255  # letters of a path that could be asked for
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
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="[ADDRESS]", help="Answer a file on a Ray cluster, into a folder: -i FILE -o FOLDER."
    ),
]
Node = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A node of the graph that the model was trained on; again for more."),
]
LabelledPictures = Annotated[
    list[str],
    typer.Argument(
        metavar="PICTURES...", help="Labelled pictures, best not learnt from: folders or files, as for train."
    ),
]
Temperature = Annotated[
    float | None, typer.Option(min=0, help="Below 1 safer, above 1 wilder; 0 takes the likeliest token.")
]
TopK = Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Sample from the likeliest tokens that have this probability together.")
]
MinP = Annotated[
    float | None, typer.Option(help="Leave out tokens below this share of the likeliest one's probability.")
]
Seed = Annotated[int | None, typer.Option(min=0, max=2**64 - 1, help="Random seed.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Labels = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Names for the models, in their order, between commas.")
]


class Family(TyperGroup):
    """A group of commands; the old name of a command is answered with the new one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names."""
        former = " ".join([*ctx.command_path.split()[1:], *args[:1]])
        if args and args[0] not in self.commands and former in RENAMED:
            raise ValueError(f"{former} is now: regard {RENAMED[former]}")
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{suggest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def group(help: str) -> typer.Typer:
    """Create a group of commands, which prints its help if none of them is named."""
    family = typer.Typer(help=help, cls=Family, context_settings=HELP, rich_markup_mode="rich")

    @family.callback(invoke_without_command=True)
    def _family(context: typer.Context) -> None:
        show_help(context)

    return family


def show_help(context: typer.Context) -> None:
    """Print the help of a group if none of its commands is named."""
    if context.invoked_subcommand is None and (text := context.get_help()):
        print(text)  # with Rich it is printed already


def parse_settings(settings: list[str] | None, **flags: Any) -> dict[str, Any]:
    """Parse `-s name=value` settings into keyword arguments, with those flags that were given in their place."""
    from regard import config

    return config.override({}, settings or []) | {name: value for name, value in flags.items() if value is not None}


def fill_ray_address(words: list[str]) -> list[str]:
    """Complete `--ray` without an address, which means Ray on this machine; nothing but an address can follow it."""
    from regard.cluster.connection import LOCAL, is_address

    end = words.index("--") if "--" in words else len(words)
    return [
        f"--ray={LOCAL}" if word == "--ray" and place < end and not is_address(following) else word
        for place, (word, following) in enumerate(zip(words, [*words, ""][1:], strict=True))
    ]


def split_model(words: list[str]) -> tuple[Path | None, list[str]]:
    """Split words into the model that the first one names, if it does, and the other words.

    A model is a folder, a path to one or the name of a shipped model. A folder is a folder whatever its name. Several
    words that name nothing are a text, unless they look like a path.
    """
    if not words:
        return None, []
    first, rest = words[0], words[1:]
    if not first.strip() or first == "-" or "\0" in first or is_address(first) or _is_file(first):
        return None, words
    if _is_folder(first) or is_shipped(first):
        return Path(first), rest
    if len(first) > MAX_PATH_LENGTH or not _looks_like_path(first):
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


def resolve_model(words: list[str], command: str) -> tuple[Path, list[str]]:
    """Split words into a model, the shipped one for this command if none is named, and the other words."""
    from regard import shipped

    model, texts = split_model(words)
    if model is not None:
        return model, texts
    try:
        return shipped.model_for_command(command).path, texts
    except ValueError as error:
        prefix = f"no model at {words[0]}, and " if len(words) == 1 and len(words[0].split()) == 1 else ""
        raise ValueError(f"{prefix}{error}") from None


def split_ensemble(texts: list[str]) -> tuple[list[Path], list[str]]:
    """Split texts into the folders of models that they begin with, and the others."""
    count = next((place for place, text in enumerate(texts) if not _holds_model(text)), len(texts))
    return [Path(text) for text in texts[:count]], texts[count:]


def _holds_model(name: str) -> bool:
    """True for a folder with a checkpoint in it, or with those of a run."""
    return _is_folder(name) and any((Path(name) / part).exists() for part in ("manifest.json", "best", "checkpoints"))


def model_name(path: Path) -> str:
    """Return the name of a folder; of a checkpoint in a run folder both names, since many are called best."""
    resolved = real_path(path)
    folder = resolved.parents[1] if resolved.parent.name == "checkpoints" else resolved.parent
    return f"{folder.name}/{resolved.name}" if (folder / "metrics.jsonl").is_file() else resolved.name


def is_shipped(name: str) -> bool:
    """Return True if a model of this name is shipped with Regard."""
    from regard import shipped

    return name in shipped.models()
