"""Words that an answer is to contain, written where the model had put its own for the same part of the source.

A search that is only forced to say a word says it somewhere, most often beside the word it replaces. Here the answer is
kept up to that word, the wish is written, and what follows is either as it was or as the model goes on from there,
whichever it finds more probable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.tasks.translation.alignment import links
from regard.tasks.translation.documents.glossary import Match, says
from regard.tasks.translation.documents.tag_placement import stretch
from regard.tasks.translation.teacher_forcing import forced

if TYPE_CHECKING:
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.translator import Translator


def grant(
    translator: Translator,
    source: str,
    answer: str,
    wishes: Sequence[Match],
    *,
    to: str | None,
    decoding: DecodingConfig,
) -> str:
    """The answer to a source with the wishes in it; one whose part of the source is linked to nothing is left out.

    Each wish is the translation asked for of a part of the source, as a glossary finds them.
    """
    for attempt in range(3 * len(wishes)):
        found = _next(translator, source, answer, wishes, to)
        if found is None:
            return answer
        begin, end, text = found
        if begin == 0 and answer[:1].isupper():
            text = text[:1].upper() + text[1:]
        prefix = answer[:begin] + text
        told = [prefix + answer[end:]]
        if attempt < 2 * len(wishes):  # beyond, wishes undo one another
            own = replace(decoding, prefix=prefix, split=False, nbest=1, sample=False)
            told += [again for again in translator.like(own).translate([source], to=to) if says(again, text)]
        answer = _likeliest(translator, source, told, to)
    return answer


def _next(
    translator: Translator, source: str, answer: str, wishes: Sequence[Match], to: str | None
) -> tuple[int, int, str] | None:
    """The first stretch of the answer that a wish should replace."""
    pending = [wish for wish in wishes if not says(answer, wish.target)]
    if not pending or not answer.strip():
        return None
    [pairs] = links(translator, [source], [answer], to=to)
    places = ((stretch(source, answer, pairs, (wish.begin, wish.end)), wish.target) for wish in pending)
    return min(((*place, target) for place, target in places if place is not None), default=None)


def _likeliest(translator: Translator, source: str, answers: Sequence[str], to: str | None) -> str:
    """Of these answers the most probable one."""
    read = [translator.encode(source, to)] * len(answers)
    scores = {
        number: float(own.sum())
        for number, own in forced(translator, read, translator.target.encode_many(answers, written=True))
    }
    return answers[max(scores, key=scores.__getitem__)]
