"""A translator's scores on a test set, in the format shared by all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data import testset
from regard.data.readers import Corpus
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.translation import error_rate, evaluation
from regard.tasks.translation.directions import Direction

METRICS = ("overlap", "errors")
Pairs = Sequence[tuple[str, str]]
SAID = ("sources", "wrong answers", "wrong units")  # shown with their intervals

if TYPE_CHECKING:
    from regard.tasks.translation.sentence_translator import SentenceTranslator


def pairs(*files: str | Path, columns: tuple[int, int] | None = None, to: str | None = None) -> list[tuple[str, str]]:
    """Read a test set: one file of pairs (TSV or JSON lines), or a file of sources and one of references.

    For one file without `columns`, the columns are chosen by its heading and by the target language `to`.
    """
    names = [str(file) for file in files]
    if len(names) == 1:
        if columns is None:
            direction = Direction() if to is None else Direction((to,))
            columns, _ = direction.choose_columns(names[0], to)
        return testset.read(Corpus(path=names[0], columns=columns))
    if len(names) != 2:
        raise ValueError(f"{len(names)} files: give one with pairs, or one of sources and one of references")
    if columns is not None:
        raise ValueError("columns are those of one file with both sides: leave them out, or give one file")
    return testset.read(Corpus(source=names[0], target=names[1]))


def evaluate(
    translator: SentenceTranslator,
    files: Sequence[str | Path],
    *,
    columns: tuple[int, int] | None = None,
    **options: Any,
) -> Scores:
    """Score a translator on files; the columns of a table are chosen by its heading and the model's languages."""
    if columns is None and len(files) == 1:
        targets, reads = tuple(translator.languages), tuple(translator.reads)
        direction = Direction(targets, translator.trained_direction, reads, translator.name)
        columns, options["to"] = direction.choose_columns(str(files[0]), options.get("to"))
    return score(translator, pairs(*files, columns=columns), **options)


def score(
    translator: SentenceTranslator,
    test: Pairs,
    *,
    to: str | None = None,
    name: str | None = None,
    metric: str = "overlap",
    tokenize: str = "13a",
    **settings: Any,
) -> Scores:
    """Translate a test set and score the answers: by overlap (BLEU, chrF, TER), or by error rate."""
    if to is None and len(translator.languages) > 1:
        to = translator.direction("\n".join(source for source, _ in test[:100]))
    called = name or translator.name
    if _check_metric(metric) == "errors":
        return error_scores(error_rate.evaluate(translator, test, to=to, name=called, **settings))
    return overlap_scores(evaluation.evaluate(translator, test, to=to, name=called, tokenize=tokenize, **settings))


def score_answers(
    name: str, file: str | Path, test: Pairs, *, metric: str = "overlap", tokenize: str = "13a"
) -> Scores:
    """Score the answers in a file, one per line."""
    answers = testset.read_answers(str(file), len(test))
    if _check_metric(metric) == "errors":
        return error_scores(error_rate.judge(name, answers, test))
    return overlap_scores(evaluation.judge(name, answers, test, tokenize=tokenize))


def overlap_scores(evaluated: evaluation.Evaluation) -> Scores:
    """Return BLEU, chrF and TER with the other measures."""
    counts = {evaluation.METRICS[metric]: metric_counts for metric, metric_counts in evaluated.counts.items()}
    rows = [row for row in evaluated.lines()[2:] if row[0] not in counts]
    by_length = [row for row in rows if row[0].startswith("BLEU, ")]
    spread = [(name.split(", ")[1].removesuffix(" words"), *value.split("  ")) for name, value in by_length]
    lengths = [(words, score, count.split()[0]) for words, score, count in spread]
    return Scores(
        evaluated.name,
        "translation",
        counts,
        [Judged(*sentence) for sentence in evaluated.sentences],
        measures={name: value for name, value in rows if (name, value) not in by_length},
        tables=[Table("BLEU by length of the source", ("words", "BLEU", "sentences"), lengths)],
        notes=evaluated.signatures(),
        details={key: value for key, value in evaluated.plain().items() if key not in ("name", "worst", "sentences")},
        lengths=evaluated.lengths,
        unit="sentence",
        counted="chrF",
    )


def error_scores(judgement: error_rate.Judgement) -> Scores:
    """Return the rates of wrong answers and wrong units."""
    judged_answers = [
        (question, answer, *error_rate.count_edits(answer, question))
        for question, answer in zip(judgement.questions, judgement.answers, strict=True)
    ]
    right = [
        Judged(i + 1, q.source, " | ".join(q.references), a, e / max(u, 1))
        for i, (q, a, e, u) in enumerate(judged_answers)
    ]
    return Scores(
        judgement.name,
        "translation",
        {
            "wrong answers, %": mean_statistics([100.0 * (edits > 0) for *_, edits, _ in judged_answers], lower=True),
            "wrong units, %": mean_statistics(
                [100.0 * e for *_, e, _ in judged_answers], [u for *_, u in judged_answers], lower=True
            ),
        },
        right,
        measures={name or "edits": value for name, value in judgement.lines()[1:] if name not in SAID},
        details={key: value for key, value in judgement.plain().items() if key not in ("name", "worst")},
        unit="source",
        counted="edits",
        lower_is_better=True,
    )


def _check_metric(metric: str) -> str:
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}: choose one of {', '.join(METRICS)}")
    return metric
