"""Truecasing: restore the usual case of a text in capitals."""

from __future__ import annotations

import re

from regard.data.tokenizers import Tokenizer

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def restore_case(text: str, tokenizer: Tokenizer) -> str:
    """Rewrite a text in capitals with each word in the case that needs fewest tokens; return other texts unchanged.

    Frequent words are one token in their usual case: `like`, `Tom`, `USA`. Tokenizers of characters, or of texts in
    capitals, find nothing better.
    """
    if not text.isupper():
        return text
    words = WORD.findall(text)
    forms = [form for word in words for form in (word, word.lower(), word.capitalize())]
    sizes = iter([len(ids) for ids in tokenizer.encode_many(forms)])
    chosen = []
    for word in words:
        as_written, small, capital = next(sizes), next(sizes), next(sizes)
        form = word.lower() if small <= capital else word.capitalize()
        keep_case = as_written < min(small, capital) or (
            as_written == min(small, capital) > 1
        )  # an unknown acronym stays one
        chosen.append(word if keep_case or word == "I" else form)
    if chosen and chosen[0].islower():
        chosen[0] = chosen[0].capitalize()
    rest = iter(chosen)
    candidate = WORD.sub(lambda _: next(rest), text)
    shorter = len(tokenizer.encode(candidate)) < len(tokenizer.encode(text))
    return candidate if shorter else text
