"""All attention measures of a translator as tables, with their controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from regard.interpret.measure import alignment_scores, interventions, patterns, relations
from regard.interpret.measure.alignment_scores import SHIFTS, Aligned, Cell, Example, Table, View
from regard.interpret.measure.entropy import CONTROL
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.interventions import Ablation
from regard.interpret.measure.relations import RelationScore
from regard.metrics.alignment import Counts, Gold

CROSS = "cross"
THEIRS = {"itself": "themselves", "rest of its word": "the rest of their word"}


def summary(
    reader: ForcedReader, golds: Sequence[Gold], *, intervene: bool = True, pronouns: Sequence[Gold] = ()
) -> list[Table]:
    """Measure everything on these pairs, and pronouns on others; interventions read pairs many times and are slow."""
    examples = alignment_scores.examples(reader, golds)
    related = [*examples, *alignment_scores.pronoun_examples(reader, pronouns)]
    grammar = relations.score_relations(related)
    tables = [
        alignment_table(examples),
        inversion_table(examples),
        article_table(examples),
        grammar_table(related, grammar),
        *head_tables(examples, grammar),
    ]
    if intervene:
        tables += [ablation_table(reader, golds), agreement_table(reader, examples)]
    return [table for table in tables if table.rows]


def alignment_table(examples: Sequence[Example]) -> Table:
    """Return the alignment error rates."""
    alignments: list[Aligned] = []
    for shift in SHIFTS:
        alignments += alignment_scores.measure_alignments(examples, shift=shift)
        alignments += [alignment_scores.best_head(examples, shift=shift)] if len(examples) > 1 else []
    rows = tuple(
        (
            str(alignment.view),
            alignment.shift,
            *_rates(alignment.counts),
            alignment.permuted.aer,
            alignment.diagonal.aer,
            alignment.uniform.aer,
        )
        for alignment in alignments
    )
    columns = "weights", "shift", "AER", "precision", "recall", "AER permuted", "AER diagonal", "AER uniform"
    note = "Each word of the answer is linked with the source word it looks at most. Less AER is better."
    total = min(_overall_measurements(alignments), key=lambda alignment: alignment.counts.aer) if alignments else None
    title = f"Alignment of {len(examples)} pairs against links drawn by hand"
    main = _main_rows(alignments, total.shift) if total else ()
    return Table(title, columns, rows, note, _describe_alignment(alignments, total) if total else "", main)


def _describe_alignment(alignments: Sequence[Aligned], total: Aligned) -> str:
    """Describe how well the mean of all heads aligns, and the best head."""
    controls = total.diagonal.aer, total.permuted.aer, total.uniform.aer
    verdict = "better than every control" if total.counts.aer < min(controls) else "no better than its controls"
    text = (
        f"Alignment: the links of all heads together are {verdict} (error rate {total.counts.aer:.3f}; "
        f"diagonal {controls[0]:.3f}, permuted links {controls[1]:.3f}, an even look {controls[2]:.3f})"
        f"{', read as the word just fed' if total.shift else ''}."
    )
    single = [
        alignment for alignment in alignments if isinstance(alignment.view, str) and alignment.shift == total.shift
    ]
    return text + "".join(
        f" The best head, chosen on the other half, has {alignment.counts.aer:.3f}." for alignment in single
    )


def inversion_table(examples: Sequence[Example]) -> Table:
    """Return how often the weights follow adjectives that change sides."""
    inversions = [
        inversion for shift in SHIFTS for inversion in alignment_scores.measure_inversions(examples, shift=shift)
    ]
    rows = tuple(
        (
            str(inversion.view),
            inversion.shift,
            inversion.share,
            inversion.exact,
            inversion.exchanged,
            inversion.diagonal,
            inversion.uniform,
        )
        for inversion in inversions
    )
    columns = "weights", "shift", "inverted", "both exact", "exchanged", "diagonal", "uniform"
    if not inversions:
        return Table("Adjective order inverted", columns, rows)
    total = max(_overall_measurements(inversions), key=lambda inversion: inversion.share)
    note = (
        "Share of adjectives on the other side of their noun whose looks, and their nouns', are in the source's order."
    )
    finding = (
        f"Adjectives: where {total.places} of them change sides of their noun, the weights turn round with "
        f"{total.share:.0%} (the other way {total.exchanged:.0%}, two random looks {total.uniform:.0%}, "
        f"the diagonal {total.diagonal:.0%})."
    )
    title = f"Adjective order inverted ({total.places} adjectives)"
    return Table(title, columns, rows, note, finding, _main_rows(inversions, total.shift))


def article_table(examples: Sequence[Example]) -> Table:
    """Return how much articles attend to their nouns."""
    lookaheads = [
        lookahead for shift in SHIFTS for lookahead in alignment_scores.measure_articles(examples, shift=shift)
    ]
    rows = tuple(
        (
            str(lookahead.view),
            lookahead.shift,
            lookahead.article,
            lookahead.noun,
            lookahead.even,
            lookahead.share,
            lookahead.others,
        )
        for lookahead in lookaheads
    )
    columns = "weights", "shift", "on article", "on noun", "even", "noun first", "noun first, other words"
    if not lookaheads:
        return Table("The article looks ahead", columns, rows)
    total = _overall_measurements(lookaheads)[0]
    note = "Weights an article gives to the source's article and to its noun, and how often the noun gets more."
    finding = (
        f"Articles: about to be written, {total.share:.0%} of {total.places} look more at the source's noun than at "
        f"its article (other words of the same sentences {total.others:.0%}); the noun gets {total.noun:.0%} of their "
        f"weight and the article {total.article:.0%}, an even look gives either {total.even:.0%}."
    )
    title = f"The article looks ahead ({total.places} articles)"
    return Table(title, columns, rows, note, finding, _main_rows(lookaheads, total.shift))


def grammar_table(examples: Sequence[Example], grammar: Sequence[RelationScore]) -> Table:
    """Return the heads that follow a grammatical relation between articles or adjectives and their nouns."""
    following = [score for score in grammar if score.follows]
    tested = relations.best_heads(examples) if len(examples) > 1 else []
    listed = sorted([*tested, *following], key=lambda score: relations.RELATIONS.index(score.relation))
    rows = tuple(
        (score.relation, _label(score), score.value, score.even, score.distance, _other_nouns(score), score.places)
        for score in listed
    )
    columns = "relation", "head", "weight", "even", "same distance, other words", "other nouns", "places"
    least = f"{patterns.MIN_SHARE:.0%} of the weight and {patterns.MIN_RATIO:g} times either control"
    note = f"A head follows a relation if it gives it {least}."
    finding = f"Grammar: no head gives a relation {least}."
    if following:
        clear = max(following, key=lambda score: score.gain)
        count = len({(score.where, score.head) for score in following})
        finding = (
            f"Grammar: {count} head{'s follow' if count > 1 else ' follows'} a relation; clearest is {_label(clear)}, "
            f"{clear.relation}, with {clear.value:.0%} of the weight (an even look {clear.even:.0%}, the same distance "
            f"from other words {clear.distance:.0%}; {clear.places} places)."
        )
    main = tuple(number for number, score in enumerate(listed) if score.head < 0)
    return Table("Heads that follow a relation of grammar", columns, rows, note, finding, main)


def head_tables(examples: Sequence[Example], grammar: Sequence[RelationScore] = ()) -> list[Table]:
    """Return the patterns of cross-attention and of self-attention heads."""
    head_patterns = patterns.measure_heads([example.trace for example in examples])
    across = tuple(
        (*_entropy_cells(pattern), pattern.diagonality) for pattern in head_patterns if pattern.where.endswith(CROSS)
    )
    inward = [pattern for pattern in head_patterns if not pattern.where.endswith(CROSS)]
    names = list(dict.fromkeys(name for pattern in inward for name in pattern.relations))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *_entropy_cells(pattern),
            *(_cell_with_control(pattern.relations.get(name)) for name in names),
            ", ".join(_roles(pattern, grammar)) or "-",
        )
        for pattern in inward
    )
    bits = "Entropy in bits, of the head and of an even look."
    least = (
        f"A role takes {patterns.MIN_SHARE:.0%} of the weight and {patterns.MIN_RATIO:g} times what an even look gives."
    )
    return [
        Table(
            "Heads that look across",
            ("head", "entropy", "entropy even", "diagonality"),
            across,
            f"{bits} Diagonality is 1 on the diagonal and 0 for an even look.",
            _describe_entropy([pattern for pattern in head_patterns if pattern.where.endswith(CROSS)]),
        ),
        Table(
            "Heads that look at their own side",
            ("head", "entropy", "entropy even", *names, "role"),
            rows,
            f"{bits} Weight given to each relation / by an even look. {least}",
            _describe_roles(inward),
        ),
    ]


def measures_for_page(
    examples: Sequence[Example], ablations: Sequence[Ablation] = (), *, pronouns: Sequence[Example] = ()
) -> dict[str, dict[str, list[float]] | float]:
    """Return the measures of every head and their controls, by which a page sorts them, and of the mean of all heads.

    The table of the control of a measure is named after it: "AER, control" has the least error of the three controls,
    "itself, control" what an even look gives, and "silenced, control" the effect of making a head look evenly.
    `pronouns` are examples in which the nouns of pronouns are known.
    """
    tables: dict[str, dict[str, list[float]]] = {}

    def add(name: str, where: str, value: float, control: float) -> None:
        tables.setdefault(name, {}).setdefault(where, []).append(value)
        tables.setdefault(f"{name}{CONTROL}", {}).setdefault(where, []).append(control)

    aligned_views = alignment_scores.measure_alignments(examples)
    for aligned in aligned_views:
        view = aligned.view
        if isinstance(view, View) and view.where is not None and view.head is not None:
            least = min(aligned.permuted.aer, aligned.diagonal.aer, aligned.uniform.aer)
            add("AER", view.where, aligned.counts.aer, least)
    for pattern in patterns.measure_heads([example.trace for example in examples]):
        for name, mean in pattern.relations.items():
            add(name, pattern.where, mean.value, mean.even)
    by_place = sorted(relations.score_relations([*examples, *pronouns]), key=lambda head: (head.where, head.head))
    for head in by_place:
        add(head.relation, head.where, head.value, head.control)
    for ablation in ablations:
        add("silenced", ablation.where, ablation.silent, ablation.even)
    total = aligned_views[-1]  # the mean of all layers, or of the only layer
    numbers = {"AER": total.counts, "permuted": total.permuted, "diagonal": total.diagonal, "even": total.uniform}
    return {
        **tables,
        **{f"AER, {name}" if name != "AER" else "AER, mean": counts.aer for name, counts in numbers.items()},
    }


def silence_heads(reader: ForcedReader, golds: Sequence[Gold]) -> list[Ablation]:
    """Return the effect of silencing each head on the loss of these answers."""
    loss = interventions.answer_loss(reader, [(gold.source_text, gold.target_text) for gold in golds])
    return interventions.ablate_heads(reader.model, loss)


def ablation_table(reader: ForcedReader, golds: Sequence[Gold]) -> Table:
    """Return the effect of silencing each head."""
    loss = interventions.answer_loss(reader, [(gold.source_text, gold.target_text) for gold in golds])
    before = loss()
    effects = sorted(interventions.ablate_heads(reader.model, loss), key=lambda effect: -effect.silent)
    middle = sorted(effect.silent for effect in effects)[len(effects) // 2]
    rows = tuple((f"{effect.where} head {effect.head}", effect.silent, effect.even) for effect in effects)
    columns = "head", "loss grows, silent", "loss grows, looking evenly"
    note = f"Cross-entropy per token of the given answers: {before:.3f} at first; the median head adds {middle:.3f}."
    finding = (
        f"Silencing: {rows[0][0]} is missed most; without it the loss per token grows by {effects[0].silent:.3f} from "
        f"{before:.3f} (looking evenly by {effects[0].even:.3f}, the median head by {middle:.3f})."
    )
    return Table("Heads silenced one by one", columns, rows, note, finding, tuple(range(min(5, len(rows)))))


def agreement_table(reader: ForcedReader, examples: Sequence[Example]) -> Table:
    """Return the agreement of attention with the effects of deleting source words."""
    agreements = interventions.agreement(reader, [example.trace for example in examples])
    rows = tuple(
        (agreement.method, agreement.value, agreement.permuted, agreement.letters, agreement.sentences)
        for agreement in agreements
    )
    columns = "weights", "tau", "tau permuted", "tau of word length", "sentences"
    note = "Kendall's tau between a source word's weight and the log-probability lost when it is left out."
    best = max(agreements, key=lambda agreement: agreement.value)
    finding = (
        f"Importance: weights rank source words as leaving them out does with a tau of {best.value:.2f} at most "
        f"({best.method}; permuted weights {best.permuted:.2f}, the words' length {best.letters:.2f})."
    )
    return Table("Agreement with leaving one word out", columns, rows, note, finding, tuple(range(len(rows))))


def _roles(pattern: patterns.Pattern, grammar: Sequence[RelationScore]) -> list[str]:
    """Return the roles of a head: its favourite relation, and the grammatical relations it follows."""
    followed_relations = [
        score.relation
        for score in grammar
        if score.follows and (score.where, score.head) == (pattern.where, pattern.head)
    ]
    return [pattern.role, *followed_relations] if pattern.role else followed_relations


def _rates(counts: Counts) -> tuple[float, float, float]:
    return counts.aer, counts.precision, counts.recall


def _entropy_cells(pattern: patterns.Pattern) -> tuple[str, float, float]:
    """Return a head's name, its entropy, and that of uniform attention."""
    return f"{pattern.where} head {pattern.head}", pattern.entropy.value, pattern.entropy.even


def _cell_with_control(mean: patterns.Mean | None) -> str:
    """Return a value and its control in one cell."""
    return "-" if mean is None else f"{mean.value:.2f} / {mean.even:.2f}"


def _overall_measurements(measurements: Sequence[Any]) -> list[Any]:
    """Return the measurements of all heads together, or of the only layer, at every shift."""
    means = [
        measurement
        for measurement in measurements
        if isinstance(measurement.view, View) and measurement.view.head is None
    ]
    return [measurement for measurement in means if measurement.view.where is None] or means


def _main_rows(measurements: Sequence[Any], shift: int) -> tuple[int, ...]:
    """Return the indices of the rows of means and of the best head at one shift."""
    single = [isinstance(measurement.view, View) and measurement.view.head is not None for measurement in measurements]
    return tuple(
        number for number, measurement in enumerate(measurements) if measurement.shift == shift and not single[number]
    )


def _other_nouns(score: RelationScore) -> Cell:
    """Return what the other nouns of the sentence get, which is a control of pronouns alone."""
    return score.others if score.relation == relations.PRONOUN else "-"


def _label(score: RelationScore) -> str:
    return score.where if score.head < 0 else f"{score.where} head {score.head}"


def _describe_entropy(across: Sequence[patterns.Pattern]) -> str:
    """Describe the entropy and diagonality of the cross-attention heads."""
    if not across:
        return ""
    bits, straight = [pattern.entropy.value for pattern in across], [pattern.diagonality or 0.0 for pattern in across]
    even, many = across[0].entropy.even, len(across) > 1
    return (
        f"Across: {len(across)} head{'s look' if many else ' looks'} to the other side with {min(bits):.2f} to "
        f"{max(bits):.2f} bits of entropy (an even look {even:.2f}) and a diagonality of {min(straight):.2f} to "
        f"{max(straight):.2f} (an even look 0)."
    )


def _describe_roles(inward: Sequence[patterns.Pattern]) -> str:
    """Describe the roles of the self-attention heads."""
    if not inward:
        return ""
    roles = Counter(pattern.role for pattern in inward if pattern.role)
    counts = [(count, THEIRS.get(role, f"the {role}")) for role, count in roles.most_common()]
    listing = ", ".join(
        f"{count} {'mostly look at' if not place else 'at'} {role}" for place, (count, role) in enumerate(counts)
    )
    least = f"{patterns.MIN_SHARE:.0%} of the weight and {patterns.MIN_RATIO:g} times an even look"
    if not listing:
        return f"Own side: none of {len(inward)} heads gives a relation {least}."
    rest = len(inward) - sum(roles.values())
    return f"Own side: of {len(inward)} heads {listing} (at least {least}); {rest} have no such role."
