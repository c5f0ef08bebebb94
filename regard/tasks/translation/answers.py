"""Translations as they are given back: in words, with their scores and alternatives, in the white space of the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data import sentences
from regard.data.tokenizers import Tokenizer
from regard.tasks.translation.model_calls import Hypothesis
from regard.tasks.translation.phrases import remove_phrases


@dataclass(frozen=True)
class Answer:
    """One translation with the model's log-probability of it, and the runners-up."""

    text: str
    score: float
    alternatives: tuple[Answer, ...] = ()
    kept: int = 0
    """Sentences that were in the target language already and were left as they are."""
    foreign: str | None = None
    """The language or script of the text, where the model does not know it."""
    unfinished: int = 0
    """Sentences whose answer ran to its length limit before it ended."""

    def __str__(self) -> str:
        return self.text.replace("\n", " ")

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        others = [{"translation": answer.text, "score": round(answer.score, 6)} for answer in self.alternatives]
        record = {"translation": self.text, "score": round(self.score, 6)}
        record |= {"alternatives": others} if others else {}
        record |= {"kept": self.kept} if self.kept else {}
        record |= {"unfinished": self.unfinished} if self.unfinished else {}
        return record | ({"foreign": self.foreign} if self.foreign else {})


def decode_answers(
    tokenizer: Tokenizer, group: Sequence[Sequence[Hypothesis]], *, drawn: bool = False
) -> Iterator[Answer]:
    """The best hypothesis of each in words, the others behind it; the same text in other pieces counts once."""
    texts = tokenizer.decode_many([hypothesis.tokens for hypotheses in group for hypothesis in hypotheses])
    return rank_answers(texts, group, drawn=drawn)


def rank_answers(
    decoded: Iterable[str], group: Sequence[Sequence[Hypothesis]], *, drawn: bool = False
) -> Iterator[Answer]:
    """The same for texts that are decoded already, those of all hypotheses in their order."""
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
    """The same in capitals."""
    return replace(answer, text=answer.text.upper(), alternatives=tuple(map(uppercase, answer.alternatives)))


def remove_forbidden(answer: Answer, phrases: Sequence[str]) -> Answer:
    """An answer that may have been copied, not searched for, without the phrases that it may not contain."""
    if not phrases:
        return answer
    others = tuple(remove_forbidden(other, phrases) for other in answer.alternatives)
    return replace(answer, text=remove_phrases(answer.text, phrases), alternatives=others)


def join_pieces(plan: Sequence[sentences.Piece], answers: Sequence[Answer]) -> Answer:
    """Translations of the pieces with the white space that stood between them; the k-th best of each together."""
    if len(plan) == 1 and not plan[0].gap:
        return answers[0]
    ranks = 1 + min((len(answer.alternatives) for answer in answers if answer.alternatives), default=0)
    joined_answers = []
    for rank in range(ranks):  # what was copied has no others, and stands in all
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
    """What to say of so many sentences whose answers ran to their length limit."""
    answers = "1 answer" if count == 1 else f"{count:,} answers"
    return f"{answers} ran to the length limit before the end: expect repeated or missing words there"
