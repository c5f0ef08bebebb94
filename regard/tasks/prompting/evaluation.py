"""How good prompted answers are: beside chance, the commonest label and a copy of the text, each with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import Statistics, averaged, interval, paired, statistics
from regard.tasks.prompting.files import Example
from regard.tasks.prompting.template import Template

TASK = "prompting"
NONE = ("", "none", "nothing", "aucun", "rien")  # a list without names


def chosen(name: str, examples: Sequence[Example], weighed: Any) -> Scores:
    """Accuracy of labels, plain and corrected, by the sum and the mean over tokens where these differ."""
    template: Template = weighed.template
    labels, right = template.labels, np.array([template.labels.index(one.right) for one in examples])
    commonest, _ = Counter(right.tolist()).most_common(1)[0]
    found: dict[str, Statistics] = {"commonest label": averaged(right == commonest)}
    ways = [template.per_token, not template.per_token] if weighed.uneven else [template.per_token]
    told = np.zeros((0, 0))
    for way in ways:
        plain, corrected = weighed.chances(per_token=way)
        note = "" if way == template.per_token else ", per token" if way else ", summed"
        found[f"plain{note}"] = averaged(plain.argmax(1) == right)
        found[f"corrected{note}"] = averaged(corrected.argmax(1) == right)
        found[f"corrected by the texts{note}"] = averaged(weighed.levelled(per_token=way).argmax(1) == right)
        told = (corrected if template.correct else plain) if way == template.per_token else told
    judged = [
        Judged(number, one.given.x, one.right, labels[int(chances.argmax())], float(chances[truth]))
        for number, (one, chances, truth) in enumerate(zip(examples, told, right, strict=True))
    ]
    answered = Counter(one.answer for one in judged)
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
    rows = [("chance", f"{chance:.3f}", "", ""), *_rows(found, "commonest label")]
    table = Table("accuracy", ("", "accuracy", "95 %", "p, against the commonest"), rows)
    return Scores(name, TASK, found, judged, measures, [table], details=details, unit="text", counted="probability")


def written(name: str, examples: Sequence[Example], answers: Sequence[str], template: Template) -> Scores:
    """chrF of what was written beside that of a copy of the first words of the text; of lists also F1 of the names."""
    references = [one.right for one in examples]
    words = template.words or max(1, round(float(np.mean([len(each.split()) for each in references]))))
    copies = [" ".join(one.given.x.split()[:words]) for one in examples]
    copy = f"copy of the first {words} words"
    systems = {copy: statistics("chrf", copies, references), "written": statistics("chrf", answers, references)}
    tables = [Table("chrF", ("", "chrF", "95 %", "p, against the copy"), _rows(systems, copy, digits=1))]
    found = {f"chrF, {each}": one for each, one in systems.items()}
    if template.kind == "list":
        capitals = [", ".join(word for word in one.given.x.split() if word[:1].isupper()) for one in examples]
        both = {"every word with a capital": _names(capitals, references), "written": _names(answers, references)}
        rows = _rows(both, "every word with a capital")
        tables.append(Table("F1 of names", ("", "F1", "95 %", "p, against capitals"), rows))
        found |= {f"F1, {each}": one for each, one in both.items()}
    each = systems["written"].sentences
    judged = [
        Judged(number, one.given.x, one.right, answer, float(score))
        for number, (one, answer, score) in enumerate(zip(examples, answers, each, strict=True))
    ]
    notes = [systems["written"].signature]
    return Scores(name, TASK, found, judged, tables=tables, notes=notes, unit="text", counted="chrF")


def _rows(systems: Mapping[str, Statistics], base: str, *, digits: int = 3) -> list[tuple[str, ...]]:
    """Each system with its score, its interval, and how probable its distance from the baseline is by chance."""
    rows = list[tuple[str, ...]]()
    for name, own in systems.items():
        several = len(own) > 1
        span = interval(own) if several else None
        p = paired({base: systems[base], name: own})[1].p if several and name != base else None
        between = f"{span.low:.{digits}f} to {span.high:.{digits}f}" if span else ""
        rows.append((name, f"{own.score:.{digits}f}", between, "" if p is None else f"{p:.3f}"))
    return rows


def _names(answers: Sequence[str], references: Sequence[str]) -> Statistics:
    """F1 of the names in lists, over all texts: twice the shared ones, of all on both sides."""
    both = [(_listed(one), _listed(other)) for one, other in zip(answers, references, strict=True)]
    shared = [2 * len(one & other) for one, other in both]
    return averaged(shared, [len(one) + len(other) for one, other in both])


def _listed(text: str) -> set[str]:
    names = (" ".join(name.strip(" .").casefold().split()) for name in text.split(","))
    return {name for name in names if name not in NONE}
