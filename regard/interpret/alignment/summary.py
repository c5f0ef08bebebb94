"""All measures of a translator as tables: each number with its controls beside it."""

from __future__ import annotations

from collections.abc import Sequence

from regard.interpret import interventions, patterns
from regard.interpret.alignment import measures, relations
from regard.interpret.alignment.forced import Reader
from regard.interpret.alignment.measures import SHIFTS, Aligned, Cell, Example, Table
from regard.interpret.alignment.relations import Followed
from regard.metrics.alignment import Counts, Gold

CROSS = "cross"


def summary(reader: Reader, golds: Sequence[Gold], *, intervene: bool = True) -> list[Table]:
    """Everything measured on these pairs; without interventions, which read them many times over, it is quick."""
    looked = measures.examples(reader, golds)
    grammar = relations.followed(looked)
    tables = [aligned(looked), inverted(looked), ahead(looked), related(looked, grammar), *heads(looked, grammar)]
    if intervene:
        tables += [ablated(reader, golds), agreed(reader, looked)]
    return [table for table in tables if table.rows]


def aligned(looked: Sequence[Example]) -> Table:
    """Error rates against the hand-drawn links."""
    found: list[Aligned] = []
    for shift in SHIFTS:
        found += measures.alignments(looked, shift=shift)
        found += [measures.best(looked, shift=shift)] if len(looked) > 1 else []
    rows = tuple(
        (str(one.view), one.shift, *_rates(one.counts), one.permuted.aer, one.diagonal.aer, one.uniform.aer)
        for one in found
    )
    columns = "weights", "shift", "AER", "precision", "recall", "AER permuted", "AER diagonal", "AER uniform"
    note = "Each word of the answer is linked with the source word it looks at most. Less AER is better."
    return Table(f"Alignment of {len(looked)} pairs against links drawn by hand", columns, rows, note)


def inverted(looked: Sequence[Example]) -> Table:
    """Whether adjectives change sides."""
    found = [one for shift in SHIFTS for one in measures.inversions(looked, shift=shift)]
    rows = tuple(
        (str(one.view), one.shift, one.share, one.exact, one.exchanged, one.diagonal, one.uniform) for one in found
    )
    columns = "weights", "shift", "inverted", "both exact", "exchanged", "diagonal", "uniform"
    places = found[0].places if found else 0
    note = (
        "Share of adjectives on the other side of their noun whose looks, and their nouns', are in the source's order."
    )
    return Table(f"Adjective order inverted ({places} adjectives)", columns, rows, note)


def ahead(looked: Sequence[Example]) -> Table:
    """Whether articles look at their nouns."""
    found = [one for shift in SHIFTS for one in measures.articles(looked, shift=shift)]
    rows = tuple((str(one.view), one.shift, one.article, one.noun, one.even, one.share, one.others) for one in found)
    columns = "weights", "shift", "on article", "on noun", "even", "noun first", "noun first, other words"
    places = found[0].places if found else 0
    note = "Weights an article gives to the source's article and to its noun, and how often the noun gets more."
    return Table(f"The article looks ahead ({places} articles)", columns, rows, note)


def related(looked: Sequence[Example], grammar: Sequence[Followed]) -> Table:
    """Whether some head follows grammar: articles their nouns, adjectives theirs, and back."""
    found = [one for one in grammar if one.follows]
    tested = relations.best(looked) if len(looked) > 1 else []
    rows = tuple(
        (
            one.relation,
            one.where if one.head < 0 else f"{one.where} head {one.head}",
            one.value,
            one.even,
            one.distance,
            one.places,
        )
        for one in sorted([*tested, *found], key=lambda one: relations.RELATIONS.index(one.relation))
    )
    columns = "relation", "head", "weight", "even", "same distance, other words", "places"
    note = f"Heads with {patterns.LEAST:.0%} of the weight and {patterns.TIMES:g} times either control are listed."
    return Table("Heads that follow a relation of grammar", columns, rows, note)


def heads(looked: Sequence[Example], grammar: Sequence[Followed] = ()) -> list[Table]:
    """What single heads do: across, and among themselves."""
    found = patterns.patterns([example.trace for example in looked])
    across = tuple((*_spread(one), one.diagonality) for one in found if one.where.endswith(CROSS))
    inward = [one for one in found if not one.where.endswith(CROSS)]
    names = list(dict.fromkeys(name for one in inward for name in one.relations))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *_spread(one),
            *(_beside(one.relations.get(name)) for name in names),
            ", ".join(_roles(one, grammar)) or "-",
        )
        for one in inward
    )
    bits = "Entropy in bits, of the head and of an even look."
    least = f"A role takes {patterns.LEAST:.0%} of the weight and {patterns.TIMES:g} times what an even look gives."
    return [
        Table(
            "Heads that look across",
            ("head", "entropy", "entropy even", "diagonality"),
            across,
            f"{bits} Diagonality is 1 on the diagonal and 0 for an even look.",
        ),
        Table(
            "Heads that look at their own side",
            ("head", "entropy", "entropy even", *names, "role"),
            rows,
            f"{bits} Weight given to each relation / by an even look. {least}",
        ),
    ]


def for_page(looked: Sequence[Example]) -> dict[str, dict[str, list[float]] | float]:
    """Numbers of every head, by which a page sorts them, and those of the mean of all heads with their controls."""
    tables: dict[str, dict[str, list[float]]] = {}
    aligned = measures.alignments(looked)
    for one in aligned:
        if isinstance(one.view, measures.View) and one.view.where is not None and one.view.head is not None:
            tables.setdefault("AER", {}).setdefault(one.view.where, []).append(one.counts.aer)
    for pattern in patterns.patterns([example.trace for example in looked]):
        for name, mean in pattern.relations.items():
            tables.setdefault(name, {}).setdefault(pattern.where, []).append(mean.value)
    by_place = sorted(relations.followed(looked), key=lambda one: (one.where, one.head))
    for head in by_place:
        tables.setdefault(head.relation, {}).setdefault(head.where, []).append(head.value)
    whole = aligned[-1]  # the mean of all layers, or of the only one
    numbers = {"AER": whole.counts, "permuted": whole.permuted, "diagonal": whole.diagonal, "even": whole.uniform}
    return {**tables, **{f"AER, {name}" if name != "AER" else "AER, mean": each.aer for name, each in numbers.items()}}


def ablated(reader: Reader, golds: Sequence[Gold]) -> Table:
    """What silencing a head costs."""
    loss = interventions.loss_of(reader, [(gold.source_text, gold.target_text) for gold in golds])
    before = loss()
    found = sorted(interventions.ablation(reader.model, loss), key=lambda one: -one.silent)
    middle = sorted(one.silent for one in found)[len(found) // 2]
    rows = tuple((f"{one.where} head {one.head}", one.silent, one.even) for one in found)
    columns = "head", "loss grows, silent", "loss grows, looking evenly"
    note = f"Cross-entropy per token of the given answers: {before:.3f} at first; the median head adds {middle:.3f}."
    return Table("Heads silenced one by one", columns, rows, note)


def agreed(reader: Reader, looked: Sequence[Example]) -> Table:
    """Whether attention ranks source words by what they matter."""
    found = interventions.agreement(reader, [example.trace for example in looked])
    rows = tuple((one.method, one.value, one.permuted, one.letters, one.sentences) for one in found)
    columns = "weights", "tau", "tau permuted", "tau of word length", "sentences"
    note = "Kendall's tau between a source word's weight and the log-probability lost when it is left out."
    return Table("Agreement with leaving one word out", columns, rows, note)


def _roles(one: patterns.Pattern, grammar: Sequence[Followed]) -> list[str]:
    """What a head is named after: where it looks, and what of grammar it follows."""
    own = [each.relation for each in grammar if each.follows and (each.where, each.head) == (one.where, one.head)]
    return [one.role, *own] if one.role else own


def _rates(counts: Counts) -> tuple[float, float, float]:
    return counts.aer, counts.precision, counts.recall


def _spread(one: patterns.Pattern) -> tuple[str, float, float]:
    """A head's name, and how widely it looks."""
    return f"{one.where} head {one.head}", one.entropy.value, one.entropy.even


def _beside(mean: patterns.Mean | None) -> str:
    """A number and its control in one cell."""
    return "-" if mean is None else f"{mean.value:.2f} / {mean.even:.2f}"
