"""Copying of addresses, placeholders, emoji, numbers, codes and names from the source to its translation.

Placeholders are replaced by stand-in words for the model. If an answer still lost something, it is repaired: what the
model wrote instead is located by its spelling, or by the attention weights, for all sentences in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

from regard.tasks.translation.documents import document as documents
from regard.tasks.translation.documents.entities import comes_back, find_core, find_spelling, has_entity
from regard.tasks.translation.documents.markup import PLACEHOLDER, Span, cut
from regard.tasks.translation.documents.tag_placement import find_occurrences
from regard.tasks.translation.lost_names import NO_RISK, Risk, find_lost_names
from regard.tasks.translation.lost_text import TIME, find_lost
from regard.tasks.translation.model_calls import CodedPair, LookCall, Steps, encode_pairs
from regard.tasks.translation.phrases import holds_phrase
from regard.tasks.translation.splicing import LossyAnswer, find_stretches, splice, splice_alike

if TYPE_CHECKING:
    from regard.tasks.translation.answers import Answer
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.text_side import TextSide

SPOKEN = re.compile(r"\w")
PLACEHOLDER_SIGN = re.compile(r"%[^\s,;]|\$[A-Za-z_]")  # the start of a placeholder without braces
ENCODED = 64  # answers encoded at a time, while a device searches for others
LOOSE_TIME = re.compile(
    r"(?<!\d)(\d{1,2})(?: h(?:eures? ?)?|: )(\d\d)(?!\d)"
)  # 6 h47, 6: 47: a time with a missing or extra space


class Shielded(NamedTuple):
    """A sentence as the model reads it, with stand-ins for addresses and other placeholders."""

    text: str
    original: str
    placeholders: Mapping[str, str]
    """Each stand-in with what it stands for."""
    characters: Mapping[str, str] = {}
    """Characters with the entities that they were written as."""
    wordless: bool = False
    """Whether there is nothing to translate in it."""
    edges: tuple[str, str] = ("", "")
    """Tags that stand before and after it, which no model reads."""

    def put_back(self, answer: Answer) -> Answer:
        """Return an answer with its placeholders; a stand-in that is not there exactly once stays lost."""
        if self.wordless:
            return replace(answer, text=self.original, alternatives=(), unfinished=0)
        if not self.placeholders and not self.characters and not any(self.edges):
            return answer
        text = "".join(self.characters.get(char, char) for char in answer.text) if self.characters else answer.text
        for stand_in, placeholder in self.placeholders.items():
            places = find_occurrences(stand_in, text)
            if len(places) == 1:
                text = text[: places[0][0]] + placeholder + text[places[0][1] :]
        others = tuple(self.put_back(other) for other in answer.alternatives)
        return replace(answer, text=text.join(self.edges), alternatives=others)


def shield(text: str) -> Shielded:
    """Replace placeholders by stand-ins: addresses take many tokens, and the model rarely copies them without error.

    Words with entities such as AT&amp;T are placeholders too; other entities are decoded.
    """
    if not SPOKEN.search(text):
        return Shielded(".", text, {}, wordless=True)
    signed = _may_have_placeholder(text)
    if not signed and "&" not in text:
        return Shielded(text, text, {})
    if has_entity(text):
        begin, end = find_core(text)
        if end - begin < len(text):
            core = shield(text[begin:end])
            return core._replace(original=text, edges=(text[:begin], text[end:]))
    spans = [match.span() for match in PLACEHOLDER.finditer(text)] if signed else []
    spelling = find_spelling(text) if has_entity(text) else None
    if spelling is not None:
        apart = [span for span in spans if all(span[1] <= begin or end <= span[0] for begin, end in spelling.words)]
        spans = sorted([*apart, *spelling.words])
    characters = {} if spelling is None else spelling.characters
    if not spans:
        return Shielded(unescape(text) if characters else text, text, {}, characters)
    marked = cut(text, names=documents.NAMES, spans=spans)
    if not marked.plain:
        return Shielded(".", text, {}, wordless=True)
    return Shielded(unescape(marked.plain) if characters else marked.plain, text, marked.kept, characters)


def _may_have_placeholder(text: str) -> bool:
    """Return False for most texts without a placeholder; a fast check before the search, for every sentence."""
    if "@" in text or "{" in text or "://" in text or "www." in text:
        return True
    return ("%" in text or "$" in text) and PLACEHOLDER_SIGN.search(text) is not None


def copies(decoding: DecodingConfig) -> bool:
    """Return True unless answers are sampled, their words are prescribed, or copying is off."""
    return not (decoding.copy == "none" or decoding.sample or decoding.prefix or decoding.force)


def keep_entities(
    translator: TextSide, texts: Sequence[str], answers: Sequence[Answer], to: str | None, decoding: DecodingConfig
) -> Steps[list[Answer]]:
    """Return the answers, with texts translated as HTML if copying did not restore their entities."""
    if not copies(decoding):
        return list(answers)
    marked = (position for position, text in enumerate(texts) if "\n" not in text and has_entity(text))
    places = [position for position in marked if not comes_back(texts[position], answers[position].text)]
    if not places:
        return list(answers)
    entity_translator = translator.like(decoding)
    written = yield from documents.translate_entities(
        entity_translator, [texts[position] for position in places], to=to
    )
    translations = dict(zip(places, written, strict=True))
    return [replace(answer, text=translations.get(position, answer.text)) for position, answer in enumerate(answers)]


class Restoration:
    """Restoration of copied content in the answers to sentences; scores stay those of the model's output."""

    def __init__(self, translator: TextSide, texts: Sequence[str], to: str | None, decoding: DecodingConfig) -> None:
        self.translator, self.to, self.decoding = translator, to, decoding
        self.originals = texts
        self.sentences = [shield(text) for text in texts]
        self._risks: dict[int, Risk] = {}
        self._mends = bool(translator.crossing)
        self._answers: dict[int, Answer] = {}
        self._written: dict[int, str] = {}
        self._mended: dict[int, str] = {}
        self._losses: dict[int, LossyAnswer] = {}  # those whose spelling did not show where to put what was lost
        self._encoded: dict[int, tuple[LossyAnswer, CodedPair]] = {}  # the same losses, encoded for the attention

    @property
    def texts(self) -> list[str]:
        """Return the inputs of the model."""
        return [sentence.text for sentence in self.sentences]

    def writes_plainly(self, number: int) -> bool:
        """True if an answer to this sentence stays as the model writes it, whatever that is."""
        sentence, text = self.sentences[number], self.originals[number]
        if sentence.wordless or sentence.placeholders or sentence.characters or any(sentence.edges):
            return False
        [risk] = self.translator.lexicon.screen([text])
        if risk is NO_RISK:
            return True
        may_lose_words = self.decoding.copy == "all"
        return not (may_lose_words or TIME.search(text) or find_lost(text, "", numbers=False))

    def examine(self, answers: Mapping[int, Answer]) -> None:
        """Add answers by number, and restore what each has lost as far as its spelling shows where.

        It does not wait for a device, so a search may continue meanwhile.
        """
        risks = self.translator.lexicon.screen([self.originals[number] for number in answers])
        self._risks |= dict(zip(answers, risks, strict=True))
        for number, answer in answers.items():
            restored, risk = self.sentences[number].put_back(answer), self._risks[number]
            timed = risk is not NO_RISK and risk.has_signs and TIME.search(self.originals[number])
            self._answers[number] = restored
            self._written[number] = _tighten_times(restored.text) if timed else restored.text
        if not self._mends:
            return
        lost = self._find_lost({number: self._written[number] for number in answers})
        changed: dict[int, str] = {}
        for number, spans in lost.items():
            text = splice_alike(self.originals[number], self._written[number], spans, self.translator.lexicon)
            self._mended[number] = text
            if text != self._written[number]:
                changed[number] = text
        still = {**{number: lost[number] for number in lost if number not in changed}, **self._find_lost(changed)}
        self._losses |= {n: LossyAnswer(self.originals[n], self._mended[n], spans) for n, spans in still.items()}
        if len(self._losses) >= ENCODED:
            self._encode_losses()

    def _encode_losses(self) -> None:
        """Encode the answers that are still incomplete, for their attention weights."""
        losses, sides = self._losses.values(), (self.translator.source, self.translator.target)
        pairs = encode_pairs(
            *sides,
            [loss.text for loss in losses],
            [loss.answer for loss in losses],
            source_spans=[loss.read for loss in losses],
            answer_spans=[loss.written for loss in losses],
        )
        self._encoded |= dict(zip(self._losses, zip(losses, pairs, strict=True), strict=True))
        self._losses = {}

    def finish(self) -> Steps[list[Answer]]:
        """Return all answers in the order of the sentences, repaired where something was lost."""
        yield from self._mend_by_attention()
        for number, text in self._mended.items():
            if not holds_phrase(text, self.decoding.forbid):
                self._written[number] = text
        answers = [(self._answers[number], self._written[number]) for number in range(len(self.sentences))]
        return [answer if text == answer.text else replace(answer, text=text) for answer, text in answers]

    def _mend_by_attention(self) -> Steps[None]:
        """Write what is still lost over the words that attended to it.

        If there are none, it is inserted after the word with the highest weight on it.
        """
        self._encode_losses()
        if not self._encoded:
            return
        losses = {number: loss for number, (loss, _) in self._encoded.items()}
        looks = yield LookCall([pair for _, pair in self._encoded.values()], self.to)
        stretches = find_stretches(list(losses.values()), looks, self.translator.lexicon)
        for (number, loss), places in zip(losses.items(), stretches, strict=True):
            self._mended[number] = splice(loss.text, loss.answer, places)

    def _find_lost(self, answers: Mapping[int, str]) -> dict[int, list[Span]]:
        """Return the lost spans by number of the answer, without forbidden phrases."""
        forbid, every = self.decoding.forbid, self.decoding.copy == "all"
        lexicon = self.translator.lexicon
        lost: dict[int, list[Span]] = {}
        for number, answer in answers.items():
            risk = self._risks[number]
            if risk is NO_RISK:
                continue
            text = self.originals[number]
            spans = find_lost(text, answer, numbers=every) if risk.may_lose_signs(text, answer) else []
            if every and risk.words:
                names = find_lost_names(text, answer, risk, lexicon)
                spans += [span for span in names if not any(span[0] < end and begin < span[1] for begin, end in spans)]
            if spans and forbid:
                spans = [span for span in spans if not holds_phrase(text[slice(*span)], forbid)]
            if spans:
                lost[number] = sorted(spans)
        return lost


def _tighten_times(answer: str) -> str:
    """Return an answer with the usual spaces in its times."""
    return LOOSE_TIME.sub(lambda time: f"{time[1]} h {time[2]}" if "h" in time[0] else f"{time[1]}:{time[2]}", answer)
