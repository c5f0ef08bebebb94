"""A text, or a pair of texts, as a model reads it: which tokens stand around and between them, and which are of which.

BERT reads `<begin> a <sep> b <sep>` with two kinds of segments, or what the template of an imported tokenizer says,
such as RoBERTa's `<s> a </s></s> b </s>`; GPT reads `start a <delimiter> b <extract>` (Radford et al. 2018); the other
models read `a`, or `a <sep> b`. Tokens that a tokenizer lacks are added to it, at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tokenizers import Tokenizer as Engine

from regard.data.tokenizers import Tokenizer
from regard.tasks.labels.text_tokenizer import empty_text_tokens, tokenizer_config

BEGIN, SEPARATOR, DELIMITER, EXTRACT = "<bos>", "<sep>", "<delimiter>", "<extract>"
Texts = tuple[str, ...]  # one, or a pair


class EncodedText(NamedTuple):
    """Tokens that a model reads, and where what belongs to a second text begins."""

    tokens: list[int]
    second: int


@dataclass(frozen=True)
class InputFormat:
    """The tokens before a text or a pair, between the two, and after the last."""

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    closing: int = 0
    """How many of those between are still of the first text."""
    early: bool = False
    """Whether a word is labelled at its first token, which sees all others; else at its last, when it has been read."""

    def around(self, texts: int) -> int:
        """How many tokens there are beside those of so many texts."""
        return len(self.before) + len(self.after) + (len(self.between) if texts > 1 else 0)

    def encode_texts(
        self, first: Sequence[int], second: Sequence[int] | None, *, longest: int, keep: str = "begin"
    ) -> EncodedText:
        """One text or two, none of them empty, in at most so many tokens; of two the longer is cut first."""
        room = longest - self.around(1 if second is None else 2)
        if second is None:
            tokens = [*self.before, *truncate(first, room, keep), *self.after]
            return EncodedText(tokens, len(tokens))
        one, other = truncated_lengths(len(first), len(second), room)
        head = [*self.before, *truncate(first, one, keep), *self.between]
        tokens = [*head, *truncate(second, other, keep), *self.after]
        return EncodedText(tokens, len(head) - len(self.between) + self.closing)


def truncate(tokens: Sequence[int], most: int, keep: str) -> Sequence[int]:
    """At most so many tokens of a text, from its beginning or its end."""
    return tokens[:most] if keep == "begin" or len(tokens) <= most else tokens[len(tokens) - most :]


def truncated_lengths(one: int, other: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts are read when both together have so much room."""
    if one + other <= room:
        return one, other
    half = room // 2
    if other <= half:
        return room - other, other
    return (one, room - one) if one <= room - half else (room - half, half)


def add_format_tokens(own: Tokenizer, style: str, *, pairs: bool) -> Tokenizer:
    """The tokenizer with all tokens that a format needs; those that it lacks come after its own."""
    lacking = [name for name, there in _required_tokens(own, style, pairs=pairs).items() if not there]
    if not lacking:
        return own
    engine = Engine.from_str(own.json())
    engine.add_special_tokens(lacking)
    return Tokenizer(engine, own.how)


def added_token_ids(own: Tokenizer) -> list[int]:
    """The tokens at the end of a tokenizer that `fitted` may have put there."""
    known = {own.find_special(name) for name in (BEGIN, SEPARATOR, DELIMITER, EXTRACT)}
    first = next((id for id in range(own.vocab, 0, -1) if id - 1 not in known), 0)
    return list(range(first, own.vocab))


def build_format(own: Tokenizer, style: str, *, pairs: bool) -> InputFormat:
    """The format of this style with a tokenizer that has its tokens; one that leaves no room for text is an error."""
    found = _format_of_style(own, style, pairs=pairs)
    longest, texts = tokenizer_config(own).longest, 2 if pairs else 1
    if longest < found.around(texts) + texts:
        raise ValueError(
            f"tokenizer.longest is {longest} tokens, and {found.around(texts)} stand around "
            f"{'two texts' if pairs else 'a text'}: raise it to {found.around(texts) + texts} at least"
        )
    return found


def encode_texts(own: Tokenizer, form: InputFormat, given: Sequence[Texts]) -> list[EncodedText]:
    """Every text or pair as tokens."""
    how = tokenizer_config(own)
    flat = iter(own.encode_many([text for texts in given for text in texts]))
    found = []
    for texts in given:
        tokens = [next(flat) or empty_text_tokens(own) for _ in texts]
        found.append(form.lay(tokens[0], tokens[1] if len(tokens) > 1 else None, longest=how.longest, keep=how.keep))
    return found


def _required_tokens(own: Tokenizer, style: str, *, pairs: bool) -> dict[str, bool]:
    """Names of tokens that a style uses, and whether the tokenizer has them."""
    if style == "gpt":
        opens = own.begin is not None or own.end is not None
        return {BEGIN: opens, **{name: own.find_special(name) is not None for name in (DELIMITER, EXTRACT)}}
    separates = {SEPARATOR: own.separator is not None} if pairs or style == "bert" else {}
    return {**({BEGIN: own.begin is not None} if style == "bert" else {}), **separates}


def _format_of_style(own: Tokenizer, style: str, *, pairs: bool) -> InputFormat:
    if style == "gpt":
        start = own.role("end") if own.begin is None else own.begin
        delimiter, extract = own.find_special(DELIMITER), own.find_special(EXTRACT)
        assert delimiter is not None, "a token that was not added"
        assert extract is not None, "a token that was not added"
        return InputFormat((start,), (delimiter,), (extract,))
    if style == "bert":
        separator = own.role("separator")
        found = _template_format(own) or InputFormat((own.role("begin"),), (separator,), (separator,), closing=1)
        return replace(found, early=True)
    return InputFormat(between=(own.role("separator"),)) if pairs else InputFormat()


def _template_format(own: Tokenizer) -> InputFormat | None:
    """What a tokenizer itself puts around two texts; None where it puts nothing there."""
    engine = Engine.from_str(own.json())
    engine.no_padding()
    engine.no_truncation()
    coded = engine.encode("a", "b")
    sides = coded.sequence_ids
    if 0 not in sides or 1 not in sides:
        return None
    first, last = sides.index(0), len(sides) - sides[::-1].index(0)
    second, end = sides.index(1), len(sides) - sides[::-1].index(1)
    if not (first and last < second and end < len(sides)):
        return None
    before, between, after = (tuple(coded.ids[a:b]) for a, b in ((0, first), (last, second), (end, None)))
    return InputFormat(before, between, after, closing=coded.type_ids[last:second].count(0))
