"""Required words, written into an answer in place of the model's words for the same part of the source.

A search constrained to contain a word puts it anywhere, most often next to the word it should replace. Here the answer
is kept up to that word, the wish is written, and the rest is either unchanged or the model's continuation, whichever is
more probable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regard.tasks.translation.documents.glossary import Match, contains_term
from regard.tasks.translation.documents.tag_placement import find_stretch
from regard.tasks.translation.model_calls import LinkCall, ScoreCall, SearchCall, Steps

if TYPE_CHECKING:
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.text_side import TextSide


@dataclass
class Wanting:
    """A sentence, its current answer, and what the answer should contain."""

    source: str
    answer: str
    wishes: Sequence[Match]
    """The translations asked for of parts of the source, as a glossary finds them."""

    @property
    def pending(self) -> list[Match]:
        """Return the wishes that are not in the answer yet."""
        return (
            [wish for wish in self.wishes if not contains_term(self.answer, wish.target)] if self.answer.strip() else []
        )


def fulfil_wishes(
    translator: TextSide, sentences: Sequence[Wanting], *, to: str | None, decoding: DecodingConfig
) -> list[str]:
    """Return the answers with the wishes in them; a wish whose part of the source is linked to nothing is left out."""
    return translator.run(grant_stepwise(translator, sentences, to=to, decoding=decoding))


def grant_stepwise(
    translator: TextSide, sentences: Sequence[Wanting], *, to: str | None, decoding: DecodingConfig
) -> Steps[list[str]]:
    """Write wishes into answers as `fulfil_wishes` does.

    All sentences process their next wish together, so that they are linked, searched and scored in batches.
    """
    held = [replace(sentence) for sentence in sentences]
    active = list(range(len(held)))
    for attempt in range(3 * max((len(sentence.wishes) for sentence in held), default=0)):
        active = [n for n in active if attempt < 3 * len(held[n].wishes) and held[n].pending]
        edits = yield from _find_edits({n: held[n] for n in active}, to)
        active = list(edits)
        if not active:
            break
        candidates = {n: [prefix + held[n].answer[end:]] for n, (prefix, end, _) in edits.items()}
        again = [n for n in active if attempt < 2 * len(held[n].wishes)]  # beyond that, wishes undo one another
        if again:
            own = replace(decoding, nbest=1, sample=False)
            prefixes = [edits[n][0] for n in again]
            found = yield from _complete_answers(translator, [held[n].source for n in again], prefixes, to, own)
            for n, text in zip(again, found, strict=True):
                candidates[n] += [text] if contains_term(text, edits[n][2]) else []
        likeliest = yield from _choose_likeliest(translator, held, candidates, to)
        for n, answer in likeliest.items():
            held[n].answer = answer
    return [sentence.answer for sentence in held]


def _complete_answers(
    translator: TextSide, texts: Sequence[str], prefixes: Sequence[str], to: str | None, decoding: DecodingConfig
) -> Steps[list[str]]:
    """Translate sentences whose answers start with the given prefixes."""
    read, begun = translator.encode_many(texts, to), translator.target.encode_many(prefixes, written=True)
    hypotheses = yield SearchCall(sources=read, decoding=decoding, prefixes=begun)
    return translator.target.decode_many([best.tokens for best, *_ in hypotheses])


def _find_edits(sentences: Mapping[int, Wanting], to: str | None) -> Steps[dict[int, tuple[str, int, str]]]:
    """Return, by number, an answer up to and with the next wish, the end of the replaced span, and the wish."""
    if not sentences:
        return {}
    sources, answers = ([getattr(wanting, name) for wanting in sentences.values()] for name in ("source", "answer"))
    edits = {}
    links = yield LinkCall(sources, answers, to)
    for (number, sentence), pairs in zip(sentences.items(), links, strict=True):
        stretches = [
            (place, wish.target)
            for wish in sentence.pending
            if (place := find_stretch(sentence.source, sentence.answer, pairs, (wish.begin, wish.end))) is not None
        ]
        if stretches:
            (begin, end), text = min(stretches)
            opening = begin == 0 and sentence.answer[:1].isupper()
            text = text[:1].upper() + text[1:] if opening else text
            edits[number] = sentence.answer[:begin] + text, end, text
    return edits


def _choose_likeliest(
    translator: TextSide, sentences: Sequence[Wanting], candidates: Mapping[int, Sequence[str]], to: str | None
) -> Steps[dict[int, str]]:
    """Return, by number, the most probable candidate; the first one if none fits the model's context."""
    owners = [number for number, answers in candidates.items() for _ in answers]
    texts = [text for answers in candidates.values() for text in answers]
    read = translator.encode_many([sentences[number].source for number in owners], to)
    written = translator.target.encode_many(texts, written=True)
    scores = yield ScoreCall(read, written)
    best: dict[int, tuple[float, str]] = {}
    for number, text, score in zip(owners, texts, scores, strict=True):
        if score is not None:
            best[number] = max(best.get(number, (float("-inf"), "")), (sum(score.tokens), text))
    return {number: best[number][1] if number in best else answers[0] for number, answers in candidates.items()}
