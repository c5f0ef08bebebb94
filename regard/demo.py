"""The two-minute demonstration: train on the shipped pairs, score, translate, plot an alignment."""

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
TABLE_ROWS = 10


def run_demo(*, seconds: float, out: Path, command: Sequence[str] = (), console: Console | None = None) -> float:
    """Train for `seconds`, print BLEU and ten translations, and plot an alignment; return BLEU."""
    console = console or Console()
    outcome = recipe.train(demo_settings(seconds), out=out, overwrite=True, command=command)
    translator = recipe.load(outcome.best, device="cpu")
    test_pairs = [(source, target) for _, source, target in pairs(_sample_corpus("test"), LineReport())]
    answers = translator.translate([source for source, _ in test_pairs], split=False)
    score = bleu(answers, [reference for _, reference in test_pairs])
    picture = out / "alignment.png"
    plotted_text = _plot_alignment(translator, test_pairs, picture)
    console.print(_translation_table(test_pairs, answers))
    console.print(f"BLEU {score.value:.1f} on {len(test_pairs)} pairs never seen in training ({score.signature})")
    caption = f"{picture}: where the model looked while translating {plotted_text!r}"
    console.print(caption, highlight=False, markup=False, soft_wrap=True)
    next_command = f'Try it: regard translate {shlex.quote(str(out))} "Je suis fatigué."'
    console.print(next_command, highlight=False, markup=False, soft_wrap=True)
    return score.value


def demo_settings(seconds: float) -> dict[str, object]:
    """Return the settings of the demonstration: the shipped recipe and pairs, and the length of the training."""
    settings = config.parse((SAMPLES / "demo.yaml").read_text(encoding="utf-8"), name="demo.yaml")
    corpora = {part: config.plain(_sample_corpus(part)) for part in ("train", "valid")}
    settings["data"] = {**settings["data"], **corpora}
    return config.override(settings, [f"training.seconds={seconds}"])


def _sample_corpus(part: str) -> Corpus:
    """Return a shipped file, whose second column is French and the first English."""
    return Corpus(path=str(SAMPLES / f"tatoeba-fra-eng.{part}.tsv.gz"), columns=(2, 1))


def _translation_table(test_pairs: list[tuple[str, str]], answers: list[str]) -> Table:
    """Return a table of ten sentences, the model's translations and the references."""
    table = Table(title="French, translated by the model, and by a person", expand=False)
    for name in ("French", "model", "reference"):
        table.add_column(name, overflow="fold")
    step = max(1, len(test_pairs) // TABLE_ROWS)
    for (source, reference), answer in list(zip(test_pairs, answers, strict=True))[::step][:TABLE_ROWS]:
        # a model early in training may write anything
        printable = "".join(letter if letter.isprintable() else "·" for letter in answer)
        table.add_row(source, Styled(printable, style="bold"), reference)
    return table


def _plot_alignment(translator: Translator, test_pairs: list[tuple[str, str]], picture: Path) -> str:
    """Plot the cross-attention of the longest test sentence, averaged over heads and layers; return the sentence."""
    text = max((source for source, _ in test_pairs), key=len)
    trace = translator.look(text)
    crosses = [weight.values.mean(0) for weight in trace.weights if (weight.query, weight.key) == ("target", "source")]
    mean = sum(crosses[1:], crosses[0]) / len(crosses)
    queries, keys = ([item.text for item in trace.items[side]] for side in ("target", "source"))
    figure = plots.alignment(mean, queries=queries, keys=keys, title=f"{text}\n{trace.facts['answer']}")
    plots.save(figure, picture)
    return text
