"""How good prompted answers are: beside chance, the commonest label and a copy of the text, each with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import Statistics, interval, mean_statistics, paired_test, statistics
from regard.tasks.prompting.files import Example
from regard.tasks.prompting.template import Template

TASK = "prompting"
NONE = ("", "none", "nothing", "aucun", "rien")  # a list without names


def score_choices(name: str, examples: Sequence[Example], answer_scores: Any) -> Scores:
    """Return the accuracy of labels, plain and calibrated, by sum and by mean over tokens where these differ."""
    template: Template = answer_scores.template
    labels, right = template.labels, np.array([template.labels.index(example.right) for example in examples])
    commonest, _ = Counter(right.tolist()).most_common(1)[0]
    metrics: dict[str, Statistics] = {"commonest label": mean_statistics(right == commonest)}
    ways = [template.per_token, not template.per_token] if answer_scores.lengths_differ else [template.per_token]
    label_probabilities = np.zeros((0, 0))
    for way in ways:
        plain, corrected = answer_scores.chances(per_token=way)
        note = "" if way == template.per_token else ", per token" if way else ", summed"
        metrics[f"plain{note}"] = mean_statistics(plain.argmax(1) == right)
        metrics[f"corrected{note}"] = mean_statistics(corrected.argmax(1) == right)
        metrics[f"corrected by the texts{note}"] = mean_statistics(
            answer_scores.calibrate_by_batch(per_token=way).argmax(1) == right
        )
        label_probabilities = (
            (corrected if template.correct else plain) if way == template.per_token else label_probabilities
        )
    judged = [
        Judged(number, example.texts.x, example.right, labels[int(chances.argmax())], float(chances[truth]))
        for number, (example, chances, truth) in enumerate(zip(examples, label_probabilities, right, strict=True))
    ]
    answered = Counter(example.answer for example in judged)
    chance = 1 / len(labels)
    measures = {
        "chance": f"{chance:.4g}",
        "commonest": labels[commonest],
        "answered": ", ".join(f"{label} {answered[label]:,}" for label in labels),
    }
    details = {
        "chance": chance,
        "commonest": labels[commonest],
        "answered": {label: answered[label] for label in labels},
    }
    rows = [("chance", f"{chance:.3f}", "", ""), *_score_rows(metrics, "commonest label")]
    table = Table("accuracy", ("", "accuracy", "95 %", "p, against the commonest"), rows)
    return Scores(name, TASK, metrics, judged, measures, [table], details=details, unit="text", counted="probability")


def score_writing(name: str, examples: Sequence[Example], answers: Sequence[str], template: Template) -> Scores:
    """Return chrF of the answers and of a baseline, a copy of the text's first words; for lists also F1 of names."""
    references = [example.right for example in examples]
    words = template.words or max(1, round(float(np.mean([len(line.split()) for line in references]))))
    copies = [" ".join(example.texts.x.split()[:words]) for example in examples]
    copy = f"copy of the first {words} words"
    systems = {copy: statistics("chrf", copies, references), "written": statistics("chrf", answers, references)}
    tables = [Table("chrF", ("", "chrF", "95 %", "p, against the copy"), _score_rows(systems, copy, digits=1))]
    metrics = {f"chrF, {line}": example for line, example in systems.items()}
    if template.kind == "list":
        capitals = [", ".join(word for word in example.texts.x.split() if word[:1].isupper()) for example in examples]
        name_systems = {
            "every word with a capital": _names_f1(capitals, references),
            "written": _names_f1(answers, references),
        }
        rows = _score_rows(name_systems, "every word with a capital")
        tables.append(Table("F1 of names", ("", "F1", "95 %", "p, against capitals"), rows))
        metrics |= {f"F1, {line}": example for line, example in name_systems.items()}
    line = systems["written"].sentences
    judged = [
        Judged(number, example.texts.x, example.right, answer, float(score))
        for number, (example, answer, score) in enumerate(zip(examples, answers, line, strict=True))
    ]
    notes = [systems["written"].signature]
    return Scores(name, TASK, metrics, judged, tables=tables, notes=notes, unit="text", counted="chrF")


def _score_rows(systems: Mapping[str, Statistics], base: str, *, digits: int = 3) -> list[tuple[str, ...]]:
    """Return a row per system: its score, confidence interval, and p-value against the baseline."""
    rows = list[tuple[str, ...]]()
    for name, system in systems.items():
        several = len(system) > 1
        span = interval(system) if several else None
        p = paired_test({base: systems[base], name: system})[1].p if several and name != base else None
        between = f"{span.low:.{digits}f} to {span.high:.{digits}f}" if span else ""
        rows.append((name, f"{system.score:.{digits}f}", between, "" if p is None else f"{p:.3f}"))
    return rows


def _names_f1(answers: Sequence[str], references: Sequence[str]) -> Statistics:
    """Return the micro-averaged F1 of the names in comma-separated lists."""
    both = [(_parse_names(first), _parse_names(second)) for first, second in zip(answers, references, strict=True)]
    shared = [2 * len(first & second) for first, second in both]
    return mean_statistics(shared, [len(first) + len(second) for first, second in both])


def _parse_names(text: str) -> set[str]:
    names = (" ".join(name.strip(" .").casefold().split()) for name in text.split(","))
    return {name for name in names if name not in NONE}
