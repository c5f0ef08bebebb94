"""The command table: words from a terminal become calls, answers go to stdout, the rest to stderr."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer

from regard import __version__
from regard.cli import (
    bench,
    classify,
    compare,
    cost,
    data,
    evaluate,
    explain,
    generate,
    lab,
    learning,
    predict,
    translate,
    words,
)

app = typer.Typer(
    name="regard",
    help="Attention models on your own data: train one, use it, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    learning.demo,
    learning.train,
    translate.translate,
    explain.explain,
    evaluate.evaluate,
    compare.compare,
    lab.agreement,
    bench.bench,
    cost.cost,
    cost.positions,
    cost.gradients,
    words.similar,
    words.analogy,
    words.map,
    words.vectors,
    classify.classify,
    classify.tag,
    predict.locate,
    predict.count,
    predict.predict,
    generate.generate,
    generate.perplexity,
    generate.samples,
):
    app.command()(command)
for making in (data.cmudict, data.agreement, data.units):
    learning.data_app.command()(making)
app.add_typer(learning.runs_app, name="runs")
app.add_typer(learning.data_app, name="data")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command; whatever a person got wrong is said in one line."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """The exit status of one command."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return app(words, prog_name="regard", standalone_mode=False) or 0
    except ValueError as error:
        return _complain(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{(error.strerror or str(error)).lower()}", 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except Exception as error:  # usage errors of the command line library, whichever version brings them
        if not hasattr(error, "format_message"):
            raise
        return _complain(_usage(error), getattr(error, "exit_code", 2))


def _complain(text: str, status: int) -> int:
    print(f"regard: {' '.join(text.split())}", file=sys.stderr)
    return status


def _usage(error: Any) -> str:
    """A wrong flag or argument, with the command whose help shows the right ones."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "regard"
    message = error.format_message().rstrip(".")
    return f"{message} (see {command} --help)" if message else f"see {command} --help"


@app.callback(invoke_without_command=True)
def _regard(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"regard {__version__}")
        raise typer.Exit
