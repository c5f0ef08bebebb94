"""Training of tokenizers: BPE, unigram, whole words or characters, reproducible to the byte."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.config.ranges import Count, Range
from regard.data.normalise import TextConfig
from regard.data.roles import BYTES, SPECIALS
from regard.data.tokenizers.tokenizer import Tokenizer

EXCERPT = 1 << 14  # characters of a text that are used for training
ENDLESS = re.compile(r"(\w{64})\w{192,}|([^\w\s]{64})[^\w\s]{192,}")  # no words; they take quadratic time
LARGEST = {"bpe": 32_000, "unigram": 32_000, "words": 32_000, "characters": 8_000}


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(TextConfig):
    """The training of a tokenizer on the training texts."""

    kind: Literal["characters", "words", "bpe", "unigram"] = "bpe"
    """What a token is: a piece of a word (bpe, unigram), a word or a character; unseen ones fall back to bytes."""
    spell: bool = True
    """Whether unseen words are spelled in bytes; false, for words (whatever is between blanks), makes them <unk>."""
    vocab: Annotated[int, Range(300, 1_000_000)] | None = None
    """Number of tokens, 256 bytes and the special ones included; null derives it from the amount of text."""
    joint: bool = True
    """One tokenizer for both sides; false trains one for each."""
    target: Literal["characters", "words", "bpe", "unigram"] | None = None
    """What a token of the target is, where it is not as on the source side; needs joint: false."""
    min_frequency: Count = 2
    """Times a piece must occur in the texts to become a token."""
    sample: Count = 2_000_000
    """Most pairs read to train it, chosen by content from the whole corpus."""

    def __post_init__(self) -> None:
        if self.target is not None and self.joint:
            raise ValueError(f"target {self.target} needs a tokenizer of its own: set joint: false")
        if not self.spell and {self.kind, self.target or self.kind} != {"words"}:
            raise ValueError("spell: false is for words: set kind: words, for the target too")


def train(
    texts: Iterable[str],
    config: TokenizerConfig,
    *,
    characters: int | None = None,
    tags: Iterable[str] = (),
    special: Iterable[str] = (),
) -> Tokenizer:
    """Train a tokenizer on normalised texts; the result does not depend on their order.

    `characters`, the size of the corpus, decides the vocabulary size if the config does not; `special` names further
    special tokens.
    """
    texts = map(excerpt, texts)
    special = [*SPECIALS, *(f"<2{tag}>" for tag in sorted(tags)), *special]
    size = config.vocab or default_vocab_size(config.kind, characters or 0)
    if config.kind == "bpe":
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=config.min_frequency,
            special_tokens=special,
            initial_alphabet=sorted(BYTES),
            show_progress=False,
        )
        engine = _engine(models.BPE(), config.kind)
        engine.train_from_iterator(texts, trainer)
    elif config.kind == "unigram":
        engine = _engine(_unigram(texts, size, special), config.kind)
    else:
        engine = _engine(_list_model(texts, size, special, config), config.kind)
    engine.add_special_tokens(special)
    return Tokenizer(engine, config)


def excerpt(text: str) -> str:
    """Return the part of a text to train on: its beginning, with overlong runs cut."""
    return ENDLESS.sub(r"\1\2", text[:EXCERPT]) if len(text) >= 256 else text


def default_vocab_size(kind: str, characters: int) -> int:
    """Return the vocabulary size for this many characters: about 2,000 for a phrase book, 32,000 for a parliament."""
    if kind in ("words", "characters"):
        return LARGEST[kind]
    return min(LARGEST[kind], max(512, 8 * round(2.5 * math.sqrt(characters) / 8)))


def _engine(model: models.Model, kind: str) -> Engine:
    """Wrap a model: NFC, a space in front so that words are encoded alike everywhere, byte symbols."""
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


def _list_model(texts: Iterable[str], size: int, special: list[str], config: TokenizerConfig) -> models.BPE:
    """Return a model of whole words or characters; a BPE model without merges spells all others in bytes."""
    room = size - len(special) - len(BYTES)
    counter = _engine(models.WordLevel(unk_token="<unk>"), config.kind)
    trainer = trainers.WordLevelTrainer(
        vocab_size=max(room, 0) + len(BYTES), min_frequency=config.min_frequency, special_tokens=[], show_progress=False
    )
    counter.train_from_iterator(texts, trainer)
    counts = counter.get_vocab()
    frequent = sorted(counts, key=counts.__getitem__)
    names = [*special, *BYTES, *[name for name in frequent if name not in BYTES][:room]]
    vocab = {name: id for id, name in enumerate(names)}
    return models.BPE(vocab=vocab, merges=[], ignore_merges=True)


def _unigram(texts: Iterable[str], size: int, special: list[str]) -> models.Unigram:
    """Return a unigram model whose scores do not depend on the iteration order of a hash table.

    The trainer sums in arbitrary order and gives unused bytes arbitrary low scores: the former are rounded, the latter
    made equal.
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
    return models.Unigram(
        [(name, 0.0) for name in special] + ordered, unk_id=special.index("<unk>"), byte_fallback=False
    )
