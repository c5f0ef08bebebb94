"""Running text as one long stream of tokens, cached by content, and cut into lanes that are read side by side.

Only `\\n` ends a line; a bad line is left out, counted, and remembered by its place.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BufferedIOBase, BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers as library
from jaxtyping import Int

from regard.config.ranges import Batch, Length, Part, Share
from regard.config.resuming import Fixed, Free, Warned
from regard.data import cache
from regard.data.encodings import locate
from regard.data.examples import Splits
from regard.data.line_report import NOT_UTF8, LineReport
from regard.data.readers import JSON_SUFFIXES, LONGEST_TEXT, Refusal, TextFile, digest, lines, parsed, suffix, text_at
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import UnitsConfig

BLOCK = 1 << 13  # lines tokenised at a time
INLINE = "data.text"


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Where running text comes from, and how it is laid out."""

    train: tuple[TextFile, ...] = ()
    """Files to train on, read as one; a single one may be written without a list."""
    valid: tuple[TextFile, ...] = ()
    """Validation files; none: the end of the text is held out."""
    text: str | None = None
    """The text itself, in place of files."""
    held: Share = 0.1
    """Share of the characters, at the end, held out when valid names no file; 0 measures on the training text."""
    lanes: Fixed[Batch] = 32
    """Parts of the text that are read side by side."""
    window: Warned[Length] = 128
    """Tokens of every lane in a step; gradients reach no further back, the state does."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if bool(self.train) == (self.text is not None):
            raise ValueError("give either train, with at least one file, or text")


class Window(NamedTuple):
    """What all lanes read in a step, and the tokens that follow."""

    inputs: Int[np.ndarray, "lanes time"]
    labels: Int[np.ndarray, "lanes time"]


@dataclass(frozen=True)
class Stream:
    """A text as tokens; every one of them is predicted once, the first from a line end."""

    tokens: Int[np.ndarray, "token"]
    characters: int
    words: int
    """What stands between blanks, and line ends."""
    before: int
    """The token from which the first one is predicted: that of a line end."""
    unknown: int = 0
    bytes: int = 0
    """Of the text in UTF-8."""

    def span(self, first: int, last: int) -> Window:
        """The tokens from the first up to the last as the only lane, with those before them."""
        labels = np.array(self.tokens[first:last], np.int64)
        before = self.before if first == 0 else self.tokens[first - 1]
        return Window(np.concatenate([[before], labels[:-1]])[None], labels[None])


@dataclass(frozen=True)
class Lanes:
    """A stream in equal parts, one below the other, walked over window by window.

    Row g of training is window g of every lane, and the next row goes on where it ends; after the last row of an epoch
    comes the first one again. The rest of a division is never read.
    """

    stream: Stream
    lanes: int
    window: int

    @property
    def length(self) -> int:
        """Tokens of a lane."""
        return len(self.stream.tokens) // self.lanes

    @property
    def rows(self) -> int:
        """Rows of an epoch; the last one may be shorter."""
        return -(-self.length // self.window)

    def row(self, number: int) -> Window:
        """The tokens of a row, whatever the epoch."""
        first = number % self.rows * self.window
        last = min(first + self.window, self.length)
        spans = [self.stream.span(lane * self.length + first, lane * self.length + last) for lane in range(self.lanes)]
        return Window(*(np.concatenate(parts) for parts in zip(*spans, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Texts(Splits[Stream, Stream]):
    """Texts as tokens, and the tokenizer."""

    tokenizer: Tokenizer


def prepare(config: StreamConfig, how: UnitsConfig, known: Tokenizer | None = None) -> Texts:
    """Read and tokenise the files, or find them in the cache; `known` units are used as they are."""
    names = [file.path for file in (*config.train, *config.valid)]
    stamps = {name: _stamp(name) for name in names}
    digests = {name: digest(name) for name in names}
    contents: dict[str, Any] = {
        "files": [[digests[file.path] for file in group] for group in (config.train, config.valid)],
        "text": config.text,
        "held": None if config.valid else config.held,
    }
    if fields := [file.field for file in (*config.train, *config.valid) if suffix(file.path) in JSON_SUFFIXES]:
        contents["fields"] = fields
    cut = {**asdict(how), "library": library.__version__} if known is None else [known.how.normalise, known.json()]
    key = cache.key(stream=2, units=cut, **contents)

    def build(place: Path) -> None:
        _build(config, how, known, place)
        for name, stamp in stamps.items():
            if _stamp(name) != stamp:
                raise ValueError(f"{name} changed while it was read: start again once it is complete")

    made = cache.entry(cache.folder(), f"stream-{key}", build)
    place = made.place
    found = json.loads((place / "numbers.json").read_text(encoding="utf-8"))
    own = Tokenizer.parse((place / "tokenizer.json").read_text(encoding="utf-8"), known.how if known else how)
    parts = {
        name: Stream(_mapped(place / f"{name}.bin"), **found[name], before=own.role("end"))
        for name in ("train", "valid")
    }
    report: dict[str, Any] = {"vocab": own.vocab}
    summary = list(made.notes)
    for name, group in (("train", config.train), ("valid", config.valid)):
        tally = LineReport.parse(found["tallies"][name])
        _check(config, tally, group)
        named = [file.path for file in group] or [INLINE]
        corpora = [{**tally.report(named), "sha256": [digests[file.path] for file in group]}]
        marks = {"fingerprint": cache.key(part=name, **contents), "corpora": corpora}
        report[name] = {**marks, "tokens": len(parts[name].tokens), **found[name]}
        summary += tally.lines(named, unit="line") if tally.read else []
    summary.append(_said(own, **parts))
    return Texts(tokenizer=own, train=parts["train"], valid=parts["valid"], report=report, summary=summary)


def read(name: str, own: Tokenizer, *, reject: float = 0.01) -> Stream:
    """A file as tokens of units that are known, held in memory and not cached."""
    tally, flat = LineReport(), BytesIO()
    read = map(own.how.normal, _lines([_numbered(TextFile(path=name))], tally))
    found = _encode(((text, True) for text in read), own, flat)
    tally.check(reject, [name], unit="line", remedy="")
    return Stream(np.frombuffer(flat.getvalue(), np.int32), **found, before=own.role("end"))


def _build(config: StreamConfig, how: UnitsConfig, known: Tokenizer | None, place: Path) -> None:
    """Count, cut, learn the units from what is learnt from, and write everything as numbers."""
    tallies = {"train": LineReport(), "valid": LineReport()}
    normal = known.how.normal if known else how.normal
    total = sum(len(text) + 1 for text in _texts(config, config.train, tallies["train"], normal))
    more = sum(len(text) + 1 for text in _texts(config, config.valid, tallies["valid"], normal)) if config.valid else 0
    for name, group in (("train", config.train), ("valid", config.valid)):
        _check(config, tallies[name], group)
    cut = total if config.valid else int(total * (1 - config.held))
    other = (config.valid, 0, more) if config.valid else (config.train, cut if config.held else 0, total)
    if not cut or other[1] == other[2]:
        raise ValueError(f"the text has {total} characters, of which none is left for training or for validation")
    learnt = (text for text, _ in _between(_texts(config, config.train, LineReport(), normal), 0, cut))
    own = known or units.train(learnt, how, characters=cut)
    numbers: dict[str, Any] = {}
    for name, (group, first, last) in {"train": (config.train, 0, cut), "valid": other}.items():
        pieces = _between(_texts(config, group, LineReport(), normal), first, last)
        with (place / f"{name}.bin").open("wb") as file:
            numbers[name] = _encode(pieces, own, file)
    numbers["tallies"] = {name: tally.plain() for name, tally in tallies.items()}
    (place / "numbers.json").write_text(json.dumps(numbers), encoding="utf-8")
    (place / "tokenizer.json").write_text(own.json(), encoding="utf-8")


def _check(config: StreamConfig, tally: LineReport, group: Sequence[TextFile]) -> None:
    if group or tally.read:
        tally.check(config.reject, [file.path for file in group] or [INLINE], unit="line")


def _texts(
    config: StreamConfig, files: Sequence[TextFile], tally: LineReport, normal: Callable[[str], str]
) -> Iterator[str]:
    """The good lines of these files, or of the text that stands in the recipe, normalised."""
    if config.text is None or files:
        return map(normal, _lines(map(_numbered, files), tally))
    inline = (line.encode() for line in config.text.removesuffix("\n").split("\n"))
    return map(normal, _lines([enumerate(inline, start=1)], tally))


def _numbered(file: TextFile) -> Iterator[tuple[int, bytes | str | None]]:
    """The lines of a file with their numbers; of JSON lines, those of each text, or the reason why there is none."""
    numbered = enumerate(lines(file.path, longest=LONGEST_TEXT), start=1)
    if suffix(file.path) not in JSON_SUFFIXES:
        yield from numbered
        return
    for number, line in numbered:
        try:
            text = None if line is None else text_at(parsed(line.decode("utf-8", errors="replace")), file.field)
        except Refusal as refusal:
            yield number, refusal.reason
        else:
            yield from ((number, part) for part in (text.encode().split(b"\n") if text is not None else [None]))


def _lines(sources: Iterable[Iterable[tuple[int, bytes | str | None]]], tally: LineReport) -> Iterator[str]:
    """The good lines of all files, without their ends."""
    for file, source in enumerate(sources):
        for number, line in source:
            tally.read += 1
            try:
                if not isinstance(line, bytes) or b"\0" in line:
                    reason = "too long" if line is None else "with a NUL character"
                    tally.refuse(line if isinstance(line, str) else reason, file, number)
                    continue
                yield unicodedata.normalize("NFC", line.decode("utf-8"))
                tally.kept += 1
            except UnicodeDecodeError:
                tally.refuse(NOT_UTF8, file, number)


def _between(texts: Iterable[str], first: int, last: int) -> Iterator[tuple[str, bool]]:
    """What lies between two places of the text, counted in characters: lines, and whether the end of each is in."""
    begin = 0
    for text in texts:
        end = begin + len(text) + 1
        if begin >= last:
            return
        if end > first:
            part = text[max(first - begin, 0) : last - begin]
            yield part, end <= last
        begin = end


def _encode(pieces: Iterator[tuple[str, bool]], own: Tokenizer, file: BufferedIOBase) -> dict[str, int]:
    """Tokens to a file; how much text they are."""
    found, end = {"characters": 0, "words": 0, "bytes": 0, "unknown": 0}, own.role("end")
    while block := list(islice(pieces, BLOCK)):
        for (text, ended), tokens in zip(block, own.encode_normal([text for text, _ in block]), strict=True):
            found["characters"] += len(text) + ended
            found["words"] += len(text.split()) + ended
            found["bytes"] += len(text.encode()) + ended
            found["unknown"] += sum(token == own.unknown for token in tokens)
            file.write(np.array([*tokens, *[end] * ended], np.int32).tobytes())
    return found


def _said(own: Tokenizer, train: Stream, valid: Stream) -> str:
    """The sizes in words."""
    sizes = f"{len(train.tokens):,} tokens to train on, {len(valid.tokens):,} held out"
    strange = f", of which {valid.unknown:,} are <unk>" if own.closed and valid.unknown else ""
    return f"{sizes}{strange}, {own.vocab:,} different ones"


def _mapped(path: Path) -> Int[np.ndarray, "token"]:
    size = path.stat().st_size // 4
    return np.memmap(path, np.int32, "r", shape=(size,)) if size else np.zeros(0, np.int32)


def _stamp(name: str) -> tuple[int, int]:
    stat = locate(name).stat()
    return stat.st_size, stat.st_mtime_ns
