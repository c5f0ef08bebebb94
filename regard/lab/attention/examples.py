"""The examples of attention by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from regard.config.words import suggest_name
from regard.lab.attention.dictionary import KEYS, soften_dictionary
from regard.lab.attention.masking import WORDS as MASKED_WORDS
from regard.lab.attention.masking import compare_masks
from regard.lab.attention.merging import merge_heads
from regard.lab.attention.permutation import WORDS, reverse_words
from regard.lab.attention.scaling import compare_depths
from regard.lab.attention.worked import attend_to_vectors, big_dog, columns_and_rows, thinking_machines
from regard.lab.demonstration import Demonstration
from regard.lab.typed_vectors import parse_vectors

EXAMPLES: Mapping[str, str] = {
    "thinking-machines": "scores 112 and 96 become weights .88 and .12",
    "big-dog": "three words, their weights and what these mix",
    "dictionary": "a dictionary made soft, then sharp again",
    "root": "the division by the root of the width",
    "permutation": "words in reverse order, with and without positions",
    "masks": "both directions, causal, window, padding",
    "heads": "heads concatenated or added up",
    "columns": "tokens as columns instead of rows",
}
MAX_WORDS, MAX_WORD_LENGTH = 12, 20  # that a picture has room for


def run_example(name: str, *, words: Sequence[str] = (), seed: int = 0) -> Demonstration:
    """Run an example by name; permutation and masks accept words, dictionary one of its keys."""
    if name not in EXAMPLES:
        raise ValueError(f"unknown example {name}{suggest_name(name, EXAMPLES)}")
    if words and name not in {"permutation", "masks", "dictionary"}:
        raise ValueError(f"{name} has words of its own: --words is for permutation, masks, dictionary and vectors")
    check_words(words)
    if name == "permutation" and words and list(words) == list(reversed(words)):
        raise ValueError(f"--words {' '.join(words)!r}: give words that are others in reverse order")
    if name == "dictionary":
        if len(words) > 1 or not set(words) <= KEYS.keys():
            raise ValueError(f"--words {' '.join(words)!r}: give one key of the dictionary, {', '.join(KEYS)}")
        return soften_dictionary(*words)
    examples: Mapping[str, Callable[[], Demonstration]] = {
        "thinking-machines": thinking_machines,
        "big-dog": big_dog,
        "root": lambda: compare_depths(seed=seed),
        "permutation": lambda: reverse_words(words or WORDS, seed=seed),
        "masks": lambda: compare_masks(words or MASKED_WORDS, seed=seed),
        "heads": lambda: merge_heads(seed=seed),
        "columns": lambda: columns_and_rows(seed=seed),
    }
    return examples[name]()


def check_words(words: Sequence[str]) -> None:
    """Raise ValueError if there are too many words for a figure, or one is too long."""
    if len(words) > MAX_WORDS or any(len(word) > MAX_WORD_LENGTH for word in words):
        raise ValueError(f"--words: give at most {MAX_WORDS} words of at most {MAX_WORD_LENGTH} letters")


def attend_to_typed_vectors(
    queries: str | None, keys: str | None, values: str | None, words: Sequence[str]
) -> Demonstration:
    """Attend with vectors in text form; queries and values default to the keys, which are required."""
    if keys is None:
        raise ValueError('give --keys too, such as --keys "1 0; 0 1"')
    key = parse_vectors("--keys", keys)
    query = key if queries is None else parse_vectors("--queries", queries)
    value = key if values is None else parse_vectors("--values", values)
    if len(query[0]) != len(key[0]):
        raise ValueError(f"--queries have {len(query[0])} features and --keys {len(key[0])}: give them as many")
    if len(value) != len(key):
        raise ValueError(f"--values: {len(value)} vectors for {len(key)} keys: give one for each key")
    if words and len(words) != len(key):
        raise ValueError(f"--words: {len(words)} words for {len(key)} keys: give one for each key")
    check_words(words)
    return attend_to_vectors(query, key, value, words=words)
