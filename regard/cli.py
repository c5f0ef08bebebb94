"""The command table: words from a terminal become calls, answers go to stdout, the rest to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from regard import __version__

if TYPE_CHECKING:
    from regard.tasks.translator import Answer

app = typer.Typer(
    name="regard",
    help="Attention models on your own data: train one, use it, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to train.")] = 150,
    out: Annotated[Path, typer.Option(help="Folder of the run; an earlier demo there is replaced.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train a small French-English translator on shipped pairs and show what it learned."""
    from regard import demo

    demo.show(seconds=seconds, out=out, command=sys.argv)


@app.command()
def train(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(help="A recipe file, then settings that change it, such as model.width=256."),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate from, one sentence per line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="A model to go on from or to adapt.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/NAME when not given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run in the folder.")] = False,
) -> None:
    """Train a model on your own data: files in, a scored checkpoint out."""
    from regard import recipe as recipes

    words = list(recipe or [])
    file = words.pop(0) if words and "=" not in words[0] else None
    settings = recipes.settings(file if file is not None else {}, *words)
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    if source is not None:
        settings.setdefault("data", {})["train"] = {"source": str(source), "target": str(target)}
    if resume and out is not None and "data" not in settings:
        settings = recipes.settings(out / "config.yaml", *words)
    if "data" not in settings:
        raise ValueError("nothing to train on: give a recipe file, or --source and --target")
    name = Path(file).stem if file else (source.stem if source else "run")
    outcome = recipes.train(
        settings, out=out or Path("runs") / name, resume=resume, overwrite=overwrite, start=start, command=sys.argv
    )
    print(outcome.summary)


@app.command()
def translate(
    model: Annotated[Path, typer.Argument(help="A checkpoint directory or run folder.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to translate; - reads lines from standard input.")
    ] = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", help="File to read lines from.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write lines to.")] = None,
    to: Annotated[str | None, typer.Option(help="Target language, when the model has several.")] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy.")] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Answers per line.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line, with scores.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A decoding setting, such as length_penalty=1.2.")
    ] = None,
) -> None:
    """Translate text with a trained model; line counts always match."""
    import regard
    from regard import config

    if bool(texts) == (input is not None):
        raise ValueError("give either texts, or - for standard input, or --input FILE")
    chosen = config.override({}, settings or [])
    chosen |= {name: value for name, value in (("beams", beams), ("nbest", nbest)) if value is not None}
    if nbest and "beams" not in chosen and not chosen.get("sample"):
        chosen["beams"] = max(nbest, 4)
    translator = regard.load(model)
    lines = _lines(input) if input is not None else _arguments(texts or [])
    with _writer(output) as write:
        number = 0
        for block in _blocks(lines, 256):
            for text, answer in zip(block, translator.answers(block, to=to, **chosen), strict=True):
                number += 1
                write(_as_json(text, answer) if as_json else _as_lines(number, answer))


@app.command()
def cost(
    model: Annotated[
        str | None, typer.Argument(help="A recipe file or a preset (tiny, small, base, big): what training it takes.")
    ] = None,
    length: Annotated[int, typer.Option(min=1, help="Positions in the table of layers.")] = 512,
    width: Annotated[int, typer.Option(min=1, help="Features of a position there.")] = 64,
    window: Annotated[int, typer.Option(min=2, help="Positions in sight of windowed attention.")] = 65,
    measure: Annotated[bool, typer.Option(help="Time real layers on this machine.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the growth with length into this PNG or SVG file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A setting of the plan, such as gpu=A100 or steps=50000.")
    ] = None,
) -> None:
    """What attention costs beside other layers, or what training a model costs."""
    from rich.console import Console

    from regard import cost, report

    console = Console()
    if model is not None:
        console.print(report.bill(model, settings or []))
        return
    console.print(report.layers(cost.table(length, width, window=window)))
    console.print(report.pixels())
    if measure or plot is not None:
        timings = cost.measure(width=width, window=window)
        console.print(report.growth(timings))
        if plot is not None:
            cost.plot(timings, plot)
            print(f"{plot}: time against length, computed and measured")


@app.command()
def positions(
    scheme: Annotated[str | None, typer.Argument(help="sinusoidal, binary, integer or normalised.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the table of the scheme into this PNG or SVG file.")] = None,
) -> None:
    """Ways to say where a token stands, and what each of them promises."""
    from rich.console import Console

    from regard import report

    if (plot is None) != (scheme is None):
        raise ValueError("name a scheme and a file to draw it: regard positions sinusoidal --plot positions.png")
    Console().print(report.schemes())
    if plot is not None and scheme is not None:
        report.draw(scheme, plot)
        print(f"{plot}: the {scheme} code, place by feature")


def _as_json(text: str, answer: Answer) -> str:
    """One object: the source, the best answer, and the others if asked for."""
    head = {"source": text, "translation": answer.text, "score": round(answer.score, 6)}
    others = [{"translation": other.text, "score": round(other.score, 6)} for other in answer.alternatives]
    return json.dumps(head | ({"alternatives": others} if others else {}), ensure_ascii=False)


def _as_lines(number: int, answer: Answer) -> str:
    """The answer in one line; several answers as number, score and text."""
    if not answer.alternatives:
        return _one_line(answer.text)
    ranked = (answer, *answer.alternatives)
    return "\n".join(f"{number}\t{one.score:.4f}\t{_one_line(one.text)}" for one in ranked)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _arguments(texts: list[str]) -> Iterator[str]:
    """Texts as given, standard input in place of a dash."""
    for text in texts:
        if text == "-":
            yield from _decoded(sys.stdin.buffer, "standard input")
        else:
            yield text


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        yield from _decoded(file, str(path))


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of text; only a line feed ends one."""
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{name}:{number}: not UTF-8, convert the text first") from None


def _blocks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lines in blocks, so that a file of any length is translated in bounded memory."""
    while block := list(islice(lines, size)):
        yield block


@contextmanager
def _writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Write lines to a file that appears only when it is whole, or to standard output."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8") if hasattr(sys.stdout, "reconfigure") else None
        yield print
        sys.stdout.flush()
        return
    aside = path.with_name(path.name + ".part")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            yield lambda line: print(line, file=file)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
