"""The command table: words from a terminal become calls, answers go to stdout, the rest to stderr."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from regard import __version__
from regard.cli import (
    bench,
    caption,
    classify,
    compare,
    cost,
    data,
    demo,
    draw,
    embed,
    evaluate,
    explain,
    export_model,
    fill,
    generate,
    import_model,
    judge,
    lab,
    mcp,
    models,
    predict,
    probe,
    prompt,
    runs,
    serve,
    train,
    translate,
    words,
)
from regard.cli.argument_checks import check_words
from regard.cli.grammar import HELP, Family, fill_ray_address, show_help
from regard.cli.renamed_commands import RENAMED, USE_DRAW, follow_moved
from regard.cli.text_io import ESCAPE_UNENCODABLE, print_note
from regard.config.words import suggest

PACKAGE = Path(__file__).parent.parent  # where our own warnings come from
NOTE = "regard.note"  # what is said after a command that was called by an old name
PANELS: dict[str, dict[str, Any]] = {
    "Use": {
        "translate": translate.translate,
        "generate": generate.generate,
        "classify": classify.classify,
        "tag": classify.tag,
        "fill": fill.fill,
        "prompt": prompt.prompt,
        "embed": embed.embed,
        "search": embed.search,
        "caption": caption.caption,
        "locate": predict.locate,
        "count": predict.count,
        "draw": draw.draw,
        "predict": predict.predict,
    },
    "Make": {"train": train.train},
    "Judge": {
        "evaluate": evaluate.evaluate,
        "compare": compare.compare,
        "explain": explain.explain,
        "judge": judge.judge,
        "probe": probe.probe,
    },
    "Plan": {"cost": cost.cost, "bench": bench.bench},
    "Share": {"import": import_model.import_model, "export": export_model.export_model},
    "Keep": {"models": models.models, "runs": runs.runs, "data": data.data},
    "Words": {"words": words.words},
    "Learn": {"lab": lab.lab},
    "Run": {"demo": demo.demo},
    "Serve": {"serve": serve.serve, "mcp": mcp.mcp},
}
"""Every command and family of commands, by its panel in the help."""


class Commands(Family):
    """The table of commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of commands and families in the order of their panels."""
        return [name for commands in PANELS.values() for name in commands]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, or the one that an option of it has become."""
        words = follow_moved(args)
        ctx.meta[NOTE] = USE_DRAW if words[:1] == ["draw"] != args[:1] else None
        return super().resolve_command(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; where it was called generate and is draw, say so at the end."""
        status = super().invoke(ctx)
        if note := ctx.meta.get(NOTE):
            print_note(note)
        return status


app = typer.Typer(
    name="regard",
    cls=Commands,
    help="Attention models on your own data: train one, use it, look inside.",
    epilog="A MODEL is a run folder, a checkpoint directory, or the name of a shipped model (regard models).",
    context_settings=HELP,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _panel, _commands in PANELS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            _epilog = train.EPILOG if _name == "train" else None
            app.command(_name, rich_help_panel=_panel, epilog=_epilog)(_command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command that the arguments of the process name, and exit; errors of the user are one line each."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if sys.stderr is None:  # closed: what is said there must not end up among the answers
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=ESCAPE_UNENCODABLE)  # a name that is no text must not end a command
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_print_warning, warnings.showwarning, set())
            words = fill_ray_address(evaluate.split_columns(words))
            check_words(words, _build_commands())
            return _build_commands()(words, prog_name="regard", standalone_mode=False) or 0
    except (ValueError, FloatingPointError) as error:
        return _print_error(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}{(error.strerror or str(error)).lower()}", 1)
    except KeyboardInterrupt:
        return _print_error("interrupted", 130)
    except Exception as error:  # usage errors of the command line library, whichever version brings them
        if not hasattr(error, "format_message"):
            raise
        return _print_error(_usage_message(error), getattr(error, "exit_code", 2))


@cache
def _build_commands() -> Any:
    """Build all commands from their functions, once in a process, since that takes longer than most commands."""
    return typer.main.get_command(app)


def _print_warning(
    default_handler: Callable[..., None],
    printed_messages: set[str],
    message: Warning | str,
    category: type[Warning],
    file: str,
    *arguments: Any,
) -> None:
    """Print a warning of Regard as one line, once; warnings of libraries are shown as usual."""
    if Path(file).is_relative_to(PACKAGE):
        if str(message) not in printed_messages:
            printed_messages.add(str(message))
            _print_error(str(message), 0)
    else:
        default_handler(message, category, file, *arguments)


def _print_error(text: str, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        print(f"regard: {' '.join(text.split())}", file=sys.stderr)
    return status


def _usage_message(error: Any) -> str:
    """Describe a wrong flag or argument: which replaced it, or where the right ones are listed."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "regard"
    old_spelling = f"{command.removeprefix('regard ')} {getattr(error, 'option_name', '')}"
    if old_spelling in RENAMED:
        return f"{old_spelling} is now: regard {RENAMED[old_spelling]}"
    if getattr(error, "possibilities", None) is not None and context is not None:
        error.possibilities = None  # what only looks alike is not proposed
        spellings = [spelling for option in context.command.params for spelling in option.opts]
        error.message += suggest(error.option_name, spellings)
    message = error.format_message().strip().rstrip(".")
    if message == "No such option: -":
        message += ": put -- before texts that begin with a dash"
    return f"{message} (see {command} --help)" if message else f"see {command} --help"


@app.callback(invoke_without_command=True)
def _regard(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        print(f"regard {__version__}")
        raise typer.Exit
    show_help(context)
