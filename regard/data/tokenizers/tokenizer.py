"""Texts to numbers and back: one tokenizer for ours and other people's, as one self-contained tokenizer.json.

Those trained here know all 256 symbols of UTF-8 bytes: a character never seen in training is written with its bytes,
and decoding gives any text back as it was normalised. Only a closed list (`units`) meets the unknown.
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
    """A trained tokenizer: ours begin with pad, bos, eos and unk, then come language tags, then text."""

    def __init__(self, engine: Engine, how: TextConfig | None = None) -> None:
        engine.encode_special_tokens = True  # "<eos>" typed by somebody is five characters, never a command
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
        """The tokenizer in the text of a tokenizer.json; `how` prepares texts for it.

        A file that could do harm is refused before the library sees it: it may come from anybody.
        """
        _check_text(text)
        try:
            engine = Engine.from_str(text)
        except BaseException as error:  # the Rust library raises nothing more exact, or panics
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ValueError(f"not a tokenizer.json: {' '.join(str(error).split())}") from None
        return cls(engine, how)

    def with_text_config(self, how: TextConfig) -> Tokenizer:
        """The same tokenizer for texts that are prepared in another way."""
        return Tokenizer(self._engine, how)

    def json(self) -> str:
        """The text of its tokenizer.json."""
        return self._engine.to_str()

    @property
    def filler(self) -> int:
        """What fills up a batch: the pad token, or any where there is none, since nobody looks at it."""
        return 0 if self.pad is None else self.pad

    @property
    def opening(self) -> int:
        """What a decoder is given first: the begin token, or pad where there is none, as T5 and Marian do."""
        return self.role("begin") if self.begin is not None or self.pad is None else self.pad

    def role(self, name: Literal["pad", "begin", "end", "unknown", "mask", "separator"]) -> int:
        """The token of this role, for what cannot do without it."""
        token = getattr(self, name)
        if token is None:
            raise ValueError(
                f"this tokenizer has no {name} token and this model needs one: use a tokenizer that has it"
            )
        return token

    def find_special(self, name: str) -> int | None:
        """The special token of this name, None where there is none."""
        return next((id for id in self.special if self._names[id] == name), None)

    @property
    def opens(self) -> bool:
        """Whether it puts its begin token before a text, where special tokens are added."""
        return self.begin is not None and self._engine.encode("a").ids[:1] == [self.begin]

    def tag(self, name: str) -> int:
        """The token that asks for this target language."""
        return self.tags[self.find_language(name)]

    def find_language(self, name: str) -> str:
        """The language of this name as its tag spells it, in whatever case it was written."""
        for tag in self.tags:
            if tag.casefold() == str(name).casefold():
                return tag
        raise ValueError(f"unknown language tag {name!r}: there are {', '.join(self.tags) or 'none'}")

    def encode(self, text: str, *, written: bool = False) -> list[int]:
        """Ids of a text, without begin, end or tag; of one that is `written`, not read, typography stays."""
        return self.encode_many([text], written=written)[0]

    def encode_many(self, texts: Sequence[str], *, written: bool = False, most: int | None = None) -> list[list[int]]:
        """Ids of each text; many at once are encoded in parallel, of huge ones no more than is surely over `most`."""
        enough = None if most is None else most * self.reach + 1
        return self.encode_normal([self.how.normal(text, written=written)[:enough] for text in texts])

    def encode_normal(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts that are normalised already."""
        try:
            if self._characters:  # the same, many times faster
                ids, unknown = self._characters, self.role("unknown")
                composed = (unicodedata.normalize("NFC", text) for text in texts)
                return [[ids.get(letter, unknown) for letter in _check_encodable(text)] for text in composed]
            return [coded.ids for coded in self._engine.encode_batch_fast(list(texts), add_special_tokens=False)]
        except (TypeError, UnicodeEncodeError):
            raise ValueError(SURROGATE) from None

    def encode_lines(self, text: str) -> list[int]:
        """Ids of a running text, the end token for every line end."""
        first, *others = self.encode_many(text.split("\n"))
        return [*first, *(id for line in others for id in (self.role("end"), *line))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; special ones are passed over, but the unknown of a closed list is shown."""
        if self.closed:
            spelled, unseen = self._spelled, self.special - {self.unknown}
            return self.between.join([spelled[id] for id in ids if id not in unseen])
        return self._engine.decode(list(ids), skip_special_tokens=True)

    def decode_many(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids; many at once are decoded in parallel."""
        if self.closed:
            return [self.decode(ids) for ids in texts]
        return self._engine.decode_batch([list(ids) for ids in texts], skip_special_tokens=True)

    def decode_lines(self, ids: Sequence[int]) -> str:
        """The text of these ids, a line end for every end token."""
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
        """The characters of a text that are unknown, where characters are a closed list."""
        if not self.closed or self.between:
            return []
        characters = sorted({character for line in text.split("\n") for character in self.how.normal(line)})
        return [
            character
            for character, ids in zip(characters, self.encode_normal(characters), strict=True)
            if ids == [self.unknown]
        ]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as readable text: a leading space stays, part of a character reads <0xE2>, special ones by name."""
        return [self._spelled[id] for id in ids]

    def words(self, ids: Sequence[int], text: str | None = None) -> list[int | None]:
        """Which word of the text each id belongs to, counted from 0; None for special ones.

        Words are runs of letters and digits, joined by apostrophes and hyphens, and runs of punctuation; a piece
        belongs to the word in which its first visible character stands, a piece of mere spaces to the word after it.
        Places are those that the tokenizer noted in the text, or where it is not given, in what the pieces spell.
        In a closed list, every token is a word.
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
        """Ids of each text, and the word that each id belongs to, as `words` counts them; many texts at once.

        `spans` are those of the words of each text, where somebody has looked for them before.
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
        """The same from the places that the tokenizer itself notes; None if these are not the ids of the text."""
        coded = self._engine.encode(text, add_special_tokens=False)
        before = next((n for n in range(len(ids)) if list(ids[n : n + len(coded.ids)]) == coded.ids), None)
        if before is None or not coded.ids:
            return None
        after = len(ids) - before - len(coded.ids)
        return [*[None] * before, *_owners(text, coded.offsets), *[None] * after]

    @cached_property
    def token_bytes(self) -> tuple[bytes | None, ...]:
        """The bytes of text that each token stands for; None for special ones."""
        return tuple(self._bytes.get(id) for id in range(self.vocab))

    @cached_property
    def _characters(self) -> dict[str, int]:
        """The token of each character, where characters are all there is; empty for all other tokenizers."""
        if not self.closed or self.unknown is None or not by_character(self._engine):
            return {}
        names = {id: piece.decode("utf-8", "replace") for id, piece in self._bytes.items() if piece is not None}
        return {name: id for id, name in names.items() if len(name) == 1}


def _check_encodable(text: str) -> str:
    """The text, if it can be written in UTF-8; an error if it cannot."""
    if not text.isascii():
        text.encode()
    return text


def _owners(text: str, spans: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]] | None = None) -> list[int]:
    """The word of a text in which each of these spans begins, or the next one where it begins with a blank."""
    ends = [match.end() for match in WORD.finditer(text)] if words is None else [end for _, end in words]
    ends = ends[:-1]
    return [bisect_right(ends, begin) for begin, _ in spans]


def _check_text(text: str) -> None:
    """Refuse the text of a tokenizer.json that is none, or that the library cannot use without harm."""
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
