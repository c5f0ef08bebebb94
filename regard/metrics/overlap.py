"""BLEU, chrF and TER by sacreBLEU, with a reproducible signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

References = Sequence[str] | Sequence[Sequence[str]]
"""One reference for each answer, or several; not every answer needs the same number."""


@dataclass(frozen=True)
class Score:
    """A score from 0 to 100 (TER: from 0 up, lower is better), with its signature."""

    value: float
    signature: str
    text: str

    def __str__(self) -> str:
        """Return the text of sacreBLEU."""
        return self.text


def bleu(answers: Sequence[str], references: References, *, lowercase: bool = False, tokenize: str = "13a") -> Score:
    """Return the BLEU of a whole corpus (Papineni et al. 2002)."""
    return _corpus_score(_bleu(lowercase, tokenize), answers, references)


def chrf(answers: Sequence[str], references: References, *, lowercase: bool = False, words: int = 0) -> Score:
    """Return the chrF of a whole corpus (Popovic 2015); `words=2` is chrF++."""
    return _corpus_score(_chrf(lowercase, words), answers, references)


def ter(answers: Sequence[str], references: References, *, lowercase: bool = True) -> Score:
    """Return the translation edit rate of a whole corpus (Snover et al. 2006)."""
    return _corpus_score(_ter(lowercase), answers, references)


def _bleu(lowercase: bool, tokenize: str, **more: Any) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"unknown BLEU tokenizer {tokenize}: choose one of {', '.join(sorted(BLEU.TOKENIZERS))}")
    return BLEU(lowercase=lowercase, tokenize=tokenize, force=True, **more)  # force: no advice about tokenised text


def _chrf(lowercase: bool, words: int) -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(lowercase=lowercase, word_order=words)


def _ter(lowercase: bool) -> Any:
    from sacrebleu.metrics.ter import TER

    return TER(case_sensitive=not lowercase)


def _corpus_score(metric: Any, answers: Sequence[str], references: References) -> Score:
    reference_lists = _split_references(answers, references)
    if not answers:
        raise ValueError("no answers to score: a corpus needs at least one")
    most = max(map(len, reference_lists))
    streams = [
        [alternatives[k] if k < len(alternatives) else None for alternatives in reference_lists] for k in range(most)
    ]
    result = metric.corpus_score(list(answers), streams)
    return Score(result.score, str(metric.get_signature()), str(result))


def _split_references(answers: Sequence[str], references: References) -> list[list[str]]:
    """Return a list of references for each answer."""
    if isinstance(answers, str) or isinstance(references, str):
        raise ValueError("one text given where a list is scored: put it in a list")
    if len(answers) != len(references):
        raise ValueError(f"{len(answers)} answers but references for {len(references)}: there must be as many")
    reference_lists = [[reference] if isinstance(reference, str) else list(reference) for reference in references]
    if not all(reference_lists):
        raise ValueError(f"answer {reference_lists.index([])} has no reference: give it one, an empty one if need be")
    return reference_lists
