"""What a running text is made of, for models that write: characters, words, or pieces of words, and line ends.

A line end is the token <eos>, whatever the unit. Characters and words are a closed list, those of the training text;
any other is <unk>.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.config.ranges import Count, Range
from regard.data import tokenizers
from regard.data.tokenizers import EOS, SPECIALS, UNK, Tokenizer, TokenizerConfig

Kind = Literal["characters", "words", "bpe", "unigram"]
CLOSED = ("characters", "words")
LARGEST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class UnitsConfig:
    """What a token of a running text is."""

    kind: Kind = "characters"
    """A character, a word (whatever stands between blanks), or a piece of a word (bpe, unigram)."""
    vocab: Annotated[int, Range(len(SPECIALS) + 1, LARGEST)] | None = None
    """Most tokens; null takes all characters or words, and as many pieces as the amount of text suggests."""
    least: Count = 1
    """Times a character, word or piece must occur in the text to become a token."""

    def __post_init__(self) -> None:
        if self.vocab is not None and self.vocab < 300 and self.kind not in CLOSED:
            raise ValueError(f"vocab must be at least 300 for {self.kind}, 256 bytes and some more, not {self.vocab}")


class Units:
    """Text to tokens and back, line by line."""

    def __init__(self, tokenizer: Tokenizer, kind: Kind) -> None:
        self.tokenizer, self.kind = tokenizer, kind

    @classmethod
    def parse(cls, text: str, kind: Kind) -> Units:
        """Those in the text of a tokenizer.json."""
        return cls(Tokenizer.parse(text), kind)

    @property
    def vocab(self) -> int:
        """Number of tokens, special ones included."""
        return self.tokenizer.vocab

    def lines(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each line, without its end; an empty line has none."""
        found = iter(self.tokenizer.encode_many([text for text in texts if text]))
        return [next(found) if text else [] for text in texts]

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, with <eos> for every line end."""
        first, *others = self.lines(text.split("\n"))
        return [*first, *(token for line in others for token in (EOS, *line))]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of these tokens; what was not known reads <unk>."""
        lines: list[list[int]] = [[]]
        for token in tokens:
            if token == EOS:
                lines.append([])
            else:
                lines[-1].append(token)
        return "\n".join(map(self._line, lines))

    def strange(self, text: str) -> list[str]:
        """The characters of a text that are none of those known; other units have none to complain of."""
        if self.kind != "characters":
            return []
        return sorted(
            {
                each
                for each in unicodedata.normalize("NFC", text)
                if each != "\n" and self.tokenizer.encode(each) == [UNK]
            }
        )

    def _line(self, tokens: Sequence[int]) -> str:
        if self.kind in CLOSED:
            return (" " if self.kind == "words" else "").join(self.tokenizer.pieces(tokens))
        return self.tokenizer.decode(tokens)


def train(lines: Iterable[str], config: UnitsConfig, *, characters: int) -> Units:
    """The units of these lines, the same for the same lines; `characters` says how much text there is."""
    if config.kind not in CLOSED:
        pieces = TokenizerConfig(kind=config.kind, vocab=config.vocab, least=config.least)
        return Units(tokenizers.train(lines, pieces, characters=characters), config.kind)
    counter = _engine(models.WordLevel(unk_token=SPECIALS[UNK]), config.kind)
    trainer = trainers.WordLevelTrainer(
        vocab_size=LARGEST, min_frequency=config.least, special_tokens=[], show_progress=False
    )
    counter.train_from_iterator(lines, trainer)
    known = counter.get_vocab()
    frequent = [name for name in sorted(known, key=known.__getitem__) if name not in SPECIALS]
    if not frequent:
        raise ValueError(f"the text has no {config.kind} that occur {config.least} times or more: add text")
    names = [*SPECIALS, *frequent[: (config.vocab or LARGEST) - len(SPECIALS)]]
    vocab = {name: number for number, name in enumerate(names)}
    engine = _engine(models.WordLevel(vocab, unk_token=SPECIALS[UNK]), config.kind)
    engine.add_special_tokens(list(SPECIALS))
    return Units(Tokenizer(engine), config.kind)


def _engine(model: models.Model, kind: Kind) -> Engine:
    """NFC, one symbol for every byte as in all our tokenizers, and a cut between any two characters or at blanks."""
    engine = Engine(model)
    engine.normalizer = normalizers.NFC()
    cut = (
        pre_tokenizers.WhitespaceSplit() if kind == "words" else pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")  # type: ignore[arg-type]
    )
    symbols = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    engine.pre_tokenizer = pre_tokenizers.Sequence([cut, symbols])  # type: ignore[assignment,list-item]
    return engine
