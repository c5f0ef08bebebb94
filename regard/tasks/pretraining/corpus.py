"""Documents as one long array of tokens, made once and found again by content, with the bounds of every document."""

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
from regard.data.encodings import locate
from regard.data.examples import Splits
from regard.data.line_report import LineReport
from regard.data.memory import WordLimit, release_freed_memory
from regard.data.readers import JSON_SUFFIXES, TextFile, digest, suffix
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.pretraining.documents import BETWEEN, ENDS, Documents, DocumentsConfig, End, Piece, expanded, found
from regard.tasks.pretraining.selection import REPEATED, Selection, Side, select
from regard.tasks.pretraining.tokenising import Amount, cuts, opening, tokenised

SAMPLE = 1 << 28  # characters that a tokenizer learns from; of more text, a part is chosen by content
ARRAYS = ("tokens", "starts", "origins")
SIDES: tuple[Side, Side] = ("train", "valid")


@dataclass(frozen=True)
class Corpus:
    """Documents as tokens, end to end; document n is `tokens[starts[n]:starts[n + 1]]`, its end token included."""

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
        """How many there are."""
        return len(self.starts) - 1

    def place(self, document: int) -> str:
        """Where a document begins, as file:line."""
        file, line = self.origins[document].tolist()
        return f"{self.files[file]}:{line}"


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Corpus, Corpus]):
    """Documents as tokens, and the tokenizer."""

    tokenizer: Tokenizer
    counted: int = 0
    """Tokens that the model to start from counts, which may be more than the tokenizer knows."""


def prepare(
    config: DocumentsConfig, how: UnitsConfig, known: Tokenizer | None = None, *, special: Sequence[str] = ()
) -> Prepared:
    """Read and tokenise the documents, or find them in the cache.

    A tokenizer that is `known` is used as it is; a new one gets the tokens named `special` beside its own.
    """
    normal = how.normal if known is None else known.how.normal
    sources = {side: found(config, side, normal) for side in SIDES}
    digests = {side: [*map(digest, source.paths)] for side, source in sources.items()}
    contents: dict[str, Any] = {
        "files": {side: _known(source.files, digests[side]) for side, source in sources.items()},
        "text": config.text,
        "rules": [config.end, None if config.valid else config.held, config.duplicates],
    }
    if pairs := sources["train"].pairs:
        files = iter(digests["train"][len(sources["train"].files) :])
        contents["pairs"] = [[_laid(corpus), *(next(files) for _ in corpus.files)] for corpus in pairs]
    units_key = (
        {**asdict(how), "library": library.__version__, "special": list(special)}
        if known is None
        else [known.how.normalise, known.json()]
    )
    stamps = {path: _stamp(path) for source in sources.values() for path in source.paths}

    def build(builder: caches.Builder) -> None:
        _build(builder, config, sources, how, known, special)
        for name, stamp in stamps.items():
            if _stamp(name) != stamp:
                raise ValueError(f"{name} changed while it was read: start again once it is complete")

    kept = caches.cached("documents", {"version": 1, "units": units_key, **contents}, build)
    release_freed_memory()
    own = known or Tokenizer.parse(kept.facts["tokenizer"], settings.build(UnitsConfig, kept.facts["how"]))
    corpora = {side: _opened(kept, side, sources, own) for side in SIDES}
    report: dict[str, Any] = {"vocab": own.vocab}
    summary = list(kept.notes)
    for side in SIDES:
        names, (by_line, by_document) = sources[side].names, map(LineReport.parse, kept.facts["tallies"][side])
        _check(config, side, by_line, names)
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
    if kept.facts["kept_twice"]:
        summary += [f"  kept: {quantity(kept.facts['kept_twice'], 'document')} {REPEATED}"]
    learnt_words, left_out = kept.facts.get("words", (0, 0))
    if left_out:
        summary += [f"  tokenizer: learnt from {learnt_words:,} different words; others left out {left_out:,} times"]
    summary.append(_said(own, **corpora))
    train, valid = corpora["train"], corpora["valid"]
    return Prepared(tokenizer=own, train=train, valid=valid, report=report, summary=summary, fresh=known is None)


def read(
    names: Sequence[str], own: Tokenizer, *, end: str = "file", field: str = "text", reject: float = 0.01
) -> Corpus:
    """Files or folders as documents of a tokenizer that is known, held in memory and not cached."""
    if end not in ENDS:
        raise ValueError(f"document is {end!r}: choose {', '.join(ENDS)}")
    files = expanded([TextFile(path=name, field=field) for name in names])
    source = Documents(files, cast(End, end), None, own.how.normal)
    return _held(source, own, reject=reject)


def _held(source: Documents, own: Tokenizer, *, reject: float = 0.0) -> Corpus:
    """Documents in memory."""
    tally, amount = LineReport(), Amount()
    blocks = list(tokenised(own, source.pieces(tally), amount))
    tally.check(reject, source.names, unit="line", remedy="")
    if not blocks:
        raise ValueError(f"no text in {' and '.join(source.names)}: give something to read")
    arrays = [np.concatenate([getattr(block, name) for block in blocks]) for name in ARRAYS]
    starts = np.append(arrays[1], len(arrays[0]))
    return Corpus(arrays[0], starts, arrays[2], tuple(source.names), opening(own), **asdict(amount))


def given(text: str, own: Tokenizer) -> Corpus:
    """A text that somebody gives, as the only document."""
    return _held(Documents((), "file", text, own.how.normal), own)


def _build(
    builder: caches.Builder,
    config: DocumentsConfig,
    sources: dict[Side, Documents],
    how: UnitsConfig,
    known: Tokenizer | None,
    special: Sequence[str],
) -> None:
    """Look at every document, learn the tokens from those to learn from, and write all as numbers."""
    train, valid = sources["train"], sources["valid"] if config.valid else None
    tallies = {side: LineReport() for side in SIDES}
    rules: dict[str, Any] = {"held": config.held, "duplicates": config.duplicates}
    chosen = select(train, valid, **rules, tallies=tallies, scratch=caches.folder())
    for side in SIDES:
        _check(config, side, tallies[side], sources[side].names)
    learnt = (piece for side, piece in chosen.dealt(train.pieces()) if side == "train")
    size = chosen.characters
    if not size:
        raise ValueError(_nothing_left(chosen, tallies["train"], train.names, "train"))
    words = WordLimit()
    own = known or units.train(_bounded(_sampled(learnt, size), how, words), how, characters=size, special=special)
    release_freed_memory()
    kind = np.uint16 if own.vocab <= 1 << 16 else np.int32
    by_document = {"train": chosen.tally, "valid": LineReport()}
    amounts = {side: Amount() for side in SIDES}
    for side in SIDES:
        if side == "valid" and valid is not None:
            pieces = valid.pieces()
        elif side == "valid" and not config.held:
            amounts["valid"] = amounts["train"]
            continue
        else:
            pieces = (piece for where, piece in chosen.dealt(train.pieces()) if where == side)
        total = 0
        for block in tokenised(own, pieces, amounts[side]):
            builder.add(f"{side}-tokens", block.tokens.astype(kind))
            builder.add(f"{side}-starts", block.starts)
            builder.add(f"{side}-origins", block.origins)
            total += len(block.tokens)
        if not total:
            names = sources["valid" if side == "valid" and config.valid else "train"].names
            raise ValueError(_nothing_left(chosen, tallies["train"], names, side))
        builder.add(f"{side}-starts", np.array([total]))
    builder.facts |= {
        "tokenizer": own.json(),
        "how": settings.plain(own.how) if known is None else {},
        "amounts": {side: asdict(amount) for side, amount in amounts.items()},
        "words": [words.distinct, words.left_out],
        "kept_twice": len(chosen.repeated) if config.duplicates == "keep" else 0,
        "tallies": {side: [tallies[side].plain(), by_document[side].plain()] for side in SIDES},
    }


def _sampled(pieces: Iterable[Piece], characters: int) -> Iterator[str]:
    """Texts to learn a tokenizer from: all documents, or of very much text a part that is chosen by content."""
    share = SAMPLE / max(characters, 1)
    for _, group in groupby(pieces, key=lambda piece: piece.document):
        texts = (text for whole in cuts(piece.text for piece in group) for text in whole.split(BETWEEN))
        yield from (text for text in texts if share >= 1 or key(text) < share * 2**64)


def _bounded(texts: Iterable[str], how: UnitsConfig, words: WordLimit) -> Iterator[str]:
    """Bound the number of different words, unless the tokenizer knows characters alone and has no table of words."""
    return iter(texts) if how.kind == "characters" else words.filter(texts)


def _nothing_left(chosen: Selection, tally: LineReport, names: Sequence[str], side: str) -> str:
    use = "training" if side == "train" else "validation"
    found = f"{quantity(tally.read, 'line')} in {quantity(chosen.documents, 'document')}"
    return f"{names[0]}: too little text, of {found} none is left for {use}: add text"


def _check(config: DocumentsConfig, side: Side, tally: LineReport, names: Sequence[str]) -> None:
    if side == "train" or config.valid:
        tally.check(config.reject, names, unit="line")


def _opened(kept: caches.Arrays, side: Side, sources: dict[Side, Documents], own: Tokenizer) -> Corpus:
    stored = side if f"{side}-tokens" in kept else "train"
    files = sources[side].names if sources[side].paths else sources["train"].names
    tokens, starts, origins = (kept[f"{stored}-{name}"] for name in ARRAYS)
    return Corpus(tokens, starts, origins, tuple(files), opening(own), **kept.facts["amounts"][side])


def _said(own: Tokenizer, train: Corpus, valid: Corpus) -> str:
    """The sizes in words."""
    documents = quantity(train.documents, "document")
    sizes = f"{len(train.tokens):,} tokens of {documents} to train on, {len(valid.tokens):,} held out"
    strange = f", of which {valid.unknown:,} are <unk>" if own.closed and valid.unknown else ""
    return f"{sizes}{strange}, {own.vocab:,} different ones"


def _like(file: TextFile) -> list[str]:
    """What decides how a file is read, but for where it lies."""
    return ["json", file.field] if suffix(file.path) in JSON_SUFFIXES else ["text"]


def _known(files: Sequence[TextFile], digests: Sequence[str]) -> list[tuple[list[str], str]]:
    """Files by how they are read and by their content."""
    return [*zip(map(_like, files), digests[: len(files)], strict=True)]


def _laid(corpus: readers.Corpus) -> list[Any]:
    """The same of pairs."""
    heading = ["heading"] if readers.has_heading(corpus) else []
    return [corpus.form, list(corpus.columns), list(corpus.fields), corpus.prefix, *heading]


def _stamp(name: str) -> tuple[int, int]:
    stat = locate(name).stat()
    return stat.st_size, stat.st_mtime_ns
