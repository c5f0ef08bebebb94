"""Translation of texts with markup, placeholders and glossary terms, all of which are preserved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.data.language_names import LANGUAGES
from regard.data.tokenizers import WORD
from regard.tasks.translation.answers import Answer
from regard.tasks.translation.documents.attributes import find_values, write_values
from regard.tasks.translation.documents.entities import Markers, encode_text
from regard.tasks.translation.documents.glossary import Match, Terms
from regard.tasks.translation.documents.markup import Marked, cut, parse
from regard.tasks.translation.documents.tag_placement import diagonal_links, find_occurrences, restore
from regard.tasks.translation.documents.terms import Wanting, grant_stepwise
from regard.tasks.translation.model_calls import LinkCall, Steps
from regard.tasks.translation.phrases import holds_phrase

if TYPE_CHECKING:
    from regard.tasks.translation.options import DecodingConfig
    from regard.tasks.translation.text_side import TextSide

NOTHING = Answer("", 0.0)
NAMES = ("Tom", "Boston", "Kyoto", "Mary", "37", "48", "59", "64", "2013", "2009", "1998", "1987")
"""Words that translators of European languages copy, to stand for placeholders meanwhile: names, numbers and years."""


def translate(
    translator: TextSide,
    texts: Sequence[str],
    *,
    html: bool = False,
    to: str | None = None,
    terms: Terms | None = None,
    names: Sequence[str] = NAMES,
    **settings: Any,
) -> list[str]:
    """Translate texts, and put tags (of HTML) and placeholders back by the alignment of words.

    Every tag comes back exactly once with its nesting, every placeholder verbatim. `names` are stand-in words for
    placeholders in what the model reads. Settings are those of `translate`.
    """
    steps = translate_stepwise(translator, texts, html=html, to=to, terms=terms, names=names, **settings)
    return [answer.text for answer in translator.run(steps)]


def translate_stepwise(
    translator: TextSide,
    texts: Sequence[str],
    *,
    html: bool = False,
    to: str | None = None,
    terms: Terms | None = None,
    names: Sequence[str] = NAMES,
    **settings: Any,
) -> Steps[list[Answer]]:
    """Translate texts as `translate` does; scores are those of the sentences before terms were written into them."""
    decoding = translator.settings(**{**settings, "sample": False, "nbest": 1})
    to = translator.language(texts, to)
    tidy = translator.source.how.tidy
    if html:
        texts = yield from _translate_attributes(translator, texts, to, decoding, terms=terms, names=names)
    documents = [parse(text, names=names, tidy=tidy) if html else [cut(tidy(text), names=names)] for text in texts]
    marked = [part for document in documents for part in document if isinstance(part, Marked)]
    answers = iter((yield from _translate_marked(translator, marked, to=to, decoding=decoding, terms=terms)))
    return [
        _join_answers([Answer(part, 0.0) if isinstance(part, str) else next(answers) for part in document])
        for document in documents
    ]


def _join_answers(parts: Sequence[Answer]) -> Answer:
    """Join the parts of a document into one answer."""
    unfinished, kept = (sum(getattr(part, name) for part in parts) for name in ("unfinished", "kept"))
    text, score = "".join(part.text for part in parts), sum(part.score for part in parts)
    return Answer(text, score, kept=kept, unfinished=unfinished)


def _translate_attributes(
    translator: TextSide,
    texts: Sequence[str],
    to: str | None,
    decoding: DecodingConfig,
    *,
    terms: Terms | None,
    names: Sequence[str],
) -> Steps[list[str]]:
    """Translate the attributes of HTML texts that people read, and update the language of the page."""
    values = [find_values(text, names=names, tidy=translator.source.how.tidy) for text in texts]
    marked = [value.marked for text_values in values for value in text_values]
    answers = iter((yield from _translate_marked(translator, marked, to=to, decoding=decoding, terms=terms)))
    language = to if to is not None else (translator.trained_direction or (None,))[-1]
    language = language if language in LANGUAGES else None
    return [
        write_values(text, text_values, [next(answers).text for _ in text_values], language)
        for text, text_values in zip(texts, values, strict=True)
    ]


def translate_entities(
    translator: TextSide, texts: Sequence[str], *, to: str | None, **settings: Any
) -> Steps[list[str]]:
    """Translate lines of plain text with characters written as entities, such as AT&amp;T."""
    markers = [Markers() for _ in texts]
    written = [encode_text(text, text_markers) for text, text_markers in zip(texts, markers, strict=True)]
    answers = yield from translate_stepwise(translator, written, html=True, to=to, **settings)
    return [text_markers.restore(answer.text) for answer, text_markers in zip(answers, markers, strict=True)]


def _translate_marked(
    translator: TextSide,
    marked: Sequence[Marked],
    *,
    to: str | None,
    decoding: DecodingConfig,
    terms: Terms | None = None,
) -> Steps[list[Answer]]:
    """Translate texts without their markup and placeholders, and put all of it back."""
    groups = [list(_split_sentences(translator, one, decoding, terms)) for one in marked]
    sentences = [sentence for group in groups for sentence in group]
    yield from _translate_sentences(translator, sentences, decoding, to)
    watched = [sentence for sentence in sentences if sentence.watched]
    pairs = yield LinkCall([each.text for each in watched], [each.answer.text for each in watched], to)
    for sentence, links in zip(watched, pairs, strict=True):
        sentence.pairs = links
    return [_join_sentences(one, group) for one, group in zip(marked, groups, strict=True)]


@dataclass
class _Sentence:
    """A sentence in translation: what its answer must contain, and whether its words must be linked."""

    text: str
    gap: str
    wishes: list[Match]
    """Stand-ins and terms, with their places in the sentence."""
    watched: bool
    answer: Answer = NOTHING
    pairs: Sequence[tuple[int, int]] = ()


def _split_sentences(
    translator: TextSide, marked: Marked, decoding: DecodingConfig, terms: Terms | None
) -> Iterator[_Sentence]:
    begin = 0
    for piece in translator.plan(marked.plain, decoding):
        end = begin + len(piece.text)
        names = [Match(*span, name) for name in marked.kept for span in find_occurrences(name, piece.text)]
        settled = terms.matches(piece.text) if terms is not None else []
        settled = [match for match in settled if not holds_phrase(match.target, decoding.forbid)]
        touched = any(begin <= edge <= end for mark in marked.marks for edge in (mark.begin, mark.end))
        if piece.text:
            yield _Sentence(piece.text, piece.gap, [*names, *settled], bool(names) or touched)
        begin = end + len(piece.gap)


def _translate_sentences(
    translator: TextSide, sentences: Sequence[_Sentence], decoding: DecodingConfig, to: str | None
) -> Steps[None]:
    """Translate all sentences at once, then write the missing wishes into their answers."""
    whole = replace(decoding, split=False)
    free = yield from translator.like(whole).translate_stepwise(
        [source_sentence.text for source_sentence in sentences], to, whole
    )
    wanting = [
        Wanting(source_sentence.text, answer.text, source_sentence.wishes)
        for source_sentence, answer in zip(sentences, free, strict=True)
    ]
    granted = yield from grant_stepwise(translator, wanting, to=to, decoding=decoding)
    for sentence, answer, text in zip(sentences, free, granted, strict=True):
        sentence.answer = replace(answer, text=text)


def _join_sentences(marked: Marked, sentences: Sequence[_Sentence]) -> Answer:
    """Join the translated sentences, renumber their links, and put the markup back."""
    pairs: list[tuple[int, int]] = []
    read, written = 0, 0
    for sentence in sentences:
        sizes = len(WORD.findall(sentence.text)), len(WORD.findall(sentence.answer.text))
        pairs += [(read + s, written + t) for s, t in (sentence.pairs or diagonal_links(*sizes))]
        read, written = read + sizes[0], written + sizes[1]
    whole = _join_answers([replace(each.answer, text=each.answer.text + each.gap) for each in sentences])
    return replace(whole, text=restore(marked, whole.text, pairs))
