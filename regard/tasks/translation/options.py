"""Settings of a translation: beam search, sampling, constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config.ranges import Batch, Count, Length, Part, Positive, Range, Seed, Small, Whole
from regard.data.encodings import encode_text
from regard.tasks.search_options import ForcedOptions, TreeOptions

Copy = Literal["all", "addresses", "none"]


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Beam search or sampling."""

    beams: Small = 4
    """Beam width: hypotheses kept side by side; 1 is greedy."""
    nbest: Small = 1
    """Answers returned per input; at most the beams, and fewer where several are the same text."""
    length_penalty: Annotated[float, Range(-100, 100)] = 1.0
    """Length penalty of beam search: scores are divided by the length to this power; larger prefers longer answers."""
    sample: bool = False
    """Draw tokens at random instead of searching for the likeliest."""
    temperature: Positive = 1.0
    """When sampling: below 1 safer, above 1 wilder."""
    top_k: Count | None = None
    """When sampling: only the k likeliest tokens."""
    top_p: Annotated[float, Range(above=0, most=1)] | None = None
    """When sampling: only the likeliest tokens that together have this probability."""
    min_p: Part | None = None
    """When sampling: only tokens at least this share as likely as the likeliest."""
    seed: Seed = 0
    """When sampling: random seed."""
    prefix: str | tuple[Whole, ...] = ""
    """Text every answer must begin with, or the ids of its tokens."""
    force: tuple[str, ...] = ()
    """Phrases every answer must contain; the text is then translated as one piece."""
    forbid: tuple[str, ...] = ()
    """Phrases no answer may contain as whole words, in small letters or in capitals."""
    no_repeat: Whole = 0
    """Length of token sequences that may not occur twice; 0 allows all."""
    minimum: Annotated[int, Range(0, 2**20)] = 0
    """Fewest tokens of an answer."""
    ratio: Annotated[float, Range(0, 1000)] = 2.0
    """Longest answer, in tokens per token read, ten more always allowed."""
    longest: Length = 128
    """Most tokens translated as one piece; a longer sentence is cut at a comma or a space."""
    tokens: Batch = 4096
    """Tokens decoded side by side, padding and beams included; bounds the memory."""
    split: bool = True
    """Split text into sentences and rejoin the translations."""
    copy: Copy = "addresses"
    """What an answer must copy from the source unchanged: addresses (and placeholders and emoji), all (numbers
    and dates as well) or none; what is missing replaces its counterpart in the answer."""
    replace_unknown: bool = False
    """Write the word of the source that attention looked at most where the model writes <unk>."""
    keep: bool = False
    """Leave a sentence as it is that is already in the target language beyond doubt."""
    truecase: bool = True
    """Read a text in capitals in small letters where its tokenizer knows those better, and answer in capitals."""

    def __post_init__(self) -> None:
        for phrase in self.forbid:
            encode_text(phrase)


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The language of an answer."""

    to: str | None = None
    """Target language, where the model has several; guessed from the text when not given."""


@dataclass(frozen=True, kw_only=True)
class LookOptions(TargetOptions, ForcedOptions):
    """The language of an answer, and its beginning."""


@dataclass(frozen=True, kw_only=True)
class TranslationTreeOptions(TargetOptions, TreeOptions):
    """The language of an answer, and how it is searched for."""


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(TargetOptions, DecodingConfig):
    """Settings of a translation: beam search, sampling, constraints."""


@dataclass(frozen=True, kw_only=True)
class AnswerFileOptions(TargetOptions):
    """How answers in a file are scored."""

    columns: tuple[int, int] | None = None
    """Columns of source and reference in a table of the test pairs."""
    metric: Literal["overlap", "errors"] = "overlap"
    """Overlap with the references (BLEU, chrF, TER), or edits to the nearest one."""
    tokenize: str = "13a"
    """How sacreBLEU cuts texts into words."""
