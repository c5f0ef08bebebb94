"""Words that an answer is to contain, written where the model had put its own for the same part of the source.

A search that is only forced to say a word says it somewhere, most often beside the word it replaces. Here the answer is
kept up to that word, the wish is written, and what follows is either as it was or as the model goes on from there,
whichever it finds more probable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regard.decoding import constraints
from regard.decoding.batching import by_length, in_order
from regard.tasks.translation.alignment import links
from regard.tasks.translation.documents.glossary import Match, says
from regard.tasks.translation.documents.tag_placement import stretch
from regard.tasks.translation.teacher_forcing import forced

if TYPE_CHECKING:
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.translator import Translator


@dataclass
class Wanting:
    """A sentence, its answer so far, and what the answer should contain."""

    source: str
    answer: str
    wishes: Sequence[Match]
    """The translations asked for of parts of the source, as a glossary finds them."""

    @property
    def pending(self) -> list[Match]:
        """The wishes that are not in the answer yet."""
        return [wish for wish in self.wishes if not says(self.answer, wish.target)] if self.answer.strip() else []


def grant(
    translator: Translator, sentences: Sequence[Wanting], *, to: str | None, decoding: DecodingConfig
) -> list[str]:
    """Return the answers with the wishes in them; one whose part of the source is linked to nothing is left out.

    All sentences take their next wish at the same time, so that they are linked, searched and scored together.
    """
    held = [replace(sentence) for sentence in sentences]
    active = list(range(len(held)))
    for attempt in range(3 * max((len(sentence.wishes) for sentence in held), default=0)):
        active = [n for n in active if attempt < 3 * len(held[n].wishes) and held[n].pending]
        edits = _find_edits(translator, {n: held[n] for n in active}, to)
        active = list(edits)
        if not active:
            break
        candidates = {n: [prefix + held[n].answer[end:]] for n, (prefix, end, _) in edits.items()}
        again = [n for n in active if attempt < 2 * len(held[n].wishes)]  # beyond, wishes undo one another
        if again:
            own = replace(decoding, nbest=1, sample=False)
            prefixes = [edits[n][0] for n in again]
            found = _complete(translator, [held[n].source for n in again], prefixes, to, own)
            for n, text in zip(again, found, strict=True):
                candidates[n] += [text] if says(text, edits[n][2]) else []
        for n, answer in _choose_likeliest(translator, held, candidates, to).items():
            held[n].answer = answer
    return [sentence.answer for sentence in held]


def _complete(
    translator: Translator, texts: Sequence[str], prefixes: Sequence[str], to: str | None, decoding: DecodingConfig
) -> list[str]:
    """Translate sentences whose answers each begin with a prefix of their own."""
    read, begun = translator.encode_many(texts, to), translator.target.encode_many(prefixes, written=True)
    batches = by_length([len(ids) for ids in read], budget=max(1, decoding.tokens // decoding.beams))
    answers = []
    for batch in batches:
        rules = [constraints.Prefix(each=[begun[number] for number in batch])]
        hypotheses = translator.hypotheses(read, batch, decoding, rules=rules)
        answers.append(translator.target.decode_many([best.tokens for best, *_ in hypotheses]))
    return in_order(batches, answers)


def _find_edits(
    translator: Translator, sentences: Mapping[int, Wanting], to: str | None
) -> dict[int, tuple[str, int, str]]:
    """Return, by number, an answer up to and with the next wish, where the replaced stretch ends, and the wish."""
    if not sentences:
        return {}
    sources, answers = ([getattr(each, name) for each in sentences.values()] for name in ("source", "answer"))
    edits = {}
    linked = zip(sentences.items(), links(translator, sources, answers, to=to), strict=True)
    for (number, sentence), pairs in linked:
        stretches = [
            (place, wish.target)
            for wish in sentence.pending
            if (place := stretch(sentence.source, sentence.answer, pairs, (wish.begin, wish.end))) is not None
        ]
        if stretches:
            (begin, end), text = min(stretches)
            opening = begin == 0 and sentence.answer[:1].isupper()
            text = text[:1].upper() + text[1:] if opening else text
            edits[number] = sentence.answer[:begin] + text, end, text
    return edits


def _choose_likeliest(
    translator: Translator, sentences: Sequence[Wanting], candidates: Mapping[int, Sequence[str]], to: str | None
) -> dict[int, str]:
    """Return, by number, the most probable candidate; the first where none is short enough for the model to read."""
    owners = [number for number, some in candidates.items() for _ in some]
    texts = [text for some in candidates.values() for text in some]
    read = translator.encode_many([sentences[number].source for number in owners], to)
    written = translator.target.encode_many(texts, written=True)
    fitting = translator.teacher.fitting(read, written)
    scored = forced(translator, [read[place] for place in fitting], [written[place] for place in fitting])
    best: dict[int, tuple[float, str]] = {}
    for place, scores in scored:
        number, text = owners[fitting[place]], texts[fitting[place]]
        best[number] = max(best.get(number, (float("-inf"), "")), (float(scores.sum()), text))
    return {number: best[number][1] if number in best else some[0] for number, some in candidates.items()}
