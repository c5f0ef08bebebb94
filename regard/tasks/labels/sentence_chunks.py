"""Sentences whose words have labels, as tokens in pieces that a model can hold."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers import Tokenizer
from regard.tasks.labels.input_format import InputFormat
from regard.tasks.labels.text_tokenizer import encode_words, tokenizer_config

Chunk = tuple[list[tuple[int, int]], list[int]]  # (number of a word, place of the token that tells it); all tokens
PLAIN_FORMAT = InputFormat()


def encode_sentences(
    own: Tokenizer, sentences: Sequence[Sequence[str]], form: InputFormat = PLAIN_FORMAT
) -> list[list[Chunk]]:
    """The tokens of each sentence in pieces that are not too long, each with its words.

    What a word is, is told at its last token, when all of it has been read, or early at its first.
    """
    before, after = list(form.before), list(form.after)
    room = tokenizer_config(own).longest - form.around(1)
    found = []
    for sentence in encode_words(own, sentences, apart=bool(before), longest=room):
        pieces: list[Chunk] = [([], [*before])] if sentence else []
        for number, tokens in enumerate(sentence):
            if len(pieces[-1][1]) - len(before) + len(tokens) > room:
                pieces.append(([], [*before]))
            words, ids = pieces[-1]
            words.append((number, len(ids) if form.early else len(ids) + len(tokens) - 1))
            ids.extend(tokens)
        for _, ids in pieces:
            ids.extend(after)
        found.append(pieces)
    return found
