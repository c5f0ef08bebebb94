"""Tokenisation of documents piece by piece, with bounded memory and time for long ones.

A document is split where tokens always end: before a line end or a space that follows a letter. The tokens are then
those of the whole text, and also those of its lines read one by one. Only a text without either for 16,384 characters
is split anywhere. Every document ends with the end token; the separator is between the texts of a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import numpy as np
from jaxtyping import Int

from regard.data.tokenizers import EXCERPT, Tokenizer
from regard.tasks.pretraining.documents import BETWEEN, Piece

PIECE = EXCERPT  # characters that are tokenised, or trained on, at a time
BLOCK = 1 << 20  # characters tokenised before they are passed on
SEAMS = [re.compile(rf".*{before}(?={after})", re.DOTALL) for after in (r"\n", r"\s") for before in (r"\w", r"\S")]
MEETING = re.compile(r"\w(?= )")
NEAR = 1024  # characters before a gap in which a token boundary is searched
LEAD = "a"  # read before the continuation of a document, since some tokenizers treat the start of a text differently


@dataclass
class Amount:
    """The amount of text, where the end of a document counts as a line end."""

    bytes: int = 0
    characters: int = 0
    words: int = 0
    """What stands between blanks, and line ends."""
    unknown: int = 0
    """Tokens of what the tokenizer does not know."""

    def add(self, text: str) -> None:
        """Add a piece of text."""
        text = text.replace(BETWEEN, "\n")
        self.bytes += len(text) if text.isascii() else len(text.encode())
        self.characters += len(text)
        self.words += len(text.split()) + text.count("\n")

    def end(self) -> None:
        """Add the end of a document."""
        self.bytes, self.characters, self.words = self.bytes + 1, self.characters + 1, self.words + 1


@dataclass(frozen=True)
class Block:
    """Concatenated tokens of some documents, with the starts and places of the documents that start here."""

    tokens: Int[np.ndarray, "token"]
    starts: Int[np.ndarray, "document"]
    origins: Int[np.ndarray, "document 2"]


def opening_token(tokenizer: Tokenizer) -> int:
    """Return the token before a document, from which its first one is predicted: begin, or end if there is none."""
    return tokenizer.role("end") if tokenizer.begin is None else tokenizer.begin


def line_end_is_end_token(tokenizer: Tokenizer) -> bool:
    """Return True if line ends become end tokens: for a closed vocabulary without line ends."""
    return tokenizer.closed and set(tokenizer.encode_normal(["\n"])[0]) <= {tokenizer.unknown}


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text as those of a document, without its end."""
    return _encode_documents(tokenizer, [_normalise_lines(tokenizer, text)])[0]


def encode_ends(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, Sequence[str]]]
) -> tuple[list[list[int]], list[list[list[int]]]]:
    """Return the tokens of texts with several endings: of the shared part, and of the rest without and with each.

    The shared part ends at a token boundary, so that it is tokenised once; spaces before the endings belong to these.
    """
    heads, pieces = [], list[tuple[int, str]]()
    for text, endings in texts:
        stem, *wholes = (
            _normalise_lines(tokenizer, variant)
            for variant in (text.rstrip(" \t"), *(text + variant for variant in endings))
        )
        meet = [match.end() for match in MEETING.finditer(stem, max(0, len(stem) - NEAR))]
        cut = meet[-1] if meet and all(whole.startswith(stem[: meet[-1]]) for whole in wholes) else 0
        heads.append(stem[:cut])
        pieces += [(cut, variant[cut:]) for variant in (stem, *wholes)]
    coded = iter(_encode_pieces(tokenizer, pieces))
    return _encode_documents(tokenizer, heads), [[next(coded) for _ in (text, *endings)] for text, endings in texts]


def _encode_documents(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of normalised texts."""
    pieces = [list(enumerate(split_text([text]))) for text in texts]
    coded = iter(_encode_pieces(tokenizer, list(chain.from_iterable(pieces))))
    return [[token for _ in text_pieces for token in next(coded)] for text_pieces in pieces]


def _normalise_lines(tokenizer: Tokenizer, text: str) -> str:
    return "\n".join(map(tokenizer.how.normal, text.split("\n")))


def split_text(texts: Iterable[str]) -> Iterator[str]:
    """Yield a text given in parts in pieces of at most PIECE characters; joined, they are the same."""
    rest = ""
    for part in texts:
        text, start = rest + part, 0
        while len(text) - start > PIECE:
            end = _find_cut(text, start, start + PIECE)
            yield text[start:end]
            start = end
        rest = text[start:]
    if rest:
        yield rest


def tokenise_documents(tokenizer: Tokenizer, pieces: Iterable[Piece], amount: Amount) -> Iterator[Block]:
    """Yield the tokens of all documents, each with its end token; `amount` counts the text."""
    end, offset = tokenizer.role("end"), 0
    for block in _group_into_blocks(pieces):
        coded = iter(_encode_pairs(tokenizer, [(place, text) for _, place, text in block if text is not None]))
        flat, starts, origins = list[int](), list[int](), list[tuple[int, int]]()
        for piece, place, text in block:
            if text is None:
                amount.end()
                flat.append(end)
                continue
            if place == 0:
                starts.append(offset + len(flat))
                origins.append((piece.file, piece.line))
            amount.add(text)
            flat += next(coded)
        tokens = np.array(flat, np.int32)
        amount.unknown += int((tokens == tokenizer.unknown).sum()) if tokenizer.unknown is not None else 0
        offset += len(flat)
        yield Block(tokens, np.array(starts, np.int64), np.array(origins, np.int64).reshape(-1, 2))


Cut = tuple[Piece, int, str | None]  # the document, number of the piece, its text; None: the document ends


def _group_into_blocks(pieces: Iterable[Piece]) -> Iterator[list[Cut]]:
    """Yield blocks of texts to tokenise together."""
    block, size = list[Cut](), 0
    for _, group in groupby(pieces, key=lambda piece: piece.document):
        first = next(group)
        for place, text in enumerate(split_text(piece.text for piece in chain([first], group))):
            block.append((first, place, text))
            size += len(text)
            if size > BLOCK:
                yield block
                block, size = [], 0
        block.append((first, -1, None))
    if block:
        yield block


def _encode_pairs(tokenizer: Tokenizer, texts: Sequence[tuple[int, str]]) -> list[list[int]]:
    """Return the tokens of pieces, with the separator between the texts of a pair, the second of which starts anew."""
    parts = [text.split(BETWEEN) for _, text in texts]
    alone = (
        (0 if n else place, part)
        for (place, _), pair_texts in zip(texts, parts, strict=True)
        for n, part in enumerate(pair_texts)
    )
    coded = iter(_encode_pieces(tokenizer, list(alone)))
    if all(len(pair_texts) == 1 for pair_texts in parts):
        return list(coded)
    return [
        [*next(coded), *(token for _ in others for token in (tokenizer.role("separator"), *next(coded)))]
        for _, *others in parts
    ]


def _encode_pieces(tokenizer: Tokenizer, texts: Sequence[tuple[int, str]]) -> list[list[int]]:
    """Return the tokens of pieces, given with their numbers within their documents."""
    if line_end_is_end_token(tokenizer):
        return [_encode_lines(tokenizer, text.split("\n")) for _, text in texts]
    [lead] = tokenizer.encode_normal([LEAD])
    coded = tokenizer.encode_normal([LEAD + text if place else text for place, text in texts])
    for number, (place, text) in enumerate(texts):
        if place:
            after = coded[number][: len(lead)] == lead
            coded[number] = coded[number][len(lead) :] if after else tokenizer.encode_normal([text])[0]
    return coded


def _encode_lines(tokenizer: Tokenizer, lines: Sequence[str]) -> list[int]:
    first, *others = tokenizer.encode_normal(lines)
    return [*first, *(token for line in others for token in (tokenizer.role("end"), *line))]


def _find_cut(text: str, first: int, last: int) -> int:
    """Return where to cut: as late as possible at a token boundary, else at the last position."""
    for seam in SEAMS:
        if match := seam.match(text, (first + last) // 2, last + 1):
            return match.end()
    return last


def encode_parts(tokenizer: Tokenizer, parts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of the parts of a text between gaps.

    A space before a gap belongs to it, since tokens start with their space, unless every character is a token.
    """
    normal = [tokenizer.how.tidy(part) for part in parts]
    if tokenizer.between or not tokenizer.closed:
        normal = [*(part.rstrip() for part in normal[:-1]), normal[-1]]
    return [
        ids if part else []
        for part, ids in zip(normal, _encode_pieces(tokenizer, list(enumerate(normal))), strict=True)
    ]


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of tokens as those of a document."""
    return tokenizer.decode_lines(ids) if line_end_is_end_token(tokenizer) else tokenizer.decode(ids)
