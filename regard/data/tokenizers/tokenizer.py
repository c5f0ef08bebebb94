"""Texts to numbers and back: byte pairs, unigram, words or characters, as one self-contained tokenizer.json.

Every kind works on the 256 symbols of UTF-8 bytes, all of which are in every vocabulary: a character never seen in
training is written with its bytes, and decoding gives any NFC text back exactly.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.config.expressions import explosive
from regard.config.ranges import Count, Range

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
WORD = re.compile(r"\w+(?:['’-]\w+)*['’]?|[^\w\s]+")
EXCERPT = 1 << 14  # characters of a text that a tokenizer learns from
ENDLESS = re.compile(r"(\w{64})\w{192,}|([^\w\s]{64})[^\w\s]{192,}")  # no words; learning takes their length squared
LARGEST = {"bpe": 32_000, "unigram": 32_000, "words": 32_000, "characters": 8_000}

# Threads of the Rust library do not survive a fork: switched off for the moment of forking, they stay off in the child
# and come back in the parent. Older versions of the library warn on every fork without this.
_PARALLEL = "TOKENIZERS_PARALLELISM"
_before_fork: list[str | None] = []


def _leave_threads() -> None:
    _before_fork.append(os.environ.get(_PARALLEL))
    os.environ[_PARALLEL] = "false"


def _take_threads() -> None:
    value = _before_fork.pop()
    if value is None:
        os.environ.pop(_PARALLEL, None)
    else:
        os.environ[_PARALLEL] = value


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_leave_threads, after_in_parent=_take_threads)


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How a tokenizer is trained from the training texts."""

    kind: Literal["bpe", "unigram", "words", "characters"] = "bpe"
    """What a token is: a piece of a word (bpe, unigram), a word or a character; unseen ones fall back to bytes."""
    vocab: Annotated[int, Range(300, 1_000_000)] | None = None
    """Number of tokens, 256 bytes and the special ones included; null derives it from the amount of text."""
    joint: bool = True
    """One tokenizer for both sides; false trains one for each."""
    target: Literal["bpe", "unigram", "words", "characters"] | None = None
    """What a token of the target is, where it is not as on the source side; needs joint: false."""
    least: Count = 2
    """Times a piece must occur in the texts to become a token."""
    sample: Count = 2_000_000
    """Most pairs read to train it, chosen by content from the whole corpus."""

    def __post_init__(self) -> None:
        if self.target is not None and self.joint:
            raise ValueError(f"target {self.target} needs a tokenizer of its own: set joint: false")


class Tokenizer:
    """A trained tokenizer; ids 0 to 3 are pad, bos, eos and unk, then come language tags, then text."""

    def __init__(self, engine: Engine) -> None:
        engine.encode_special_tokens = True  # "<eos>" typed by somebody is five characters, never a command
        self._engine = engine
        self._names = sorted(engine.get_vocab(with_added_tokens=True).items(), key=lambda entry: entry[1])
        special = {id for id, token in engine.get_added_tokens_decoder().items() if token.special}
        if tuple(name for name, _ in self._names[:4]) != SPECIALS or not special.issuperset(range(4)):
            raise ValueError(
                f"a tokenizer must begin with the special tokens {' '.join(SPECIALS)}: train it with regard"
            )
        if [id for _, id in self._names] != list(range(len(self._names))):
            raise ValueError("a tokenizer must number its tokens without gaps: train it with regard")
        self._bytes = [None if id in special else _bytes(name) for name, id in self._names]
        tags = {match[1]: id for name, id in self._names if id in special and (match := re.fullmatch(r"<2(.+)>", name))}
        self.tags: dict[str, int] = tags
        self.reach = max(len(piece) for piece in self._bytes if piece is not None)
        """Most bytes, and so most characters, that one token can stand for."""

    @classmethod
    def parse(cls, text: str) -> Tokenizer:
        """The tokenizer in the text of a tokenizer.json."""
        try:
            engine = Engine.from_str(text)
        except Exception as error:  # the Rust library raises nothing more exact
            raise ValueError(f"not a tokenizer.json: {' '.join(str(error).split())}") from None
        for pattern in _patterns(json.loads(text)):
            if explosive(pattern):
                raise ValueError(
                    f"tokenizer.json splits texts by {pattern[:60]!r}, which may take exponential time on some of them"
                )
        return cls(engine)

    def json(self) -> str:
        """The text of its tokenizer.json."""
        return self._engine.to_str()

    @property
    def vocab(self) -> int:
        """Number of tokens, special ones included."""
        return len(self._names)

    def tag(self, name: str) -> int:
        """The token that asks for this target language."""
        if name not in self.tags:
            raise ValueError(f"unknown language tag {name!r}: there are {', '.join(self.tags) or 'none'}")
        return self.tags[name]

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without bos, eos or tag."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text; many at once are encoded in parallel."""
        try:
            return [coded.ids for coded in self._engine.encode_batch_fast(list(texts), add_special_tokens=False)]
        except TypeError:
            raise ValueError("a text holds a lone surrogate, which no file can: decode it as UTF-8 first") from None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; special ones are passed over."""
        return self._engine.decode(list(ids), skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as readable text: a leading space stays, part of a character reads <0xE2>, special ones by name."""
        return [name if piece is None else _shown(piece) for name, piece in self._entries(ids)]

    def words(self, ids: Sequence[int]) -> list[int | None]:
        """Which word of the text each id belongs to, counted from 0; None for special ones.

        Words are runs of letters and digits, joined by apostrophes and hyphens, and runs of punctuation; a piece
        belongs to the word in which its first visible character stands, a piece of mere spaces to the word after it.
        """
        pieces = [b"" if piece is None else piece for _, piece in self._entries(ids)]
        text = b"".join(pieces).decode("utf-8", "surrogateescape")  # a broken byte stays one character
        owner: list[int] = []  # of each byte of the text: its word
        found = list(WORD.finditer(text))
        for number, match in enumerate(found):
            end = match.end() if number < len(found) - 1 else len(text)
            begin = found[number - 1].end() if number else 0
            owner += [number] * len(text[begin:end].encode("utf-8", "surrogateescape"))
        result: list[int | None] = []
        start = 0
        for (_, piece), raw in zip(self._entries(ids), pieces, strict=True):
            visible = start + len(raw) - len(raw.lstrip()) if raw.strip() else start
            result.append(None if piece is None else owner[visible] if visible < len(owner) else 0)
            start += len(raw)
        return result

    def _entries(self, ids: Sequence[int]) -> list[tuple[str, bytes | None]]:
        return [(self._names[id][0], self._bytes[id]) for id in ids]


def _patterns(value: Any) -> Iterator[str]:
    """The regular expressions in a tokenizer.json."""
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if name == "Regex" and isinstance(inner, str):
            yield inner
        elif name not in ("vocab", "merges", "added_tokens") and isinstance(inner, dict | list):
            yield from _patterns(inner)


def train(
    texts: Iterable[str], config: TokenizerConfig, *, characters: int | None = None, tags: Iterable[str] = ()
) -> Tokenizer:
    """A tokenizer of these texts, the same to the byte for the same texts in any order.

    `characters`, the amount of text it will serve, decides its size where the config does not.
    """
    texts = map(excerpt, texts)
    special = [*SPECIALS, *(f"<2{tag}>" for tag in sorted(tags))]
    size = config.vocab or derived(config.kind, characters or 0)
    if config.kind == "bpe":
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=config.least,
            special_tokens=special,
            initial_alphabet=sorted(BYTES),
            show_progress=False,
        )
        engine = _engine(models.BPE(), config.kind)
        engine.train_from_iterator(texts, trainer)
    elif config.kind == "unigram":
        engine = _engine(_unigram(texts, size, special), config.kind)
    else:
        engine = _engine(_listed(texts, size, special, config), config.kind)
    engine.add_special_tokens(special)
    return Tokenizer(engine)


def excerpt(text: str) -> str:
    """What is learnt from a text: its beginning, and the beginning of what cannot be a word."""
    return ENDLESS.sub(r"\1\2", text[:EXCERPT]) if len(text) >= 256 else text


def derived(kind: str, characters: int) -> int:
    """A vocabulary for this many characters of text: about 2,000 for a phrase book, 32,000 for a parliament."""
    if kind in ("words", "characters"):
        return LARGEST[kind]
    return min(LARGEST[kind], max(512, 8 * round(2.5 * math.sqrt(characters) / 8)))


def _engine(model: models.Model, kind: str) -> Engine:
    """The shell around every model: NFC, a space in front so that words look alike everywhere, bytes as symbols."""
    engine = Engine(model)
    symbols = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind != "characters")
    if kind == "characters":
        engine.normalizer = normalizers.NFC()
        engine.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), symbols]  # type: ignore[arg-type]
        )
        engine.decoder = decoders.ByteLevel()
    else:
        engine.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
        engine.pre_tokenizer = symbols
        engine.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return engine


def _listed(texts: Iterable[str], size: int, special: list[str], config: TokenizerConfig) -> models.BPE:
    """Whole words or characters from a list; the byte pair model without merges spells all others in bytes."""
    room = size - len(special) - len(BYTES)
    counter = _engine(models.WordLevel(unk_token="<unk>"), config.kind)
    trainer = trainers.WordLevelTrainer(
        vocab_size=max(room, 0) + len(BYTES), min_frequency=config.least, special_tokens=[], show_progress=False
    )
    counter.train_from_iterator(texts, trainer)
    known = counter.get_vocab()
    frequent = sorted(known, key=known.__getitem__)
    names = [*special, *BYTES, *[name for name in frequent if name not in BYTES][:room]]
    vocab = {name: id for id, name in enumerate(names)}
    return models.BPE(vocab=vocab, merges=[], ignore_merges=True)


def _unigram(texts: Iterable[str], size: int, special: list[str]) -> models.Unigram:
    """A unigram model whose scores no longer depend on the order in which a hash table was walked.

    The trainer sums in arbitrary order and gives bytes it has not kept arbitrary low scores: we round the former and
    level the latter.
    """
    engine = _engine(models.Unigram(), "unigram")
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token="<unk>", initial_alphabet=sorted(BYTES), show_progress=False
    )
    engine.train_from_iterator(texts, trainer)
    trained = json.loads(engine.to_str())["model"]["vocab"]
    scores = {name: round(score, 4) for name, score in trained if name not in special}
    lowest = min((score for name, score in scores.items() if name not in BYTES), default=0.0)
    for name in BYTES:
        if scores[name] < lowest + 0.05:
            scores[name] = round(lowest - 1, 4)
    ordered = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return models.Unigram([(name, 0.0) for name in special] + ordered, unk_id=UNK, byte_fallback=False)


def _symbols() -> dict[str, int]:
    """The printable character that stands for each byte, as in GPT-2."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTES = _symbols()


def _bytes(name: str) -> bytes:
    return b"".join(bytes([BYTES[symbol]]) if symbol in BYTES else symbol.encode() for symbol in name)


def _shown(piece: bytes) -> str:
    text = piece.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda match: f"<0x{ord(match[0]) - 0xDC00:02X}>", text)
