"""What vectors of texts are worth beside what needs no learning: words in common, and chance.

    python scripts/embedding_controls.py pairs.tsv.gz runs/encoder-matching
    python scripts/embedding_controls.py SICK_test_annotated.txt runs/minilm --columns 2 3 --rating 4

Each is scored as `regard evaluate` scores a model: how often the partner is the nearest text, from either side, among
all of the file; with a rating, the correlation of cosines with what people said. `words` are vectors of the words of a
text, weighted by how rare they are in the file (TF-IDF); `chance` are random vectors, the same for the same text.
"""

import argparse
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from regard import recipe
from regard.data.holdout import sentence
from regard.data.readers import Corpus
from regard.metrics.scores import Scores
from regard.tasks.embedding import pairs, rated, scoring

WORD = re.compile(r"\w+")
WIDTH = 1 << 13  # features that words are dealt to
Embed = Callable[[Sequence[str]], np.ndarray]


def words(text: str) -> list[str]:
    """The words of a text in small letters."""
    return WORD.findall(text.casefold())


def in_common(texts: Sequence[str]) -> Embed:
    """Vectors whose product is the share of words in common, rare ones of these texts counting more."""
    counts = Counter(word for text in texts for word in set(words(text)))

    def embed(some: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(some), WIDTH), np.float32)
        for row, text in zip(found, some, strict=True):
            for word in words(text):
                row[zlib.crc32(word.encode()) % WIDTH] += math.log((1 + len(texts)) / (1 + counts[word])) + 1
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)

    return embed


def chance(some: Sequence[str]) -> np.ndarray:
    """Random vectors of length 1."""
    drawn = [np.random.default_rng(sentence(text)).normal(size=64) for text in some]
    return np.stack([each / np.linalg.norm(each) for each in drawn]).astype(np.float32)


def scored(file: Path, columns: tuple[int, int], rating: int | None, models: dict[str, Embed]) -> list[Scores]:
    """The controls and the models, one after the other."""
    if rating is None:
        found, _ = pairs.read([Corpus(path=str(file), columns=columns)], 0.0)
        texts = [text for pair in found.texts for text in pair]
    else:
        judged = rated.read([file], columns, rating)
        texts = [text for one, other, _ in judged for text in (one, other)]
    systems = {"words": in_common(texts), "chance": chance, **models}
    if rating is None:
        return [
            scoring.score_retrieval(name, "matching", scoring.rank_partners(embed, found))
            for name, embed in systems.items()
        ]
    return [rated.score_ratings(name, "matching", embed, judged) for name, embed in systems.items()]


def main() -> None:
    """Score and print a line for each metric of each system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="pairs between tabs, gzipped or not")
    parser.add_argument("models", nargs="*", help="run folders or checkpoints")
    parser.add_argument("--columns", type=int, nargs=2, default=(1, 2), help="columns of the two texts, from 1")
    parser.add_argument("--rating", type=int, help="column of what people said of a pair")
    asked = parser.parse_args()
    models = {str(name): recipe.load(name, task="matching").units for name in asked.models}
    for scores in scored(asked.file, tuple(asked.columns), asked.rating, models):
        print(scores.name)
        for metric, value in scores.metrics.items():
            print(f"  {metric:45} {value:8.3f} ± {scores.intervals[metric].half:.3f}")


if __name__ == "__main__":
    main()
