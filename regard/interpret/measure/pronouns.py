"""Heads that attend from a pronoun to the noun it stands for, compared with another noun at the same distances.

The sentences come in twins: in one the pronoun stands for the first of two nouns, in the other for the second. Over
both, a head that attends back by a fixed number of words, or to nouns of any kind, gives the same weight to both nouns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from regard.interpret.measure.alignment_scores import Cell, Table
from regard.interpret.trace import Trace
from regard.interpret.words import group_items, merge

SHIPPED = Path(__file__).parent.parent.parent / "samples" / "pronouns" / "english.tsv"
CLUES: tuple[Literal["meaning"], Literal["form"]] = ("meaning", "form")
SHOWN = 3  # heads shown for each clue, besides the one chosen on the other half


@dataclass(frozen=True)
class PronounSentence:
    """A sentence and the indices of three of its words: a pronoun, its noun, and the other noun."""

    clue: str
    """What identifies the noun: the meaning of the sentence, or the form of the pronoun."""
    text: str
    pronoun: int
    noun: int
    other: int


@dataclass(frozen=True)
class PronounLook:
    """The weights of all heads of one attention from one pronoun to its noun and to the other noun."""

    number: int
    clue: str
    where: str
    nouns: list[float]
    others: list[float]
    even: float
    """Control: what an even look gives to the same noun."""


@dataclass(frozen=True)
class PronounScore:
    """The score of one head for one clue: its weights, and the number of pronouns that prefer the right noun."""

    where: str
    head: int
    clue: str
    noun: float
    other: float
    even: float
    preferred: int
    sentences: int

    @property
    def gain(self) -> float:
        """Return by how much the weight on the right noun exceeds that on the other."""
        return self.noun - self.other


def read_sentences(path: Path = SHIPPED) -> list[PronounSentence]:
    """Return the sentences of a file, by default those shipped; twins are consecutive."""
    records = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [PronounSentence(clue, text, *map(int, numbers)) for clue, text, *numbers in records]


def measure_looks(sentences: Sequence[PronounSentence], traces: Sequence[Trace]) -> list[PronounLook]:
    """Return the weights of every self-attention on both nouns of every sentence."""
    looks = []
    for number, (sentence, trace) in enumerate(zip(sentences, traces, strict=True)):
        if "source" not in trace.items:
            raise ValueError(f"{trace.model} reads no whole text at once: pronouns are measured in encoders")
        words = group_items(trace.items["source"])
        if len(words) != len(sentence.text.split()) + 1:  # the full stop is a word
            raise ValueError(f"{trace.model} reads {len(words)} words in {sentence.text!r}: not the words of English")
        for attention in trace.weights:
            if (attention.query, attention.key) != ("source", "source"):
                continue
            table = merge(attention.values.float().cpu(), words, words)[:, sentence.pronoun]
            visible = (attention.values.float().cpu().amax(0) > 0).float()
            evenly = merge(visible / visible.sum(-1, keepdim=True).clamp(min=1), words, words)[sentence.pronoun]
            columns = table[:, sentence.noun].tolist(), table[:, sentence.other].tolist()
            looks.append(PronounLook(number, sentence.clue, attention.name, *columns, float(evenly[sentence.noun])))
    return looks


def score_heads(looks: Sequence[PronounLook], clue: str) -> list[PronounScore]:
    """Score every head for one clue, the highest gain first."""
    by_attention: dict[str, list[PronounLook]] = {}
    for look in looks:
        if look.clue == clue:
            by_attention.setdefault(look.where, []).append(look)
    scores = [
        _score_head(where, head, clue, attention_looks)
        for where, attention_looks in by_attention.items()
        for head in range(len(attention_looks[0].nouns))
    ]
    return sorted(scores, key=lambda score: -score.gain)


def _score_head(where: str, head: int, clue: str, looks: Sequence[PronounLook]) -> PronounScore:
    nouns = torch.tensor([look.nouns[head] for look in looks], dtype=torch.float64)
    others = torch.tensor([look.others[head] for look in looks], dtype=torch.float64)
    even = sum(look.even for look in looks) / len(looks)
    preferred = int((nouns > others).sum())
    return PronounScore(where, head, clue, float(nouns.mean()), float(others.mean()), even, preferred, len(looks))


def score_chosen_head(looks: Sequence[PronounLook], clue: str) -> PronounScore | None:
    """Return the best head, chosen on every other pair of twins and scored on the rest, both ways; None for too few."""
    halves = [[look for look in looks if look.number // 2 % 2 == half] for half in (0, 1)]
    scores = []
    for chosen_on, scored_on in (halves, halves[::-1]):
        ranking = score_heads(chosen_on, clue)
        measured = {(score.where, score.head): score for score in score_heads(scored_on, clue)}
        if not ranking or not measured:
            return None
        scores.append(measured[ranking[0].where, ranking[0].head])
    total = sum(score.sentences for score in scores)
    noun, other, even = (
        sum(getattr(score, name) * score.sentences for score in scores) / total for name in ("noun", "other", "even")
    )
    preferred = sum(score.preferred for score in scores)
    return PronounScore("best head, chosen on the other half", -1, clue, noun, other, even, preferred, total)


def pronoun_table(looks: Sequence[PronounLook]) -> Table:
    """Return for each clue the head chosen on one half and scored on the other, and the best heads on all sentences."""
    rows: list[tuple[Cell, ...]] = []
    findings: list[str] = []
    main: list[int] = []
    for clue in CLUES:
        chosen, scores = score_chosen_head(looks, clue), score_heads(looks, clue)
        if chosen is None:
            continue
        main += range(len(rows), len(rows) + 1 + min(SHOWN, len(scores)))
        rows += [_row(score) for score in (chosen, *scores)]
        findings.append(
            f"Pronouns, by {clue}: the best head, chosen on half of the twins, gives {chosen.noun:.0%} to the right "
            f"noun in the other half and {chosen.other:.0%} to the wrong one (an even look {chosen.even:.0%}); the "
            f"right one gets more in {chosen.preferred} of {chosen.sentences} sentences, chance is half of them."
        )
    columns = "by", "head", "right", "wrong", "even", "right more", "of"
    note = (
        "Weight on the right and the wrong noun, beside an even look, and where the right one gets more. Either noun "
        "is the right one in one of two twins, at the same distance. Heads that are named were chosen on all sentences."
    )
    return Table("From a pronoun to its noun", columns, tuple(rows), note, "\n".join(findings), tuple(main))


def _row(score: PronounScore) -> tuple[Cell, ...]:
    label = score.where if score.head < 0 else f"{score.where} head {score.head}"
    return score.clue, label, score.noun, score.other, score.even, score.preferred, score.sentences
