"""Documents to tokens, piece by piece, so that neither memory nor time runs away on a long one.

A document is cut where its tokens meet in any case: before a line end or a blank that follows a letter. The tokens are
then those of the text read whole, and also those of its lines read one by one. Only in a text without either for 16,384
characters the cut falls anywhere. Every document is closed by the end token; between the texts of a pair stands the
separator.
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

PIECE = EXCERPT  # characters that are tokenised, or learnt from, at once
BLOCK = 1 << 20  # characters tokenised before they are handed on
SEAMS = [re.compile(rf".*{before}(?={after})", re.DOTALL) for after in (r"\n", r"\s") for before in (r"\w", r"\S")]
MEETING = re.compile(r"\w(?= )")
NEAR = 1024  # characters before a gap in which tokens are looked for that meet in any case
LEAD = "a"  # read in front of what goes on with a document, since some tokenizers treat the beginning of a text apart


@dataclass
class Amount:
    """How much text there is, the end of a document counting as a line end."""

    bytes: int = 0
    characters: int = 0
    words: int = 0
    """What stands between blanks, and line ends."""
    unknown: int = 0
    """Tokens of what the tokenizer does not know."""

    def add(self, text: str) -> None:
        """One more piece of text."""
        text = text.replace(BETWEEN, "\n")
        self.bytes += len(text) if text.isascii() else len(text.encode())
        self.characters += len(text)
        self.words += len(text.split()) + text.count("\n")

    def end(self) -> None:
        """The end of a document."""
        self.bytes, self.characters, self.words = self.bytes + 1, self.characters + 1, self.words + 1


@dataclass(frozen=True)
class Block:
    """Tokens of some documents, end to end, with the documents that begin here: where, and their places."""

    tokens: Int[np.ndarray, "token"]
    starts: Int[np.ndarray, "document"]
    origins: Int[np.ndarray, "document 2"]


def opening_token(tokenizer: Tokenizer) -> int:
    """The token in front of a document, from which its first is predicted: begin, or end where there is no begin."""
    return tokenizer.role("end") if tokenizer.begin is None else tokenizer.begin


def line_end_is_end_token(tokenizer: Tokenizer) -> bool:
    """Whether a line end is the end token, since this tokenizer has nothing else for it: a closed list without it."""
    return tokenizer.closed and set(tokenizer.encode_normal(["\n"])[0]) <= {tokenizer.unknown}


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of a text as those of a document, without its end."""
    return _encode_documents(tokenizer, [_normalise_lines(tokenizer, text)])[0]


def encode_ends(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, Sequence[str]]]
) -> tuple[list[list[int]], list[list[list[int]]]]:
    """The tokens of texts that may go on in several ways: of what all share, and of the rest without and with each.

    What is shared ends where tokens meet in any case, so that it is tokenised once; blanks before what goes on are its.
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
    """The tokens of normalised texts."""
    pieces = [list(enumerate(split_text([text]))) for text in texts]
    coded = iter(_encode_pieces(tokenizer, list(chain.from_iterable(pieces))))
    return [[token for _ in text_pieces for token in next(coded)] for text_pieces in pieces]


def _normalise_lines(tokenizer: Tokenizer, text: str) -> str:
    return "\n".join(map(tokenizer.how.normal, text.split("\n")))


def split_text(texts: Iterable[str]) -> Iterator[str]:
    """A text that comes in parts, in pieces of at most PIECE characters; joined they are the same."""
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
    """Tokens of all documents, each closed by the end token; `amount` hears how much text they were."""
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


Cut = tuple[Piece, int, str | None]  # of which document, which piece of it, its text; None: the document ends


def _group_into_blocks(pieces: Iterable[Piece]) -> Iterator[list[Cut]]:
    """Texts to tokenise together."""
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
    """The tokens of pieces, with the separator between the texts of a pair, the second of which begins anew."""
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
    """The tokens of pieces, of each of which is said which it is of its document."""
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
    """Where to cut between two places: as late as tokens surely meet, else at the last."""
    for seam in SEAMS:
        if match := seam.match(text, (first + last) // 2, last + 1):
            return match.end()
    return last


def encode_parts(tokenizer: Tokenizer, parts: Sequence[str]) -> list[list[int]]:
    """The tokens of the parts of a text, between which gaps are.

    A blank before a gap belongs to it, since tokens begin with their blanks, unless every character is a token.
    """
    normal = [tokenizer.how.tidy(part) for part in parts]
    if tokenizer.between or not tokenizer.closed:
        normal = [*(part.rstrip() for part in normal[:-1]), normal[-1]]
    return [
        ids if part else []
        for part, ids in zip(normal, _encode_pieces(tokenizer, list(enumerate(normal))), strict=True)
    ]


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of tokens as those of a document."""
    return tokenizer.decode_lines(ids) if line_end_is_end_token(tokenizer) else tokenizer.decode(ids)
