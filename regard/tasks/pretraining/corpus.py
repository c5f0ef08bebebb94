"""Corpora of documents as one long array of tokens, cached by content, with the bounds of every document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, cast

import numpy as np
import tokenizers as library
from jaxtyping import Int, Integer

from regard import config as settings
from regard.config.words import quantity
from regard.data import cache as caches
from regard.data import readers
from regard.data.dedup import key
from regard.data.encodings import find_file
from regard.data.examples import Splits
from regard.data.line_report import LineReport
from regard.data.memory import WordLimit, release_freed_memory
from regard.data.readers import JSON_SUFFIXES, TextFile, digest, suffix
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.pretraining.documents import (
    BETWEEN,
    ENDS,
    Documents,
    DocumentsConfig,
    End,
    Piece,
    expand_folders,
    find_documents,
)
from regard.tasks.pretraining.selection import REPEATED, Selection, Side, select
from regard.tasks.pretraining.tokenising import Amount, opening_token, split_text, tokenise_documents

TOKENIZER_SAMPLE = 1 << 28  # characters that a tokenizer is trained on; of larger corpora a part is chosen by content
ARRAYS = ("tokens", "starts", "origins")
SIDES: tuple[Side, Side] = ("train", "valid")


@dataclass(frozen=True)
class Corpus:
    """Documents as concatenated tokens; document n is `tokens[starts[n]:starts[n + 1]]`, including its end token."""

    tokens: Integer[np.ndarray, "token"]
    starts: Int[np.ndarray, "bound"]
    origins: Int[np.ndarray, "document 2"]
    """File and line where each document begins."""
    files: tuple[str, ...]
    opening: int
    """The token before a document, from which its first one is predicted."""
    bytes: int
    """Of the text in UTF-8, the end of a document counting as a line end, as in characters and words."""
    characters: int
    words: int
    """What stands between blanks, and line ends."""
    unknown: int = 0
    """Tokens of what the tokenizer does not know."""

    @property
    def documents(self) -> int:
        """Return the number of documents."""
        return len(self.starts) - 1

    def place(self, document: int) -> str:
        """Return the place of a document as file:line."""
        file, line = self.origins[document].tolist()
        return f"{self.files[file]}:{line}"


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Corpus, Corpus]):
    """Tokenised training and validation documents, and the tokenizer."""

    tokenizer: Tokenizer
    counted: int = 0
    """Tokens that the model to start from counts, which may be more than the tokenizer knows."""


def prepare(
    config: DocumentsConfig, how: UnitsConfig, parent_tokenizer: Tokenizer | None = None, *, special: Sequence[str] = ()
) -> Prepared:
    """Read and tokenise the documents, or load them from the cache.

    The tokenizer of a parent model is used as it is; a new one gets the `special` tokens besides its own.
    """
    normal = how.normal if parent_tokenizer is None else parent_tokenizer.how.normal
    sources = {side: find_documents(config, side, normal) for side in SIDES}
    digests = {side: [*map(digest, source.paths)] for side, source in sources.items()}
    contents: dict[str, Any] = {
        "files": {side: _content_keys(source.files, digests[side]) for side, source in sources.items()},
        "text": config.text,
        "rules": [config.end, None if config.valid else config.validation_share, config.duplicates],
    }
    if pairs := sources["train"].pairs:
        files = iter(digests["train"][len(sources["train"].files) :])
        contents["pairs"] = [[_pair_format_key(corpus), *(next(files) for _ in corpus.files)] for corpus in pairs]
    units_key = _units_key(how, parent_tokenizer, special)
    stamps = {path: _file_stamp(path) for source in sources.values() for path in source.paths}

    def build(builder: caches.Builder) -> None:
        _build_cache(builder, config, sources, how, parent_tokenizer, special)
        for name, stamp in stamps.items():
            if _file_stamp(name) != stamp:
                raise ValueError(f"{name} changed while it was read: start again once it is complete")

    arrays = caches.cached_arrays("documents", {"version": 1, "units": units_key, **contents}, build)
    release_freed_memory()
    tokenizer = parent_tokenizer or Tokenizer.parse(
        arrays.facts["tokenizer"], settings.build(UnitsConfig, arrays.facts["how"])
    )
    corpora = {side: _load_corpus(arrays, side, sources, tokenizer) for side in SIDES}
    report: dict[str, Any] = {"vocab": tokenizer.vocab}
    summary = list(arrays.notes)
    for side in SIDES:
        names, (by_line, by_document) = sources[side].names, map(LineReport.parse, arrays.facts["tallies"][side])
        _check_rejects(config, side, by_line, names)
        corpus = {**by_line.report(names), "documents": by_document.report(names), "sha256": digests[side]}
        report[side] = {
            "fingerprint": caches.key(part=side, **contents),
            "corpora": [corpus] if by_line.read else [],
            "documents": corpora[side].documents,
            "tokens": len(corpora[side].tokens),
            **{name: getattr(corpora[side], name) for name in asdict(Amount())},
        }
        if by_line.read:
            summary += [*by_line.lines(names, unit="line"), *by_document.lines(names, unit="document")[1:]]
    if arrays.facts["kept_twice"]:
        summary += [f"  kept: {quantity(arrays.facts['kept_twice'], 'document')} {REPEATED}"]
    distinct_words, left_out = arrays.facts.get("words", (0, 0))
    if left_out:
        summary += [f"  tokenizer: learnt from {distinct_words:,} different words; others left out {left_out:,} times"]
    summary.append(_describe_sizes(tokenizer, **corpora))
    train, valid = corpora["train"], corpora["valid"]
    return Prepared(
        tokenizer=tokenizer, train=train, valid=valid, report=report, summary=summary, fresh=parent_tokenizer is None
    )


def _units_key(how: UnitsConfig, parent_tokenizer: Tokenizer | None, special: Sequence[str]) -> Any:
    """Return everything on which the tokens depend."""
    if parent_tokenizer is not None:
        return [parent_tokenizer.how.normalise, parent_tokenizer.json()]
    described = settings.restore_former_names(asdict(how), where="tokenizer")
    return {**described, "library": library.__version__, "special": list(special)}


def read(
    names: Sequence[str], tokenizer: Tokenizer, *, end: str = "file", field: str = "text", reject: float = 0.01
) -> Corpus:
    """Read files or folders as documents with a given tokenizer, in memory and uncached."""
    if end not in ENDS:
        raise ValueError(f"document is {end!r}: choose {', '.join(ENDS)}")
    files = expand_folders([TextFile(path=name, field=field) for name in names])
    source = Documents(files, cast(End, end), None, tokenizer.how.normal)
    return _corpus_in_memory(source, tokenizer, reject=reject)


def _corpus_in_memory(source: Documents, tokenizer: Tokenizer, *, reject: float = 0.0) -> Corpus:
    """Tokenise documents in memory."""
    tally, amount = LineReport(), Amount()
    blocks = list(tokenise_documents(tokenizer, source.pieces(tally), amount))
    tally.check(reject, source.names, unit="line", remedy="")
    if not blocks:
        raise ValueError(f"no text in {' and '.join(source.names)}: give something to read")
    arrays = [np.concatenate([getattr(block, name) for block in blocks]) for name in ARRAYS]
    starts = np.append(arrays[1], len(arrays[0]))
    return Corpus(arrays[0], starts, arrays[2], tuple(source.names), opening_token(tokenizer), **asdict(amount))


def corpus_from_text(text: str, tokenizer: Tokenizer) -> Corpus:
    """Tokenise a given text as the only document."""
    return _corpus_in_memory(Documents((), "file", text, tokenizer.how.normal), tokenizer)


def _build_cache(
    builder: caches.Builder,
    config: DocumentsConfig,
    sources: dict[Side, Documents],
    how: UnitsConfig,
    parent_tokenizer: Tokenizer | None,
    special: Sequence[str],
) -> None:
    """Survey the documents, train the tokenizer on the training documents, and store all tokens."""
    train, valid = sources["train"], sources["valid"] if config.valid else None
    tallies = {side: LineReport() for side in SIDES}
    selection = select(
        train,
        valid,
        held_share=config.validation_share,
        duplicates=config.duplicates,
        tallies=tallies,
        scratch=caches.cache_folder(),
    )
    for side in SIDES:
        _check_rejects(config, side, tallies[side], sources[side].names)
    training_pieces = (piece for side, piece in selection.assign_sides(train.pieces()) if side == "train")
    size = selection.characters
    if not size:
        raise ValueError(_no_text_message(selection, tallies["train"], train.names, "train"))
    words = WordLimit()
    tokenizer = parent_tokenizer or units.train(
        _limit_words(_sample_texts(training_pieces, size), how, words), how, characters=size, special=special
    )
    release_freed_memory()
    dtype = np.uint16 if tokenizer.vocab <= 1 << 16 else np.int32
    by_document = {"train": selection.tally, "valid": LineReport()}
    amounts = {side: Amount() for side in SIDES}
    for side in SIDES:
        if side == "valid" and valid is not None:
            pieces = valid.pieces()
        elif side == "valid" and not config.validation_share:
            amounts["valid"] = amounts["train"]
            continue
        else:
            pieces = (piece for where, piece in selection.assign_sides(train.pieces()) if where == side)
        total = 0
        for block in tokenise_documents(tokenizer, pieces, amounts[side]):
            builder.add(f"{side}-tokens", block.tokens.astype(dtype))
            builder.add(f"{side}-starts", block.starts)
            builder.add(f"{side}-origins", block.origins)
            total += len(block.tokens)
        if not total:
            names = sources["valid" if side == "valid" and config.valid else "train"].names
            raise ValueError(_no_text_message(selection, tallies["train"], names, side))
        builder.add(f"{side}-starts", np.array([total]))
    builder.facts |= {
        "tokenizer": tokenizer.json(),
        "how": settings.plain(tokenizer.how) if parent_tokenizer is None else {},
        "amounts": {side: asdict(amount) for side, amount in amounts.items()},
        "words": [words.distinct, words.left_out],
        "kept_twice": len(selection.repeated) if config.duplicates == "keep" else 0,
        "tallies": {side: [tallies[side].plain(), by_document[side].plain()] for side in SIDES},
    }


def _sample_texts(pieces: Iterable[Piece], characters: int) -> Iterator[str]:
    """Yield the texts to train a tokenizer on: all documents, or for a huge corpus a part chosen by content."""
    share = TOKENIZER_SAMPLE / max(characters, 1)
    for _, group in groupby(pieces, key=lambda piece: piece.document):
        texts = (text for excerpt in split_text(piece.text for piece in group) for text in excerpt.split(BETWEEN))
        yield from (text for text in texts if share >= 1 or key(text) < share * 2**64)


def _limit_words(texts: Iterable[str], how: UnitsConfig, words: WordLimit) -> Iterator[str]:
    """Limit the number of distinct words, unless the tokenizer is of characters and has no table of words."""
    return iter(texts) if how.kind == "characters" else words.filter(texts)


def _no_text_message(selection: Selection, tally: LineReport, names: Sequence[str], side: str) -> str:
    use = "training" if side == "train" else "validation"
    read_so_far = f"{quantity(tally.read, 'line')} in {quantity(selection.documents, 'document')}"
    return f"{names[0]}: too little text, of {read_so_far} none is left for {use}: add text"


def _check_rejects(config: DocumentsConfig, side: Side, tally: LineReport, names: Sequence[str]) -> None:
    if side == "train" or config.valid:
        tally.check(config.reject, names, unit="line")


def _load_corpus(arrays: caches.Arrays, side: Side, sources: dict[Side, Documents], tokenizer: Tokenizer) -> Corpus:
    stored = side if f"{side}-tokens" in arrays else "train"
    files = sources[side].names if sources[side].paths else sources["train"].names
    tokens, starts, origins = (arrays[f"{stored}-{name}"] for name in ARRAYS)
    return Corpus(tokens, starts, origins, tuple(files), opening_token(tokenizer), **arrays.facts["amounts"][side])


def _describe_sizes(tokenizer: Tokenizer, train: Corpus, valid: Corpus) -> str:
    """Describe the sizes of both sets."""
    documents = quantity(train.documents, "document")
    sizes = f"{len(train.tokens):,} tokens of {documents} to train on, {len(valid.tokens):,} held out"
    unknown_note = f", of which {valid.unknown:,} are <unk>" if tokenizer.closed and valid.unknown else ""
    return f"{sizes}{unknown_note}, {tokenizer.vocab:,} different ones"


def _reading_key(file: TextFile) -> list[str]:
    """Return the settings that decide how a file is read, without its path."""
    return ["json", file.field] if suffix(file.path) in JSON_SUFFIXES else ["text"]


def _content_keys(files: Sequence[TextFile], digests: Sequence[str]) -> list[tuple[list[str], str]]:
    """Return the files' reading settings with the digests of their contents."""
    return [*zip(map(_reading_key, files), digests[: len(files)], strict=True)]


def _pair_format_key(corpus: readers.Corpus) -> list[Any]:
    """Return the settings that decide how pairs are read, without their paths."""
    heading = ["heading"] if readers.has_heading(corpus) else []
    return [corpus.form, list(corpus.columns), list(corpus.fields), corpus.prefix, *heading]


def _file_stamp(name: str) -> tuple[int, int]:
    stat = find_file(name).stat()
    return stat.st_size, stat.st_mtime_ns
