"""Input formats of texts and pairs: the special tokens around and between texts, and the segments of tokens.

BERT reads `<begin> a <sep> b <sep>` with two segments, or the template of an imported tokenizer, such as RoBERTa's
`<s> a </s></s> b </s>`; GPT reads `start a <delimiter> b <extract>` (Radford et al. 2018); the other models read `a`,
or `a <sep> b`. Tokens that a tokenizer lacks are added at the end of its vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tokenizers import Tokenizer as Engine

from regard.data.tokenizers import Tokenizer
from regard.tasks.text_encoders.text_tokenizer import empty_text_tokens, tokenizer_config

BEGIN, SEPARATOR, DELIMITER, EXTRACT = "<bos>", "<sep>", "<delimiter>", "<extract>"
Texts = tuple[str, ...]  # one text or a pair


class EncodedText(NamedTuple):
    """Token ids of a text or a pair, and the start of the second text."""

    tokens: list[int]
    second_start: int


@dataclass(frozen=True)
class InputFormat:
    """The special tokens before a text or a pair, between the two, and after the last."""

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first_text_separators: int = 0
    """Number of separators that belong to the segment of the first text."""
    labels_first_token: bool = False
    """True if a word is labelled at its first token (bidirectional models), else at its last."""

    def num_special_tokens(self, texts: int) -> int:
        """Return the number of special tokens added to one text or two."""
        return len(self.before) + len(self.after) + (len(self.between) if texts > 1 else 0)

    def combine(
        self, first: Sequence[int], second: Sequence[int] | None, *, longest: int, keep: str = "begin"
    ) -> EncodedText:
        """Combine the tokens of one or two texts into at most `longest` tokens; the longer text is truncated first."""
        room = longest - self.num_special_tokens(1 if second is None else 2)
        if second is None:
            tokens = [*self.before, *truncate(first, room, keep), *self.after]
            return EncodedText(tokens, len(tokens))
        first_length, second_length = truncated_lengths(len(first), len(second), room)
        head = [*self.before, *truncate(first, first_length, keep), *self.between]
        tokens = [*head, *truncate(second, second_length, keep), *self.after]
        return EncodedText(tokens, len(head) - len(self.between) + self.first_text_separators)


def truncate(tokens: Sequence[int], limit: int, keep: str) -> Sequence[int]:
    """Return at most `limit` tokens of a text, from its beginning or its end."""
    return tokens[:limit] if keep == "begin" or len(tokens) <= limit else tokens[len(tokens) - limit :]


def truncated_lengths(first: int, second: int, room: int) -> tuple[int, int]:
    """Return the lengths of two texts truncated to a total of `room` tokens."""
    if first + second <= room:
        return first, second
    half = room // 2
    if second <= half:
        return room - second, second
    return (first, room - first) if first <= room - half else (room - half, half)


def add_format_tokens(tokenizer: Tokenizer, style: str, *, pairs: bool) -> Tokenizer:
    """Return the tokenizer with all special tokens of a format; missing ones are added at the end."""
    missing = [name for name, is_known in _required_tokens(tokenizer, style, pairs=pairs).items() if not is_known]
    if not missing:
        return tokenizer
    engine = Engine.from_str(tokenizer.json())
    engine.add_special_tokens(missing)
    return Tokenizer(engine, tokenizer.how)


def format_token_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of tokens at the end of a vocabulary that `add_format_tokens` may have added."""
    special_ids = {tokenizer.find_special(name) for name in (BEGIN, SEPARATOR, DELIMITER, EXTRACT)}
    first = next((id for id in range(tokenizer.vocab, 0, -1) if id - 1 not in special_ids), 0)
    return list(range(first, tokenizer.vocab))


def build_format(tokenizer: Tokenizer, style: str, *, pairs: bool) -> InputFormat:
    """Return the format of this style for a tokenizer; a maximum length without room for text is an error."""
    input_format = _format_of_style(tokenizer, style, pairs=pairs)
    longest, text_count = tokenizer_config(tokenizer).max_length, 2 if pairs else 1
    special_tokens = input_format.num_special_tokens(text_count)
    if longest < special_tokens + text_count:
        raise ValueError(
            f"tokenizer.max_length is {longest} tokens, and {special_tokens} stand around "
            f"{'two texts' if pairs else 'a text'}: raise it to {special_tokens + text_count} at least"
        )
    return input_format


def encode_texts(tokenizer: Tokenizer, input_format: InputFormat, examples: Sequence[Texts]) -> list[EncodedText]:
    """Tokenise texts or pairs, with the special tokens of a format."""
    config = tokenizer_config(tokenizer)
    token_ids = iter(tokenizer.encode_many([text for texts in examples for text in texts]))
    encoded = []
    for texts in examples:
        text_tokens = [next(token_ids) or empty_text_tokens(tokenizer) for _ in texts]
        encoded.append(
            input_format.combine(
                text_tokens[0],
                text_tokens[1] if len(text_tokens) > 1 else None,
                longest=config.max_length,
                keep=config.keep,
            )
        )
    return encoded


def _required_tokens(tokenizer: Tokenizer, style: str, *, pairs: bool) -> dict[str, bool]:
    """Return the names of the special tokens that a style uses, and whether the tokenizer has them."""
    if style == "gpt":
        has_begin = tokenizer.begin is not None or tokenizer.end is not None
        return {BEGIN: has_begin, **{name: tokenizer.find_special(name) is not None for name in (DELIMITER, EXTRACT)}}
    separator = {SEPARATOR: tokenizer.separator is not None} if pairs or style == "bert" else {}
    return {**({BEGIN: tokenizer.begin is not None} if style == "bert" else {}), **separator}


def _format_of_style(tokenizer: Tokenizer, style: str, *, pairs: bool) -> InputFormat:
    if style == "gpt":
        start = tokenizer.role("end") if tokenizer.begin is None else tokenizer.begin
        delimiter, extract = tokenizer.find_special(DELIMITER), tokenizer.find_special(EXTRACT)
        assert delimiter is not None, "a token that was not added"
        assert extract is not None, "a token that was not added"
        return InputFormat((start,), (delimiter,), (extract,))
    if style == "bert":
        separator = tokenizer.role("separator")
        input_format = _template_format(tokenizer) or InputFormat(
            (tokenizer.role("begin"),), (separator,), (separator,), first_text_separators=1
        )
        return replace(input_format, labels_first_token=True)
    return InputFormat(between=(tokenizer.role("separator"),)) if pairs else InputFormat()


def _template_format(tokenizer: Tokenizer) -> InputFormat | None:
    """Return the format of a tokenizer's own template for two texts, or None if it has none."""
    engine = Engine.from_str(tokenizer.json())
    engine.no_padding()
    engine.no_truncation()
    encoding = engine.encode("a", "b")
    text_numbers = encoding.sequence_ids
    if 0 not in text_numbers or 1 not in text_numbers:
        return None
    first, last = text_numbers.index(0), len(text_numbers) - text_numbers[::-1].index(0)
    second, end = text_numbers.index(1), len(text_numbers) - text_numbers[::-1].index(1)
    if not (first and last < second and end < len(text_numbers)):
        return None
    before, between, after = (tuple(encoding.ids[a:b]) for a, b in ((0, first), (last, second), (end, None)))
    return InputFormat(before, between, after, first_text_separators=encoding.type_ids[last:second].count(0))
