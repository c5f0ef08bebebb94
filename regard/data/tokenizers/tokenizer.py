"""The tokenizer: text to token ids and back, for trained and imported ones, as one self-contained tokenizer.json.

Those trained here know all 256 byte symbols: an unseen character is encoded as its bytes, and decoding restores any
normalised text. Only a closed vocabulary (`units`) has an unknown token.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal

from tokenizers import Tokenizer as Engine
from tokenizers import models

from regard.data.encodings import SURROGATE
from regard.data.normalise import TextConfig
from regard.data.roles import blank_between, by_character, language_of_tag, roles, token_surface
from regard.data.tokenizers.limits import check_tokenizer, refuse_explosive
from regard.data.tokenizers.spelling import Spelled

WORD = re.compile(r"\w+(?:['’-]\w+)*['’]?|[^\w\s]+")


class Tokenizer:
    """A trained tokenizer: Regard's own have the ids of pad, bos, eos and unk first, then language tags, then text."""

    def __init__(self, engine: Engine, how: TextConfig | None = None) -> None:
        engine.encode_special_tokens = True  # a typed "<eos>" is five characters, never a special token
        self._engine = engine
        self.how = how or TextConfig(normalise="none")
        """How a text is prepared before it is tokenised."""
        self._names = {id: name for name, id in engine.get_vocab(with_added_tokens=True).items()}
        special = {id for id, token in engine.get_added_tokens_decoder().items() if token.special}
        if not self._names.keys() - special:
            raise ValueError("a tokenizer needs tokens that stand for text, and this one has none")
        read = token_surface(engine)
        self._bytes = {id: None if id in special else read(name) for id, name in self._names.items()}
        self._spelled = Spelled(self._names, self._bytes)
        by_role = roles(engine)
        self.pad, self.begin, self.end = by_role["pad"], by_role["begin"], by_role["end"]
        self.unknown, self.mask, self.separator = by_role["unknown"], by_role["mask"], by_role["separator"]
        self.special = frozenset(special)
        """Tokens that stand for no text."""
        self.tags: dict[str, int] = {tag: id for id in sorted(special) if (tag := language_of_tag(self._names[id]))}
        self.vocab = max(self._names) + 1
        """Number of tokens, special ones included."""
        self.closed = isinstance(engine.model, models.WordLevel)
        """Whether what is not in its list is unknown, instead of being spelled."""
        self.between = blank_between(engine)
        """What stands between two tokens of a closed list: a blank between words, nothing between characters."""
        self.reach = max(len(piece) for piece in self._bytes.values() if piece is not None)
        """Most bytes, and so most characters, that one token can stand for."""

    @classmethod
    def parse(cls, text: str, how: TextConfig | None = None) -> Tokenizer:
        """Parse a tokenizer.json; `how` prepares texts for it.

        A harmful file is refused before the library loads it, as it may come from anywhere.
        """
        _check_text(text)
        try:
            engine = Engine.from_str(text)
        except BaseException as error:  # the Rust library raises nothing more specific, or panics
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ValueError(f"not a tokenizer.json: {' '.join(str(error).split())}") from None
        return cls(engine, how)

    def with_text_config(self, how: TextConfig) -> Tokenizer:
        """Return the same tokenizer with another text preparation."""
        return Tokenizer(self._engine, how)

    def json(self) -> str:
        """Return its tokenizer.json."""
        return self._engine.to_str()

    @property
    def filler(self) -> int:
        """Return the token that pads batches: pad, or any if there is none, since padding is masked."""
        return 0 if self.pad is None else self.pad

    @property
    def opening(self) -> int:
        """Return the first input of a decoder: the begin token, or pad if there is none, as in T5 and Marian."""
        return self.role("begin") if self.begin is not None or self.pad is None else self.pad

    def role(self, name: Literal["pad", "begin", "end", "unknown", "mask", "separator"]) -> int:
        """Return the token of this role, or raise ValueError if there is none."""
        token = getattr(self, name)
        if token is None:
            raise ValueError(
                f"this tokenizer has no {name} token and this model needs one: use a tokenizer that has it"
            )
        return token

    def find_special(self, name: str) -> int | None:
        """Return the special token of this name, or None."""
        return next((id for id in self.special if self._names[id] == name), None)

    @property
    def opens(self) -> bool:
        """True if it adds its begin token before a text when special tokens are added."""
        return self.begin is not None and self._engine.encode("a").ids[:1] == [self.begin]

    def tag(self, name: str) -> int:
        """Return the tag token of this target language."""
        return self.tags[self.find_language(name)]

    def find_language(self, name: str) -> str:
        """Return the language as its tag spells it, ignoring case."""
        for tag in self.tags:
            if tag.casefold() == str(name).casefold():
                return tag
        raise ValueError(f"unknown language tag {name!r}: there are {', '.join(self.tags) or 'none'}")

    def encode(self, text: str, *, written: bool = False) -> list[int]:
        """Return the ids of a text, without begin, end or tag; a `written` text keeps its typography."""
        return self.encode_many([text], written=written)[0]

    def encode_many(self, texts: Sequence[str], *, written: bool = False, most: int | None = None) -> list[list[int]]:
        """Encode several texts in parallel; huge ones may be cut to surely more than `most` tokens."""
        enough = None if most is None else most * self.reach + 1
        return self.encode_normal([self.how.normal(text, written=written)[:enough] for text in texts])

    def count(self, texts: Sequence[str]) -> int:
        """Return the number of tokens of several texts together."""
        return sum(map(len, self.encode_many(texts)))

    def encode_normal(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts that are already normalised."""
        try:
            if self._characters:  # the same result, many times faster
                ids, unknown = self._characters, self.role("unknown")
                composed = (unicodedata.normalize("NFC", text) for text in texts)
                return [[ids.get(letter, unknown) for letter in _check_encodable(text)] for text in composed]
            return [coded.ids for coded in self._engine.encode_batch_fast(list(texts), add_special_tokens=False)]
        except (TypeError, UnicodeEncodeError):
            raise ValueError(SURROGATE) from None

    def encode_lines(self, text: str) -> list[int]:
        """Return the ids of a running text, with the end token for every line end."""
        first, *others = self.encode_many(text.split("\n"))
        return [*first, *(id for line in others for id in (self.role("end"), *line))]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text without special tokens, except for the unknown token of a closed vocabulary."""
        if self.closed:
            spelled, unseen = self._spelled, self.special - {self.unknown}
            return self.between.join([spelled[id] for id in ids if id not in unseen])
        return self._engine.decode(list(ids), skip_special_tokens=True)

    def decode_many(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """Decode several lists of ids in parallel."""
        if self.closed:
            return [self.decode(ids) for ids in texts]
        return self._engine.decode_batch([list(ids) for ids in texts], skip_special_tokens=True)

    def decode_lines(self, ids: Sequence[int]) -> str:
        """Decode ids to text, with a line end for every end token."""
        if self.end not in ids:
            return self.decode(ids)
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == self.end:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(map(self.decode, lines))

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that are unknown to a closed vocabulary of characters."""
        if not self.closed or self.between:
            return []
        characters = sorted({character for line in text.split("\n") for character in self.how.normal(line)})
        return [
            character
            for character, ids in zip(characters, self.encode_normal(characters), strict=True)
            if ids == [self.unknown]
        ]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each id as readable text, with its leading space; a partial character reads <0xE2>."""
        return [self._spelled[id] for id in ids]

    def words(self, ids: Sequence[int], text: str | None = None) -> list[int | None]:
        """Return the index of the word of each id; None for special tokens.

        Words are runs of letters and digits, joined by apostrophes and hyphens, and runs of punctuation; a piece
        belongs to the word of its first visible character, a piece of mere spaces to the word after it.
        Positions are the tokenizer's offsets in `text`, or without it those in the joined pieces.
        In a closed vocabulary, every token is a word.
        """
        if self.closed:
            count = iter(range(len(ids)))
            return [None if id in self.special and id != self.unknown else next(count) for id in ids]
        if text is not None and (noted := self._words_in(ids, self.how.normal(text))) is not None:
            return noted
        pieces = [self._bytes.get(id) for id in ids]
        raw = b"".join(piece or b"" for piece in pieces)
        spelled = raw.decode("utf-8", "surrogateescape")  # a broken byte stays one character
        sizes = (len(letter.encode("utf-8", "surrogateescape")) for letter in spelled)
        starts = [*accumulate(sizes, initial=0)]  # of each character, in bytes
        bounds = accumulate((len(piece or b"") for piece in pieces), initial=0)
        places = [bisect_right(starts, bound) - 1 for bound in bounds]
        owners = _owners(spelled, [*pairwise(places)])
        return [None if piece is None else owner for piece, owner in zip(pieces, owners, strict=True)]

    def encode_words(
        self, texts: Sequence[str], *, written: bool = False, spans: Sequence[Sequence[tuple[int, int]]] | None = None
    ) -> list[tuple[list[int], list[int]]]:
        """Encode several texts, and return the word index of each id, as in `words`.

        `spans` are the spans of the words of each text, if they are already known.
        """
        normal = [self.how.normal(text, written=written) for text in texts]
        if self.closed and not self.between:
            return [(ids, list(range(len(ids)))) for ids in self.encode_normal(normal)]
        coded = self._engine.encode_batch(normal, add_special_tokens=False)
        known_spans = [None] * len(texts) if spans is None else spans
        return [
            (encoding.ids, _owners(read, encoding.offsets, words if read == text else None))
            for text, read, encoding, words in zip(texts, normal, coded, known_spans, strict=True)
        ]

    def _words_in(self, ids: Sequence[int], text: str) -> list[int | None] | None:
        """Return the word indices from the tokenizer's offsets; None if these are not the ids of the text."""
        coded = self._engine.encode(text, add_special_tokens=False)
        before = next((n for n in range(len(ids)) if list(ids[n : n + len(coded.ids)]) == coded.ids), None)
        if before is None or not coded.ids:
            return None
        after = len(ids) - before - len(coded.ids)
        return [*[None] * before, *_owners(text, coded.offsets), *[None] * after]

    @cached_property
    def token_bytes(self) -> tuple[bytes | None, ...]:
        """Return the bytes of text of each token; None for special ones."""
        return tuple(self._bytes.get(id) for id in range(self.vocab))

    @cached_property
    def _characters(self) -> dict[str, int]:
        """Return the token of each character if tokens are characters; empty for other tokenizers."""
        if not self.closed or self.unknown is None or not by_character(self._engine):
            return {}
        names = {id: piece.decode("utf-8", "replace") for id, piece in self._bytes.items() if piece is not None}
        return {name: id for id, name in names.items() if len(name) == 1}


def _check_encodable(text: str) -> str:
    """Return the text, or raise UnicodeEncodeError if it cannot be encoded in UTF-8."""
    if not text.isascii():
        text.encode()
    return text


def _owners(text: str, spans: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]] | None = None) -> list[int]:
    """Return the index of the word in which each span starts, or of the next one if it starts with a blank."""
    ends = [match.end() for match in WORD.finditer(text)] if words is None else [end for _, end in words]
    ends = ends[:-1]
    return [bisect_right(ends, begin) for begin, _ in spans]


def _check_text(text: str) -> None:
    """Raise ValueError for an invalid tokenizer.json, or one that the library cannot use safely."""
    try:
        document = json.loads(text)
        check_tokenizer(document)
        refuse_explosive(document)
    except RecursionError:
        raise ValueError("not a tokenizer.json: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not a tokenizer.json: {error}") from None
    except ValueError as error:
        raise ValueError(f"tokenizer.json cannot be used: {error}") from None
