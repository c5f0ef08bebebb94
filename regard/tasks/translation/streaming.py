"""Streaming of a translation: the beginning of it that no later step of the search can change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.decoding.exchange import Exchange, Progress
from regard.tasks.translation.answers import Answer
from regard.tasks.translation.pipeline import Pipeline

if TYPE_CHECKING:
    from regard.tasks.translation.sentence_translator import SentenceTranslator

PARTIAL_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # decoded form of an incomplete character


class TranslationStream:
    """A translation of one text that an engine is searching for.

    Of a sentence that is still searched for, the tokens that all live and ended hypotheses share are final, unless
    something may be restored in it, such as an address; such a sentence is held back until its search has ended.
    """

    def __init__(self, translator: SentenceTranslator, pipeline: Pipeline) -> None:
        self._translator, self._pipeline = translator, pipeline
        self._settled: dict[int, str | None] = {}
        """The final translations of sentences whose search has ended; None if that is not known yet."""

    def exchange(self) -> Exchange[list[Answer]]:
        """Return the exchange whose answer is this translation."""
        return self._translator.exchange_steps(self._pipeline.translate())

    def text_of(self, answer: Answer) -> str:
        """Return the whole translation."""
        return answer.text

    def read(self, progress: Sequence[Progress]) -> str:
        """Return the beginning of the translation that cannot change any more."""
        if self._pipeline.is_searched:
            return ""  # the requests are for what was lost; the whole text comes next
        [plan] = self._pipeline.plans
        places = {number: place for place, number in enumerate(self._pipeline.pending)}
        text, number = "", -1
        for piece in plan:
            number += bool(piece.text)
            if piece.text and number in places:
                place = places[number]
                if not progress[place].is_done:
                    return text + self._read_open_sentence(place, progress[place])
                settled = self._settle(place, progress[place])
                if settled is None:
                    return text
                text += settled
            else:
                text += piece.text
            text += piece.gap
        return text

    def _read_open_sentence(self, place: int, progress: Progress) -> str:
        pipeline = self._pipeline
        if not pipeline.writes_plainly(place):
            return ""
        text = self._translator.target.decode(progress.settled_tokens).rstrip(PARTIAL_CHARACTER)
        return text if pipeline.truecased[place] == pipeline.originals[place] else text.upper()

    def _settle(self, place: int, progress: Progress) -> str | None:
        """Return the translation of a sentence that is searched, or None if the model must help to restore it."""
        if place not in self._settled:
            decoding = replace(self._pipeline.decoding, split=False)
            translator = self._translator.like(decoding)
            sentence = Pipeline(translator, [self._pipeline.originals[place]], self._pipeline.to, decoding)
            sentence.add_hypotheses([0], [progress.hypotheses])
            try:
                next(sentence.finish())
            except StopIteration as end:
                self._settled[place] = end.value[0].text
            else:
                self._settled[place] = None
        return self._settled[place]
