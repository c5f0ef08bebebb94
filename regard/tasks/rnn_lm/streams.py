"""Running text as one long stream of tokens, cached by content, and split into lanes that are read side by side.

Only `\\n` ends a line; a bad line is left out, counted, and reported with its place.
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

from regard.config.former_names import restore_former_names
from regard.config.ranges import Batch, Length, Part, Share
from regard.config.resuming import Fixed, Free, Warned
from regard.data import cache
from regard.data.encodings import find_file
from regard.data.examples import Splits
from regard.data.line_report import NOT_UTF8, LineReport
from regard.data.readers import (
    JSON_SUFFIXES,
    LONGEST_TEXT,
    Refusal,
    TextFile,
    digest,
    lines,
    parse_json_line,
    suffix,
    text_at,
)
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import UnitsConfig

BLOCK = 1 << 13  # lines tokenised at a time
INLINE = "data.text"


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """The running text to train on, and how it is batched."""

    train: tuple[TextFile, ...] = ()
    """Files to train on, read as one; a single one may be written without a list."""
    valid: tuple[TextFile, ...] = ()
    """Validation files; none: the end of the text is held out."""
    text: str | None = None
    """The text itself, in place of files."""
    validation_share: Share = 0.1
    """Share of the characters, at the end, held out when valid names no file; 0 measures on the training text."""
    batch_size: Fixed[Batch] = 32
    """Parts of the text that are read side by side."""
    window: Warned[Length] = 128
    """Tokens of every lane in a step; gradients reach no further back, the state does."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if bool(self.train) == (self.text is not None):
            raise ValueError("give either train, with at least one file, or text")


class Window(NamedTuple):
    """The inputs of all lanes in a step, and the next tokens."""

    inputs: Int[np.ndarray, "lanes time"]
    labels: Int[np.ndarray, "lanes time"]


@dataclass(frozen=True)
class Stream:
    """A text as tokens; each is predicted once, the first one from a line end."""

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
        """Return the tokens from `first` up to `last` as a single lane, with the tokens before them as inputs."""
        labels = np.array(self.tokens[first:last], np.int64)
        before = self.before if first == 0 else self.tokens[first - 1]
        return Window(np.concatenate([[before], labels[:-1]])[None], labels[None])


@dataclass(frozen=True)
class Lanes:
    """A stream in equal parts, which are read side by side, window by window.

    Row g of training is window g of every lane, and the next row continues where it ends; after the last row of an
    epoch comes the first one again. The remainder of the division is never read.
    """

    stream: Stream
    lanes: int
    window: int

    @property
    def length(self) -> int:
        """Return the number of tokens of a lane."""
        return len(self.stream.tokens) // self.lanes

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch; the last one may be shorter."""
        return -(-self.length // self.window)

    def row(self, number: int) -> Window:
        """Return the tokens of a row; rows count on across epochs."""
        first = number % self.rows * self.window
        last = min(first + self.window, self.length)
        spans = [self.stream.span(lane * self.length + first, lane * self.length + last) for lane in range(self.lanes)]
        return Window(*(np.concatenate(parts) for parts in zip(*spans, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Texts(Splits[Stream, Stream]):
    """Training and validation texts as tokens, and the tokenizer."""

    tokenizer: Tokenizer


def prepare(config: StreamConfig, how: UnitsConfig, parent_tokenizer: Tokenizer | None = None) -> Texts:
    """Read and tokenise the files, or load them from the cache; the tokenizer of a parent model is used unchanged."""
    names = [file.path for file in (*config.train, *config.valid)]
    stamps = {name: _file_stamp(name) for name in names}
    digests = {name: digest(name) for name in names}
    contents: dict[str, Any] = {
        "files": [[digests[file.path] for file in group] for group in (config.train, config.valid)],
        "text": config.text,
        "held": None if config.valid else config.validation_share,
    }
    if fields := [file.field for file in (*config.train, *config.valid) if suffix(file.path) in JSON_SUFFIXES]:
        contents["fields"] = fields
    cut = (
        {**restore_former_names(asdict(how), where="tokenizer"), "library": library.__version__}
        if parent_tokenizer is None
        else [parent_tokenizer.how.normalise, parent_tokenizer.json()]
    )
    key = cache.key(stream=2, units=cut, **contents)

    def build(folder: Path) -> None:
        _build_cache(config, how, parent_tokenizer, folder)
        for name, stamp in stamps.items():
            if _file_stamp(name) != stamp:
                raise ValueError(f"{name} changed while it was read: start again once it is complete")

    cached = cache.ensure_entry(cache.cache_folder(), f"stream-{key}", build)
    place = cached.place
    numbers = json.loads((place / "numbers.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.parse(
        (place / "tokenizer.json").read_text(encoding="utf-8"), parent_tokenizer.how if parent_tokenizer else how
    )
    parts = {
        name: Stream(_map_tokens(place / f"{name}.bin"), **numbers[name], before=tokenizer.role("end"))
        for name in ("train", "valid")
    }
    report: dict[str, Any] = {"vocab": tokenizer.vocab}
    summary = list(cached.notes)
    for name, group in (("train", config.train), ("valid", config.valid)):
        tally = LineReport.parse(numbers["tallies"][name])
        _check_rejects(config, tally, group)
        paths = [file.path for file in group] or [INLINE]
        corpora = [{**tally.report(paths), "sha256": [digests[file.path] for file in group]}]
        marks = {"fingerprint": cache.key(part=name, **contents), "corpora": corpora}
        report[name] = {**marks, "tokens": len(parts[name].tokens), **numbers[name]}
        summary += tally.lines(paths, unit="line") if tally.read else []
    summary.append(_describe_sizes(tokenizer, **parts))
    return Texts(tokenizer=tokenizer, train=parts["train"], valid=parts["valid"], report=report, summary=summary)


def read(name: str, tokenizer: Tokenizer, *, reject: float = 0.01) -> Stream:
    """Read a file with a given tokenizer, in memory and uncached."""
    tally, flat = LineReport(), BytesIO()
    read = map(tokenizer.how.normal, _iterate_valid_lines([_number_lines(TextFile(path=name))], tally))
    counts = _encode(((text, True) for text in read), tokenizer, flat)
    tally.check(reject, [name], unit="line", remedy="")
    return Stream(np.frombuffer(flat.getvalue(), np.int32), **counts, before=tokenizer.role("end"))


def _build_cache(config: StreamConfig, how: UnitsConfig, parent_tokenizer: Tokenizer | None, place: Path) -> None:
    """Count the text, split it, train the tokenizer on the training part, and write all tokens."""
    tallies = {"train": LineReport(), "valid": LineReport()}
    normal = parent_tokenizer.how.normal if parent_tokenizer else how.normal
    total = sum(len(text) + 1 for text in _iterate_texts(config, config.train, tallies["train"], normal))
    valid_total = (
        sum(len(text) + 1 for text in _iterate_texts(config, config.valid, tallies["valid"], normal))
        if config.valid
        else 0
    )
    for name, group in (("train", config.train), ("valid", config.valid)):
        _check_rejects(config, tallies[name], group)
    cut = total if config.valid else int(total * (1 - config.validation_share))
    other = (
        (config.valid, 0, valid_total) if config.valid else (config.train, cut if config.validation_share else 0, total)
    )
    if not cut or other[1] == other[2]:
        raise ValueError(f"the text has {total} characters, of which none is left for training or for validation")
    training_lines = (
        text for text, _ in _slice_by_characters(_iterate_texts(config, config.train, LineReport(), normal), 0, cut)
    )
    tokenizer = parent_tokenizer or units.train(training_lines, how, characters=cut)
    numbers: dict[str, Any] = {}
    for name, (group, first, last) in {"train": (config.train, 0, cut), "valid": other}.items():
        pieces = _slice_by_characters(_iterate_texts(config, group, LineReport(), normal), first, last)
        with (place / f"{name}.bin").open("wb") as file:
            numbers[name] = _encode(pieces, tokenizer, file)
    numbers["tallies"] = {name: tally.plain() for name, tally in tallies.items()}
    (place / "numbers.json").write_text(json.dumps(numbers), encoding="utf-8")
    (place / "tokenizer.json").write_text(tokenizer.json(), encoding="utf-8")


def _check_rejects(config: StreamConfig, tally: LineReport, group: Sequence[TextFile]) -> None:
    if group or tally.read:
        tally.check(config.reject, [file.path for file in group] or [INLINE], unit="line")


def _iterate_texts(
    config: StreamConfig, files: Sequence[TextFile], tally: LineReport, normal: Callable[[str], str]
) -> Iterator[str]:
    """Yield the good lines of these files, or of the text in the recipe, normalised."""
    if config.text is None or files:
        return map(normal, _iterate_valid_lines(map(_number_lines, files), tally))
    inline = (line.encode() for line in config.text.removesuffix("\n").split("\n"))
    return map(normal, _iterate_valid_lines([enumerate(inline, start=1)], tally))


def _number_lines(file: TextFile) -> Iterator[tuple[int, bytes | str | None]]:
    """Yield the lines of a file with their numbers; for JSON lines, those of each text, or why it has none."""
    numbered = enumerate(lines(file.path, longest=LONGEST_TEXT), start=1)
    if suffix(file.path) not in JSON_SUFFIXES:
        yield from numbered
        return
    for number, line in numbered:
        try:
            text = (
                None if line is None else text_at(parse_json_line(line.decode("utf-8", errors="replace")), file.field)
            )
        except Refusal as refusal:
            yield number, refusal.reason
        else:
            yield from ((number, part) for part in (text.encode().split(b"\n") if text is not None else [None]))


def _iterate_valid_lines(
    sources: Iterable[Iterable[tuple[int, bytes | str | None]]], tally: LineReport
) -> Iterator[str]:
    """Yield the good lines of all files, without their ends."""
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


def _slice_by_characters(texts: Iterable[str], first: int, last: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines between two positions in characters, and whether the end of each is included."""
    begin = 0
    for text in texts:
        end = begin + len(text) + 1
        if begin >= last:
            return
        if end > first:
            part = text[max(first - begin, 0) : last - begin]
            yield part, end <= last
        begin = end


def _encode(pieces: Iterator[tuple[str, bool]], tokenizer: Tokenizer, file: BufferedIOBase) -> dict[str, int]:
    """Write tokens to a file, and return the amount of text."""
    counts, end = {"characters": 0, "words": 0, "bytes": 0, "unknown": 0}, tokenizer.role("end")
    while block := list(islice(pieces, BLOCK)):
        for (text, ended), tokens in zip(block, tokenizer.encode_normal([text for text, _ in block]), strict=True):
            counts["characters"] += len(text) + ended
            counts["words"] += len(text.split()) + ended
            counts["bytes"] += len(text.encode()) + ended
            counts["unknown"] += sum(token == tokenizer.unknown for token in tokens)
            file.write(np.array([*tokens, *[end] * ended], np.int32).tobytes())
    return counts


def _describe_sizes(tokenizer: Tokenizer, train: Stream, valid: Stream) -> str:
    """Describe the sizes of both sets."""
    sizes = f"{len(train.tokens):,} tokens to train on, {len(valid.tokens):,} held out"
    unknown_note = f", of which {valid.unknown:,} are <unk>" if tokenizer.closed and valid.unknown else ""
    return f"{sizes}{unknown_note}, {tokenizer.vocab:,} different ones"


def _map_tokens(path: Path) -> Int[np.ndarray, "token"]:
    size = path.stat().st_size // 4
    return np.memmap(path, np.int32, "r", shape=(size,)) if size else np.zeros(0, np.int32)


def _file_stamp(name: str) -> tuple[int, int]:
    stat = find_file(name).stat()
    return stat.st_size, stat.st_mtime_ns
