"""Contextual vectors of one word in several sentences, compared with its static vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.attention.masks import Row
from regard.data.tokenizers.tokenizer import WORD
from regard.tasks.embedding.embedder import Embedder

AROUND = 18  # characters of context shown on each side of a word


@dataclass(frozen=True)
class Use:
    """An occurrence of a word in a sentence."""

    sentence: int
    """Number of the sentence, from 1."""
    shown: str
    """The word with some context."""


@dataclass(frozen=True)
class Uses:
    """All occurrences of a word with their contextual vectors, and the mean input embedding of its tokens."""

    word: str
    uses: list[Use]
    vectors: Float[np.ndarray, "use width"]
    static: Float[np.ndarray, "width"]

    @property
    def cosines(self) -> Float[np.ndarray, "one other"]:
        """Cosines between all vectors; the last row and column belong to the static vector."""
        vectors = np.concatenate([self.vectors, self.static[None]]).astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return vectors @ vectors.T

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        cosines = self.cosines.round(6)
        return {
            "word": self.word,
            "uses": [{"sentence": use.sentence, "shown": use.shown} for use in self.uses],
            "cosines": cosines[:-1, :-1].tolist(),
            "static": cosines[:-1, -1].tolist(),
        }


def find_uses(embedder: Embedder, word: str, sentences: Sequence[str]) -> Uses:
    """Find all occurrences of a word; the vector of each is the mean of its tokens' last hidden states."""
    if len(WORD.findall(word)) != 1 or not word.strip():
        raise ValueError(f"{word!r} is not one word: give a single one")
    word = word.strip()
    word_uses, vectors = list[Use](), list[np.ndarray]()
    for number, sentence in enumerate(sentences, start=1):
        places = _find_word(embedder, word, sentence)
        if not places:
            raise ValueError(f"sentence {number} has no word {word!r}: {sentence[:60]!r}")
        features = _features(embedder, sentence)
        for shown, tokens in places:
            word_uses.append(Use(number, shown))
            vectors.append(features[tokens].mean(axis=0))
    word_ids = embedder.tokenizer.encode(word)
    static = embedder.model.embedding.weight[word_ids].detach().float().mean(0).cpu().numpy()
    return Uses(word, word_uses, np.stack(vectors), static)


def _find_word(embedder: Embedder, word: str, sentence: str) -> list[tuple[str, list[int]]]:
    """Return each occurrence of a word in a sentence: an excerpt, and the positions of its tokens."""
    text = embedder.tokenizer.how.normal(sentence.strip())
    ids = embedder.tokenizer.encode(text)
    before, after = embedder.frame
    room = embedder.model.config.context - len(before) - len(after)
    if len(ids) > room:
        raise ValueError(f"{len(ids)} tokens in one sentence, the model reads {room}: give a shorter one")
    owners = embedder.tokenizer.words(ids, text)
    places = []
    for number, match in enumerate(WORD.finditer(text)):
        tokens = [len(before) + place for place, owner in enumerate(owners) if owner == number]
        if match[0].casefold() == word.casefold() and tokens:
            places.append((_excerpt(text, match.start(), match.end()), tokens))
    return places


def _excerpt(text: str, begin: int, end: int) -> str:
    """Return a word with up to `AROUND` characters of whole words on each side."""
    before, after = text[:begin], text[end:]
    before = before if len(before) <= AROUND else before[-AROUND:].partition(" ")[2]
    after = after if len(after) <= AROUND else after[:AROUND].rpartition(" ")[0]
    return f"{before}{text[begin:end]}{after}".strip()


@torch.no_grad()
def _features(embedder: Embedder, sentence: str) -> Float[np.ndarray, "token width"]:
    before, after = embedder.frame
    text = embedder.tokenizer.how.normal(sentence.strip())
    ids = [*before, *embedder.tokenizer.encode(text), *after]
    row = Row.of([len(ids)]).to(embedder.device)
    return embedder.model(torch.tensor(ids, device=embedder.device), layout=row).float().cpu().numpy()
