"""Encoding of tagged sentences in chunks that fit the maximum length of a model."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers import Tokenizer
from regard.tasks.text_encoders.input_format import InputFormat
from regard.tasks.text_encoders.text_tokenizer import encode_words, tokenizer_config

Chunk = tuple[list[tuple[int, int]], list[int]]  # ([(word number, position of its labelled token)], token ids)
PLAIN_FORMAT = InputFormat()


def encode_sentences(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], input_format: InputFormat = PLAIN_FORMAT
) -> list[list[Chunk]]:
    """Encode each sentence in chunks of limited length, with the position of each word's labelled token.

    This is the last token of a word, when the whole word has been read, or the first if the format says so.
    """
    before, after = list(input_format.before), list(input_format.after)
    room = tokenizer_config(tokenizer).max_length - input_format.num_special_tokens(1)
    encoded = []
    for sentence in encode_words(tokenizer, sentences, as_in_text=bool(before), longest=room):
        chunks: list[Chunk] = [([], [*before])] if sentence else []
        for number, word_tokens in enumerate(sentence):
            if len(chunks[-1][1]) - len(before) + len(word_tokens) > room:
                chunks.append(([], [*before]))
            word_positions, ids = chunks[-1]
            word_positions.append(
                (number, len(ids) if input_format.labels_first_token else len(ids) + len(word_tokens) - 1)
            )
            ids.extend(word_tokens)
        for _, ids in chunks:
            ids.extend(after)
        encoded.append(chunks)
    return encoded
