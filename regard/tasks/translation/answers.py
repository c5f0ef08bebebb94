"""Translations as returned: text with score and alternatives, and the white space of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data import sentences
from regard.data.tokenizers import Tokenizer
from regard.tasks.translation.model_calls import Hypothesis
from regard.tasks.translation.phrases import remove_phrases


@dataclass(frozen=True)
class WordAlignment:
    """The words of a text and of its translation in order, and the links between them by their numbers."""

    source: Sequence[str]
    target: Sequence[str]
    links: Sequence[tuple[int, int]]

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {"source": list(self.source), "target": list(self.target), "links": [list(pair) for pair in self.links]}


@dataclass(frozen=True)
class Answer:
    """A translation with its log-probability and its alternatives."""

    text: str
    score: float
    alternatives: tuple[Answer, ...] = ()
    kept: int = 0
    """Sentences that were in the target language already and were left as they are."""
    foreign: str | None = None
    """The language or script of the text, where the model does not know it."""
    unfinished: int = 0
    """Sentences whose answer ran to its length limit before it ended."""
    alignment: WordAlignment | None = None
    """Which words stand for which, where that was asked for."""

    def __str__(self) -> str:
        return self.text.replace("\n", " ")

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        others = [{"translation": answer.text, "score": round(answer.score, 6)} for answer in self.alternatives]
        record = {"translation": self.text, "score": round(self.score, 6)}
        record |= {"alternatives": others} if others else {}
        record |= {"kept": self.kept} if self.kept else {}
        record |= {"unfinished": self.unfinished} if self.unfinished else {}
        record |= {"alignment": self.alignment.plain()} if self.alignment is not None else {}
        return record | ({"foreign": self.foreign} if self.foreign else {})


def decode_answers(
    tokenizer: Tokenizer, group: Sequence[Sequence[Hypothesis]], *, drawn: bool = False
) -> Iterator[Answer]:
    """Decode the best hypothesis of each group, with the others as alternatives; duplicate texts are merged."""
    texts = tokenizer.decode_many([hypothesis.tokens for hypotheses in group for hypothesis in hypotheses])
    return rank_answers(texts, group, drawn=drawn)


def rank_answers(
    decoded: Iterable[str], group: Sequence[Sequence[Hypothesis]], *, drawn: bool = False
) -> Iterator[Answer]:
    """Return answers as `decode_answers` does, from the decoded texts of all hypotheses in order."""
    texts = iter(decoded)
    for hypotheses in group:
        answers = [
            Answer(next(texts), hypothesis.score, unfinished=int(not hypothesis.finished)) for hypothesis in hypotheses
        ]
        if len(answers) > 1 and not drawn:
            unique: dict[str, Answer] = {}
            for answer in answers:
                unique.setdefault(answer.text, answer)
            answers = list(unique.values())
        yield replace(answers[0], alternatives=tuple(answers[1:])) if len(answers) > 1 else answers[0]


def uppercase(answer: Answer) -> Answer:
    """Return the answer in capitals."""
    return replace(answer, text=answer.text.upper(), alternatives=tuple(map(uppercase, answer.alternatives)))


def remove_forbidden(answer: Answer, phrases: Sequence[str]) -> Answer:
    """Remove forbidden phrases from an answer, which may have been copied instead of searched for."""
    if not phrases:
        return answer
    others = tuple(remove_forbidden(other, phrases) for other in answer.alternatives)
    return replace(answer, text=remove_phrases(answer.text, phrases), alternatives=others)


def join_pieces(plan: Sequence[sentences.Piece], answers: Sequence[Answer]) -> Answer:
    """Join the translations of the pieces and the white space between them; the k-th best are joined together."""
    if len(plan) == 1 and not plan[0].gap:
        return answers[0]
    ranks = 1 + min((len(answer.alternatives) for answer in answers if answer.alternatives), default=0)
    joined_answers = []
    for rank in range(ranks):  # a copied sentence has no alternatives and is part of all
        ranked = iter([(answer, *answer.alternatives)[rank if answer.alternatives else 0] for answer in answers])
        parts, score = [], 0.0
        for piece in plan:
            if piece.text:
                answer = next(ranked)
                parts.append(answer.text)
                score += answer.score
            parts.append(piece.gap)
        joined_answers.append(Answer("".join(parts), score))
    best, *others = joined_answers
    kept_count, unfinished = (sum(getattr(answer, name) for answer in answers) for name in ("kept", "unfinished"))
    return replace(best, alternatives=tuple(others), kept=kept_count, unfinished=unfinished)


def describe_unfinished(count: int) -> str:
    """Return the warning about answers that reached their length limit."""
    answers = "1 answer" if count == 1 else f"{count:,} answers"
    return f"{answers} ran to the length limit before the end: expect repeated or missing words there"
