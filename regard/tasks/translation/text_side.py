"""A translator without its model: tokenizers, languages and settings, and the encoding of texts; no torch needed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from regard import config
from regard.data import languages, sentences
from regard.data.encodings import encode_text
from regard.data.language_names import LANGUAGES
from regard.data.tokenizers import Tokenizer
from regard.tasks.translation.answers import Answer
from regard.tasks.translation.lost_names import Lexicon
from regard.tasks.translation.model_calls import Steps
from regard.tasks.translation.options import DecodingConfig

LANGUAGE_NAMES = ("lang", "language", "target", "target_lang", "target_language", "tgt", "tgt_lang")  # in other tools
Self = TypeVar("Self", bound="TextSide")
Result = TypeVar("Result")


class TextSide:
    """The part of a translator that handles texts."""

    kind: ClassVar[str] = "a translator"
    trained_direction: Sequence[str] | None = None
    """Codes of the languages of source and target, of a model of one direction whose training files named them."""
    reads: Sequence[str] = ()
    """The languages that it reads, where its card says so."""

    def __init__(
        self,
        tokenizers: tuple[Tokenizer, Tokenizer],
        decoding: DecodingConfig,
        *,
        context: int,
        crossing: Sequence[str] = (),
        name: str = "translator",
    ) -> None:
        """Set up for a model with this context and these cross-attentions."""
        self.source, self.target = tokenizers
        self.begin, self.end = self.target.opening, self.target.role("end")
        self.decoding, self.context, self.crossing, self.name = decoding, context, tuple(crossing), name

    @property
    def languages(self) -> list[str]:
        """Return the target languages to choose from; empty if there is only one."""
        return list(self.source.tags)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Return the lexicon of names and rare words of the source."""
        return Lexicon(self.source)

    def encode(self, text: str, to: str | None = None) -> list[int]:
        """Return the token ids of a sentence as the model reads it: the target tag, the text, the end."""
        return self.encode_many([text], to)[0]

    def encode_many(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """Return the token ids of sentences as the model reads them."""
        tag, end, room = self.tag(to), self.source.role("end"), self.context - 1
        found = [[*tag, *ids, end] for ids in self.source.encode_many(texts)]
        longest = max(map(len, found), default=0) - 1
        if longest > room:
            raise ValueError(f"{longest} tokens in one sentence, the model reads {room}: split the text")
        return found

    def tag(self, to: str | None = None) -> list[int]:
        """Return the tag of the target language: one token, or none if there is only one direction."""
        if to is None:
            if len(self.languages) > 1:
                raise ValueError(f"say which language to translate to: {', '.join(self.languages)}")
            return [self.source.tag(name) for name in self.languages]
        if not self.languages:
            raise ValueError(f"this model has only one direction: leave out the language {to}")
        return [self.source.tag(to)]

    def direction(self, text: str) -> str | None:
        """Return the target language, of two the one that a text is less likely in, or None."""
        if len(self.languages) != 2 or any(code not in LANGUAGES for code in self.languages):
            return None
        read = languages.likeliest(text, self.languages) or self.languages[0]
        return next(code for code in self.languages if code != read)

    def language(self, texts: Sequence[str], to: str | None = None) -> str | None:
        """Return the target language: the requested one, or if there are several, a guess from the texts."""
        if to is not None and self.languages:
            return self.source.find_language(to)
        return self.direction("\n".join(texts)) if to is None and len(self.languages) > 1 else to

    def settings(self, **changes: Any) -> DecodingConfig:
        """Return the settings with some of them changed."""
        if strange := next((name for name in changes if name in LANGUAGE_NAMES), None):
            raise ValueError(f"unknown setting {strange}: name the language to translate into by to, such as to='fr'")
        return config.build(DecodingConfig, {**config.plain(self.decoding), **changes}, where="decoding")

    def like(self: Self, decoding: DecodingConfig) -> Self:
        """Return the same translator with other settings and no language checks, for parts of a text."""
        other = copy(self)
        other.decoding, other.reads, other.trained_direction = decoding, (), None
        return other

    def plan(self, text: str, decoding: DecodingConfig) -> list[sentences.Piece]:
        """Split a text into sentences and the white space between them."""
        return self.plan_many([text], decoding)[0]

    def plan_many(self, texts: Sequence[str], decoding: DecodingConfig) -> list[list[sentences.Piece]]:
        """Split texts into sentences and the white space between them; sentence lengths are computed in one batch."""
        for text in texts:
            encode_text(text)  # text that cannot be encoded must not be copied either
        tidy = [self.source.how.tidy(text) for text in texts]
        if not decoding.split or decoding.force or decoding.prefix:
            return [sentences.as_one_piece(text) for text in tidy]
        most = min(decoding.longest, self.context) - 2
        return sentences.split_to_fit(
            tidy, lambda parts: list(map(len, self.source.encode_many(parts, most=most))), most
        )

    def translate_stepwise(
        self, texts: Sequence[str], to: str | None, decoding: DecodingConfig, *, first: int = 0
    ) -> Steps[list[Answer]]:
        """Translate texts; `first` is the number of the first one, on which its random seed depends."""
        raise NotImplementedError

    def run(self, steps: Steps[Result]) -> Result:
        """Run text steps to their end with the model, and return their result."""
        raise NotImplementedError
