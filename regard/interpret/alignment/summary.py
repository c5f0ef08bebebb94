"""All measures of a translator as tables: each number with its controls beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from regard.interpret import interventions, patterns
from regard.interpret.alignment import measures, relations
from regard.interpret.alignment.forced import Reader
from regard.interpret.alignment.measures import SHIFTS, Aligned, Cell, Example, Table, View
from regard.interpret.alignment.relations import Followed
from regard.metrics.alignment import Counts, Gold

CROSS = "cross"
THEIRS = {"itself": "themselves", "rest of its word": "the rest of their word"}


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
    whole = min(_whole(found), key=lambda one: one.counts.aer) if found else None
    title = f"Alignment of {len(looked)} pairs against links drawn by hand"
    main = _main(found, whole.shift) if whole else ()
    return Table(title, columns, rows, note, _aligns(found, whole) if whole else "", main)


def _aligns(found: Sequence[Aligned], whole: Aligned) -> str:
    """Whether the mean of all heads aligns, and whether one of them does it better."""
    controls = whole.diagonal.aer, whole.permuted.aer, whole.uniform.aer
    verdict = "better than every control" if whole.counts.aer < min(controls) else "no better than its controls"
    text = (
        f"Alignment: the links of all heads together are {verdict} (error rate {whole.counts.aer:.3f}; "
        f"diagonal {controls[0]:.3f}, permuted links {controls[1]:.3f}, an even look {controls[2]:.3f})"
        f"{', read as the word just fed' if whole.shift else ''}."
    )
    single = [one for one in found if isinstance(one.view, str) and one.shift == whole.shift]
    return text + "".join(f" The best head, chosen on the other half, has {one.counts.aer:.3f}." for one in single)


def inverted(looked: Sequence[Example]) -> Table:
    """Whether adjectives change sides."""
    found = [one for shift in SHIFTS for one in measures.inversions(looked, shift=shift)]
    rows = tuple(
        (str(one.view), one.shift, one.share, one.exact, one.exchanged, one.diagonal, one.uniform) for one in found
    )
    columns = "weights", "shift", "inverted", "both exact", "exchanged", "diagonal", "uniform"
    if not found:
        return Table("Adjective order inverted", columns, rows)
    whole = max(_whole(found), key=lambda one: one.share)
    note = (
        "Share of adjectives on the other side of their noun whose looks, and their nouns', are in the source's order."
    )
    finding = (
        f"Adjectives: where {whole.places} of them change sides of their noun, the weights turn round with "
        f"{whole.share:.0%} (the other way {whole.exchanged:.0%}, two random looks {whole.uniform:.0%}, "
        f"the diagonal {whole.diagonal:.0%})."
    )
    title = f"Adjective order inverted ({whole.places} adjectives)"
    return Table(title, columns, rows, note, finding, _main(found, whole.shift))


def ahead(looked: Sequence[Example]) -> Table:
    """Whether articles look at their nouns."""
    found = [one for shift in SHIFTS for one in measures.articles(looked, shift=shift)]
    rows = tuple((str(one.view), one.shift, one.article, one.noun, one.even, one.share, one.others) for one in found)
    columns = "weights", "shift", "on article", "on noun", "even", "noun first", "noun first, other words"
    if not found:
        return Table("The article looks ahead", columns, rows)
    whole = _whole(found)[0]
    note = "Weights an article gives to the source's article and to its noun, and how often the noun gets more."
    finding = (
        f"Articles: about to be written, {whole.share:.0%} of {whole.places} look more at the source's noun than at "
        f"its article (other words of the same sentences {whole.others:.0%}); the noun gets {whole.noun:.0%} of their "
        f"weight and the article {whole.article:.0%}, an even look gives either {whole.even:.0%}."
    )
    title = f"The article looks ahead ({whole.places} articles)"
    return Table(title, columns, rows, note, finding, _main(found, whole.shift))


def related(looked: Sequence[Example], grammar: Sequence[Followed]) -> Table:
    """Whether some head follows grammar: articles their nouns, adjectives theirs, and back."""
    found = [one for one in grammar if one.follows]
    tested = relations.best(looked) if len(looked) > 1 else []
    listed = sorted([*tested, *found], key=lambda one: relations.RELATIONS.index(one.relation))
    rows = tuple((one.relation, _named(one), one.value, one.even, one.distance, one.places) for one in listed)
    columns = "relation", "head", "weight", "even", "same distance, other words", "places"
    least = f"{patterns.LEAST:.0%} of the weight and {patterns.TIMES:g} times either control"
    note = f"A head follows a relation if it gives it {least}."
    finding = f"Grammar: no head gives a relation {least}."
    if found:
        clear = max(found, key=lambda one: one.gain)
        count = len({(one.where, one.head) for one in found})
        finding = (
            f"Grammar: {count} head{'s follow' if count > 1 else ' follows'} a relation; clearest is {_named(clear)}, "
            f"{clear.relation}, with {clear.value:.0%} of the weight (an even look {clear.even:.0%}, the same distance "
            f"from other words {clear.distance:.0%}; {clear.places} places)."
        )
    main = tuple(number for number, one in enumerate(listed) if one.head < 0)
    return Table("Heads that follow a relation of grammar", columns, rows, note, finding, main)


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
            _widths([one for one in found if one.where.endswith(CROSS)]),
        ),
        Table(
            "Heads that look at their own side",
            ("head", "entropy", "entropy even", *names, "role"),
            rows,
            f"{bits} Weight given to each relation / by an even look. {least}",
            _divided(inward),
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
    finding = (
        f"Silencing: {rows[0][0]} is missed most; without it the loss per token grows by {found[0].silent:.3f} from "
        f"{before:.3f} (looking evenly by {found[0].even:.3f}, the median head by {middle:.3f})."
    )
    return Table("Heads silenced one by one", columns, rows, note, finding, tuple(range(min(5, len(rows)))))


def agreed(reader: Reader, looked: Sequence[Example]) -> Table:
    """Whether attention ranks source words by what they matter."""
    found = interventions.agreement(reader, [example.trace for example in looked])
    rows = tuple((one.method, one.value, one.permuted, one.letters, one.sentences) for one in found)
    columns = "weights", "tau", "tau permuted", "tau of word length", "sentences"
    note = "Kendall's tau between a source word's weight and the log-probability lost when it is left out."
    best = max(found, key=lambda one: one.value)
    finding = (
        f"Importance: weights rank source words as leaving them out does with a tau of {best.value:.2f} at most "
        f"({best.method}; permuted weights {best.permuted:.2f}, the words' length {best.letters:.2f})."
    )
    return Table("Agreement with leaving one word out", columns, rows, note, finding, tuple(range(len(rows))))


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


def _whole(found: Sequence[Any]) -> list[Any]:
    """Of all heads together, or of the only layer, at every shift."""
    means = [one for one in found if isinstance(one.view, View) and one.view.head is None]
    return [one for one in means if one.view.where is None] or means


def _main(found: Sequence[Any], shift: int) -> tuple[int, ...]:
    """The rows of means, and of the best head, at one shift."""
    single = [isinstance(one.view, View) and one.view.head is not None for one in found]
    return tuple(number for number, one in enumerate(found) if one.shift == shift and not single[number])


def _named(one: Followed) -> str:
    return one.where if one.head < 0 else f"{one.where} head {one.head}"


def _widths(across: Sequence[patterns.Pattern]) -> str:
    """How widely the heads look that look across."""
    if not across:
        return ""
    bits, straight = [one.entropy.value for one in across], [one.diagonality or 0.0 for one in across]
    even, many = across[0].entropy.even, len(across) > 1
    return (
        f"Across: {len(across)} head{'s look' if many else ' looks'} to the other side with {min(bits):.2f} to "
        f"{max(bits):.2f} bits of entropy (an even look {even:.2f}) and a diagonality of {min(straight):.2f} to "
        f"{max(straight):.2f} (an even look 0)."
    )


def _divided(inward: Sequence[patterns.Pattern]) -> str:
    """Which roles the heads have that look at their own side."""
    if not inward:
        return ""
    roles = Counter(one.role for one in inward if one.role)
    counts = [(count, THEIRS.get(role, f"the {role}")) for role, count in roles.most_common()]
    said = ", ".join(
        f"{count} {'mostly look at' if not place else 'at'} {role}" for place, (count, role) in enumerate(counts)
    )
    least = f"{patterns.LEAST:.0%} of the weight and {patterns.TIMES:g} times an even look"
    if not said:
        return f"Own side: none of {len(inward)} heads gives a relation {least}."
    rest = len(inward) - sum(roles.values())
    return f"Own side: of {len(inward)} heads {said} (at least {least}); {rest} have no such role."
