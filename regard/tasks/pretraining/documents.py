"""Documents read as a stream: text files, folders of them, JSON lines, gzipped or not.

A file of plain text is one document unless the settings say that each line, or each block between blank lines, is one;
a record of JSON lines always is, and so is a pair of texts. Only a part of a document is held in memory, but a line is
held whole. A bad line is left out of its document, counted, and reported with its place.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from regard.config.ranges import Batch, Length, Part, Share
from regard.config.resuming import Free, Warned
from regard.data.encodings import find_path
from regard.data.line_report import NOT_UTF8, LineReport
from regard.data.readers import JSON_SUFFIXES, Corpus, Refusal, TextFile, lines, parse_json_line, suffix, text_at
from regard.data.readers import pairs as pairs_of

ENDINGS = (".txt", ".text", ".md", ".rst", ".tex", ".jsonl", ".ndjson")
"""How files of a folder are named that are read, `.gz` after it or not; a file that is named itself always is."""
LONGEST = 1 << 27  # bytes of a line or record; a longer one is skipped without being held in memory
BLOCK = 1 << 16  # characters of a document that are passed on at a time
INLINE = "data.text"
BETWEEN = "\0"  # separates the texts of a pair; a line that contains it is refused
End = Literal["file", "line", "blank"]
ENDS = get_args(End)


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig:
    """The documents to train on, and how they are batched."""

    train: tuple[TextFile, ...] = ()
    """Files or folders to train on; a single one may be written without a list. Folders are walked in order of name."""
    valid: tuple[TextFile, ...] = ()
    """Validation files or folders; none: a part of the documents is held out."""
    text: str | None = None
    """The text itself, in place of files."""
    document: Literal["auto", "file", "line", "blank"] = "auto"
    """Where a document of plain text ends: with its file, with each line or at a blank line; auto is file, since the
    blank lines of a novel end no document. A record of JSON lines is always one."""
    validation_share: Share = 0.1
    """Share held out when valid names no file: of the documents, chosen by content, if there are 20 or more, else of
    the characters at the end of the text; 0 measures on the training text."""
    duplicates: Literal["drop", "keep"] = "drop"
    """Whether a training document that was there before is left out; it is counted in any case."""
    context: Warned[Length] = 256
    """Tokens of a window: what the model sees at once."""
    batch_size: Warned[Batch] = 64
    """Windows in a row of training."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if bool(self.train) == (self.text is not None):
            raise ValueError("give either train, with at least one file or folder, or text")

    @property
    def end(self) -> End:
        """Return what ends a document of plain text."""
        return "file" if self.document == "auto" else self.document

    @property
    def pair_corpora(self) -> tuple[Corpus, ...]:
        """Return the pairs of texts that are documents too."""
        return ()

    @property
    def training_paths(self) -> list[str]:
        """Return the training files and folders, as given."""
        return [file.path for file in self.train] + [name for corpus in self.pair_corpora for name in corpus.files]


@dataclass(frozen=True, kw_only=True)
class PairedConfig(DocumentsConfig):
    """Documents and pairs of texts to train on."""

    pairs: tuple[Corpus, ...] = ()
    """Pairs of texts that mean the same, such as translations, each read as one document, in either order: two files
    line by line, or two columns or fields of one. With pairs, no document is cut that fits into a window."""

    def __post_init__(self) -> None:
        if self.train or self.text is not None or not self.pairs:
            super().__post_init__()
        for corpus in self.pairs:
            if corpus.tag is not None or corpus.weight != 1.0:
                raise ValueError("tag and weight are of no use for pairs of texts: leave them out")

    @property
    def pair_corpora(self) -> tuple[Corpus, ...]:
        """Return the pairs of texts that are documents too."""
        return self.pairs


class Piece(NamedTuple):
    """A part of a document's text; the pieces of a document are consecutive and together are its whole text."""

    document: int
    """Its number, counted from 0 over all files, bad and empty ones not counted."""
    file: int
    line: int
    """Where the document begins."""
    text: str


@dataclass
class Documents:
    """A repeatable reader of the documents of some files."""

    files: tuple[TextFile, ...]
    """All of them, those of folders included."""
    end: End = "file"
    text: str | None = None
    """The text itself where there are no files."""
    normal: Callable[[str], str] = field(default=lambda line: line)
    """How a line is normalised."""
    pairs: tuple[Corpus, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Return all files, those of pairs last."""
        return [file.path for file in self.files] + [name for corpus in self.pairs for name in corpus.files]

    @property
    def names(self) -> list[str]:
        """Return the names of the files for messages."""
        return [*[INLINE] * (self.text is not None), *self.paths] or [INLINE]

    def pieces(self, tally: LineReport | None = None) -> Iterator[Piece]:
        """Yield all documents in pieces; every line is counted in `tally`."""
        tally = LineReport() if tally is None else tally
        number = -1
        for document, file, line, text in self._iterate_parts(tally):
            number += document
            yield Piece(number, file, line, text)

    def _iterate_parts(self, tally: LineReport) -> Iterator[tuple[bool, int, int, str]]:
        """Yield whether a document starts here, its place, and a part of its text."""
        if self.text is not None:
            inline = enumerate((line.encode() for line in self.text.removesuffix("\n").split("\n")), start=1)
            yield from self._split_documents(0, _iterate_valid_lines(inline, 0, tally), tally)
        for number, file in enumerate(self.files):
            numbered = enumerate(lines(file.path, longest=LONGEST), start=1)
            if suffix(file.path) in JSON_SUFFIXES:
                for line, record in _iterate_valid_lines(numbered, number, tally, field=file.field):
                    text = "\n".join(map(self.normal, record.split("\n")))
                    if text.strip():
                        yield True, number, line, text
                    else:
                        tally.drop("empty", number, line)
            else:
                yield from self._split_documents(number, _iterate_valid_lines(numbered, number, tally), tally)
        number = len(self.files) + (self.text is not None)
        for corpus in self.pairs:
            for line, *texts in pairs_of(corpus, tally, file=number):
                tally.kept += 1
                yield True, number, line, BETWEEN.join(map(self.normal, texts))
            number += len(corpus.files)

    def _split_documents(
        self, file: int, numbered: Iterable[tuple[int, str]], tally: LineReport
    ) -> Iterator[tuple[bool, int, int, str]]:
        """Yield the documents of a plain text file in parts, each without its last line end."""
        pending_lines, size, first = list[str](), 0, 0
        begun = visible = False  # whether a part of the document was yielded; whether it has more than white space
        for line, text in numbered:
            text = self.normal(text)
            blank = not text.strip()
            if not blank or self.end == "file":
                first = first if begun or pending_lines else line
                pending_lines.append(text)
                size += len(text) + 1
                visible = visible or not blank
            document_ends = self.end == "line" or (blank and self.end == "blank")
            if pending_lines and visible and (document_ends or size > BLOCK):
                yield not begun, file, first, "\n" * begun + "\n".join(pending_lines)
                begun, pending_lines, size = True, [], 0
            if document_ends:
                begun = visible = False
        if pending_lines and visible:
            yield not begun, file, first, "\n" * begun + "\n".join(pending_lines)
        elif pending_lines:
            tally.drop("empty", file, first)


def find_documents(config: DocumentsConfig, part: Literal["train", "valid"], normal: Callable[[str], str]) -> Documents:
    """Return the documents of one part of a config."""
    files = expand_folders(config.train if part == "train" else config.valid)
    text, pairs = (config.text, config.pair_corpora) if part == "train" else (None, ())
    return Documents(files, config.end, text, normal, pairs)


def expand_folders(files: Sequence[TextFile]) -> tuple[TextFile, ...]:
    """Replace folders by their text files, recognised by name and in order of name; hidden ones are skipped."""
    return tuple(
        text_file for file in files for text_file in ([file] if find_path(file.path).is_file() else _list_folder(file))
    )


def _list_folder(folder: TextFile) -> list[TextFile]:
    top = find_path(folder.path)
    if not top.is_dir():
        raise ValueError(f"{folder.path} is neither a file nor a folder: give the path of one")
    names = []
    for folder_path, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inner = Path(folder_path).relative_to(top)
        names += [inner / name for name in files if not name.startswith(".") and suffix(name) in ENDINGS]
    if not names:
        raise ValueError(
            f"no text in the folder {folder.path}: files count whose names end in {', '.join(ENDINGS)}, gzipped or not"
        )
    return [replace(folder, path=str(Path(folder.path) / name)) for name in sorted(names)]


def _iterate_valid_lines(
    numbered: Iterable[tuple[int, bytes | None]], file: int, tally: LineReport, *, field: str | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the good lines of a file, or this field of its records, in NFC."""
    for number, line in numbered:
        tally.read += 1
        try:
            text = _decode_line(line) if field is None else text_at(parse_json_line(_decode_line(line)), field)
            if "\0" in text:
                raise Refusal("with a NUL character")
        except Refusal as refusal:
            tally.refuse(refusal.reason, file, number)
        else:
            tally.kept += 1
            yield number, unicodedata.normalize("NFC", text)


def _decode_line(line: bytes | None) -> str:
    if line is None:
        raise Refusal(f"longer than {LONGEST:,} bytes")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(NOT_UTF8) from None
