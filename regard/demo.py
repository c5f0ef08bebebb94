"""The two-minute demonstration: train on the shipped pairs, score, translate, draw."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from regard import config, recipe
from regard.data.line_report import LineReport
from regard.data.readers import Corpus, pairs
from regard.interpret.draw import plots
from regard.metrics.overlap import bleu
from regard.tasks.translation.translator import Translator

SAMPLES = resources.files("regard") / "samples"
SHOWN = 10


def show(*, seconds: float, out: Path, command: Sequence[str] = (), console: Console | None = None) -> float:
    """Train for so long whatever is reached, then print BLEU and ten translations, and draw an alignment."""
    console = console or Console()
    outcome = recipe.train(settings(seconds), out=out, overwrite=True, command=command)
    translator = recipe.load(outcome.best, device="cpu")
    tested = [(source, target) for _, source, target in pairs(_corpus("test"), LineReport())]
    answers = translator.translate([source for source, _ in tested], split=False)
    score = bleu(answers, [reference for _, reference in tested])
    picture = out / "alignment.png"
    drawn = _draw(translator, tested, picture)
    console.print(_table(tested, answers))
    console.print(f"BLEU {score.value:.1f} on {len(tested)} pairs never seen in training ({score.signature})")
    caption = f"{picture}: where the model looked while translating {drawn!r}"
    console.print(caption, highlight=False, markup=False, soft_wrap=True)
    again = f'Try it: regard translate {shlex.quote(str(out))} "Je suis fatigué."'
    console.print(again, highlight=False, markup=False, soft_wrap=True)
    return score.value


def settings(seconds: float) -> dict[str, object]:
    """Return the shipped recipe over the shipped pairs."""
    shipped = config.parse((SAMPLES / "demo.yaml").read_text(encoding="utf-8"), name="demo.yaml")
    data = {"train": config.plain(_corpus("train")), "valid": config.plain(_corpus("valid"))}
    shipped["data"] = {**shipped["data"], **data}
    return config.override(shipped, [f"training.seconds={seconds}"])


def _corpus(part: str) -> Corpus:
    """Return a shipped file, whose second column is French and the first English."""
    return Corpus(path=str(SAMPLES / f"tatoeba-fra-eng.{part}.tsv.gz"), columns=(2, 1))


def _table(tested: list[tuple[str, str]], answers: list[str]) -> Table:
    table = Table(title="French, translated by the model, and by a person", expand=False)
    for name in ("French", "model", "reference"):
        table.add_column(name, overflow="fold")
    step = max(1, len(tested) // SHOWN)
    for (source, reference), answer in list(zip(tested, answers, strict=True))[::step][:SHOWN]:
        shown = "".join(letter if letter.isprintable() else "·" for letter in answer)  # a beginner may write anything
        table.add_row(source, Styled(shown, style="bold"), reference)
    return table


def _draw(translator: Translator, tested: list[tuple[str, str]], picture: Path) -> str:
    """Draw the alignment of the longest test sentence: the mean over heads and layers of the cross-attention."""
    text = max((source for source, _ in tested), key=len)
    trace = translator.look(text)
    crosses = [weight.values.mean(0) for weight in trace.weights if (weight.query, weight.key) == ("target", "source")]
    mean = sum(crosses[1:], crosses[0]) / len(crosses)
    queries, keys = ([item.text for item in trace.items[side]] for side in ("target", "source"))
    figure = plots.alignment(mean, queries=queries, keys=keys, title=f"{text}\n{trace.facts['answer']}")
    plots.save(figure, picture)
    return text
