"""The pipeline of a translation: split texts into sentences, prepare them for the model, and join the answers.

The steps, in this order: a text is split into sentences; sentences already in the target language are left as they
are; those in capitals are truecased; what must be copied is shielded. The model answers the rest. Then what an answer
lost is restored, capitals are restored, and the sentences are joined with the white space of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.data import languages, truecase
from regard.tasks.translation.answers import Answer, decode_answers, join_pieces, remove_forbidden, uppercase
from regard.tasks.translation.copying import Restoration, copies, keep_entities
from regard.tasks.translation.documents.entities import has_entity
from regard.tasks.translation.model_calls import Hypothesis, SearchCall, Steps
from regard.tasks.translation.phrases import holds_phrase
from regard.tasks.translation.text_side import TextSide
from regard.tasks.translation.unknown_words import UnknownWords

if TYPE_CHECKING:
    from regard.tasks.translation.options import DecodingConfig


class Pipeline:
    """Texts to translate: prepares the inputs of the model, collects its answers, and returns translations."""

    def __init__(
        self, translator: TextSide, texts: Sequence[str], to: str | None, decoding: DecodingConfig, *, first: int = 0
    ) -> None:
        self.translator, self.texts, self.to, self.decoding = translator, texts, to, decoding
        self.plans = translator.plan_many(texts, decoding)
        self.sentences = [piece.text for plan in self.plans for piece in plan if piece.text]
        free = not (decoding.prefix or decoding.force)
        self.kept = self._find_kept() if free and decoding.keep and to is not None else frozenset()
        self.pending = [number for number in range(len(self.sentences)) if number not in self.kept]
        """The sentences that are translated, by number."""
        self.originals = [self.sentences[number] for number in self.pending]
        self.truecased = self.originals
        if free and decoding.truecase:
            self.truecased = [truecase.restore_case(text, translator.source) for text in self.originals]
        seeds = [
            hash((decoding.seed, number, place))
            for number, plan in enumerate(self.plans, start=first)
            for place, piece in enumerate(plan)
            if piece.text
        ]
        self.seeds = [seeds[number] for number in self.pending]
        """What each of them is drawn from."""
        self._restoration = Restoration(translator, self.truecased, to, decoding) if copies(decoding) else None
        self._unknown = UnknownWords(translator, self.model_inputs) if decoding.replace_unknown else None
        self._answers: dict[int, Answer] = {}
        self.is_searched = False
        """Whether the model has answered all sentences."""
        self.translations: Sequence[str] = ()
        """The translations of the sentences, once they are finished."""

    @property
    def model_inputs(self) -> list[str]:
        """Return the inputs of the model."""
        return self.truecased if self._restoration is None else self._restoration.texts

    def translate(self) -> Steps[list[Answer]]:
        """Search for the answers of the model, and return the translations."""
        if self.model_inputs:
            yield SearchCall(
                sources=self.translator.encode_many(self.model_inputs, self.to),
                decoding=self.decoding,
                seeds=self.seeds,
                on_finished=self.add_hypotheses,
            )
        self.is_searched = True
        return (yield from self.finish())

    def writes_plainly(self, place: int) -> bool:
        """True if the translation of a pending sentence is what the model writes, in capitals if need be."""
        if self.decoding.forbid or self._unknown is not None or has_entity(self.originals[place]):
            return False
        return self._restoration is None or self._restoration.writes_plainly(place)

    def add_hypotheses(self, numbers: Iterable[int], hypotheses: Sequence[Sequence[Hypothesis]]) -> None:
        """Add hypotheses for the model inputs with these numbers."""
        if self._unknown is not None:
            self._unknown.add_hypotheses(numbers, hypotheses)
            return
        answers = decode_answers(self.translator.target, hypotheses, drawn=self.decoding.sample)
        self.add_answers(dict(zip(numbers, answers, strict=True)))

    def add_answers(self, answers: Mapping[int, Answer]) -> None:
        """Add answers by the numbers of their model inputs; some or all of them."""
        if self._restoration is None:
            self._answers.update(answers)
        else:
            self._restoration.examine(answers)

    def finish(self) -> Steps[list[Answer]]:
        """Return the translations, once all answers have been added."""
        if self._unknown is not None:
            self.add_answers((yield from self._unknown.replace(self.to, drawn=self.decoding.sample)))
        finished = yield from self._finish_sentences()
        answered = dict(zip(self.pending, finished, strict=True))
        sentences = [
            answered[n] if n in answered else Answer(text, 0.0, kept=1) for n, text in enumerate(self.sentences)
        ]
        restored = yield from keep_entities(self.translator, self.sentences, sentences, self.to, self.decoding)
        self.translations = [answer.text for answer in restored]
        parts = iter(restored)
        joined_answers = [join_pieces(plan, [next(parts) for piece in plan if piece.text]) for plan in self.plans]
        if not self.translator.reads:
            return joined_answers
        foreign = languages.identify_foreign_many(self.texts, self.translator.reads)
        return [
            answer if answer.kept or code is None else replace(answer, foreign=code)
            for code, answer in zip(foreign, joined_answers, strict=True)
        ]

    def _find_kept(self) -> frozenset[int]:
        """Return the numbers of sentences that are certainly in the target language, and without forbidden phrases."""
        assert self.to is not None
        return frozenset(
            number
            for number, guess in enumerate(languages.identify_many(self.sentences))
            if guess is not None
            and guess.surely(self.to)
            and not holds_phrase(self.sentences[number], self.decoding.forbid)
        )

    def _finish_sentences(self) -> Steps[list[Answer]]:
        """Return the answers of the model, repaired, and in capitals where the sentences were."""
        if self._restoration is None:
            answers = [self._answers[place] for place in range(len(self.pending))]
        else:
            restored = yield from self._restoration.finish()
            answers = [remove_forbidden(answer, self.decoding.forbid) for answer in restored]
        sides = zip(self.truecased, self.originals, answers, strict=True)
        return [uppercase(answer) if truecased != original else answer for truecased, original, answer in sides]


class TextTranslator(TextSide):
    """A translator without its model: the steps of translating texts, which yield calls to a model."""

    def translate_stepwise(
        self, texts: Sequence[str], to: str | None, decoding: DecodingConfig, *, first: int = 0
    ) -> Steps[list[Answer]]:
        """Translate texts; `first` is the number of the first one, on which its random seed depends."""
        return (yield from Pipeline(self, texts, to, decoding, first=first).translate())
