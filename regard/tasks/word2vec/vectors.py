"""Word vectors in use: neighbours, analogies, how well they agree with people, and files of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from regard import checkpoint
from regard.checkpoint import Checkpoint, CheckpointError
from regard.config.former_python_names import FormerName
from regard.data import vectors as files
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.metrics.vectors import nearest_words, solve_analogies, spearman, unit
from regard.tasks.inputs import WORD, InputKind, check_input
from regard.tasks.model_card import model_card
from regard.tasks.runner import Weights
from regard.tasks.trained import DirectAnswers, no_attention_error, resolve_options
from regard.tasks.word2vec.scoring import score_vectors
from regard.tasks.word2vec.word_benchmarks import Agreement, Judged, Question, SectionScore

VOCABULARY = "vocabulary.tsv"
Scored = tuple[str, float]


@dataclass(frozen=True, kw_only=True)
class NeighbourOptions:
    """Whatever may be set when neighbours of a word are looked for."""

    count: int = 10
    """Neighbours."""


@dataclass(frozen=True)
class Neighbours:
    """The words nearest to a word by cosine similarity."""

    word: str
    near: list[Scored]

    def __str__(self) -> str:
        return ", ".join(f"{word} {cosine:.3f}" for word, cosine in self.near)

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"word": self.word, "near": [{"word": word, "cosine": cosine} for word, cosine in self.near]}


@dataclass(frozen=True)
class TableRunner:
    """Looks up vectors by index, in CPU memory."""

    vectors: Float[np.ndarray, "vocab width"]

    @property
    def device(self) -> torch.device:
        """Return the CPU."""
        return torch.device("cpu")

    @property
    def weights(self) -> Weights:
        """Return the number of values in the table, and their bytes."""
        return Weights(self.vectors.size, self.vectors.nbytes)

    def __call__(self, places: Any) -> Float[np.ndarray, "words width"]:
        """Return the vectors at these indices."""
        return self.vectors[places]


class WordVectors(DirectAnswers):
    """A vocabulary, most frequent words first, with a vector for each word."""

    task: ClassVar[str] = "word2vec"
    verb: ClassVar[str] = "similar"
    kind: ClassVar[str] = "a table of word vectors"
    input_kind: ClassVar[InputKind] = WORD
    Options: ClassVar[type] = NeighbourOptions

    def __init__(
        self,
        words: Sequence[str],
        vectors: Float[np.ndarray, "vocab width"],
        counts: Sequence[int] | None = None,
        name: str = "vectors",
    ) -> None:
        assert len(words) == len(vectors), f"{len(words)} words and {len(vectors)} vectors"
        self.words, self.vectors, self.counts = list(words), vectors, None if counts is None else list(counts)
        self.name, self.model, self.runner = name, None, TableRunner(vectors)

    def __repr__(self) -> str:
        return f"<WordVectors {self.name}: {len(self.words):,} words, {self.vectors.shape[1]} features>"

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Neighbours]:
        """Return the nearest neighbours of each word; options are those of `NeighbourOptions`."""
        count = resolve_options(self, options).count
        return [Neighbours(word, self.similar(word, count=count)) for word in inputs]

    def evaluate(self, *files: str | Path, name: str | None = None) -> Scores:
        """Score the vectors on files of judged word pairs, or of analogies under headings `: section`."""
        return score_vectors(self, [str(file) for file in files], name or self.name)

    def look(self, word: Any, **options: Any) -> Trace:
        """Raise an error, since a table of vectors has no attention."""
        raise no_attention_error(self, "see its neighbours, or a map of words")

    def attention_names(self) -> list[str]:
        """Return an empty list, since a table of vectors has no attention."""
        return []

    @classmethod
    def load(cls, saved: Checkpoint, *, device: Any = None) -> WordVectors:
        """Load the vectors of a checkpoint; they stay on the CPU, whatever the device."""
        lines = saved.text(VOCABULARY).split("\n")[:-1]
        tensors = saved.finite_tensors()
        if "vectors" not in tensors or tensors["vectors"].dim() != 2 or len(tensors["vectors"]) != len(lines):
            raise CheckpointError(f"{saved.directory}: its vectors are not those of its {len(lines)} words")
        entries = [line.split("\t") for line in lines]
        try:
            words, counts = [entry[0] for entry in entries], [int(entry[1]) for entry in entries]
        except (IndexError, ValueError):
            raise CheckpointError(f"{saved.directory}: {VOCABULARY} is not a word and its count a line") from None
        return cls(words, tensors["vectors"].float().numpy(), counts, saved.directory.name)

    @classmethod
    def read(cls, name: str) -> WordVectors:
        """Read the vectors from a file in word2vec's text format."""
        return cls(*files.read(name))

    def save(self, directory: Path, *, config: Mapping[str, Any] | None = None, **facts: Any) -> None:
        """Write a checkpoint directory; `facts` go into its manifest."""
        checkpoint.write(directory, {**self.contents(config), **self.weights()}, facts=facts)

    def export(self, path: Path) -> None:
        """Write a file in word2vec's text format."""
        files.write(path, self.words, self.vectors)

    def weights(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return the checkpoint file with the vectors."""
        return {"model.safetensors": {"vectors": torch.from_numpy(np.ascontiguousarray(self.vectors, np.float32))}}

    def contents(self, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the other files of a checkpoint."""
        counts = self.counts or [0] * len(self.words)  # files of other makers tell no counts
        lines = "".join(f"{word}\t{count}\n" for word, count in zip(self.words, counts, strict=True))
        settings = {"format": 1, "task": "word2vec", **(config or {"model": {"width": self.vectors.shape[1]}})}
        return {"config.yaml": settings, VOCABULARY: lines, "README.md": self._card()}

    def similar(self, word: str, *, count: int = 10) -> list[Scored]:
        """Return the nearest words by cosine similarity."""
        place = self.index_of(check_input(word, WORD, verb=self.verb))
        neighbours = nearest_words(self.unit_vectors, self.unit_vectors[place], count=count, without=[place])
        return [(self.words[near], cosine) for near, cosine in neighbours]

    def analogy(self, first: str, second: str, third: str, *, count: int = 5) -> list[Scored]:
        """Return the answers to first : second = third : ?, the nearest words to second - first + third."""
        first_row, second_row, third_row = (self.index_of(word) for word in (first, second, third))
        query = self.unit_vectors[second_row] - self.unit_vectors[first_row] + self.unit_vectors[third_row]
        neighbours = nearest_words(self.unit_vectors, query, count=count, without=[first_row, second_row, third_row])
        return [(self.words[near], cosine) for near, cosine in neighbours]

    def agreement(self, pairs: Sequence[Judged]) -> Agreement:
        """Return Spearman's correlation between cosines and human similarity judgements of word pairs."""
        places = [(self.find(first), self.find(second), score) for first, second, score in pairs]
        known_pairs = [
            (first, second, score) for first, second, score in places if first is not None and second is not None
        ]
        cosines = np.array(
            [float(self.unit_vectors[first] @ self.unit_vectors[second]) for first, second, _ in known_pairs]
        )
        rho = (
            spearman(cosines, np.array([score for *_, score in known_pairs])) if len(known_pairs) > 1 else float("nan")
        )
        return Agreement(rho, len(known_pairs), len(pairs))

    def analogies(self, sections: Mapping[str, Sequence[Question]]) -> list[SectionScore]:
        """Return the number of right answers in every section."""
        section_scores = []
        for name, questions in sections.items():
            places = [[self.find(word) for word in question] for question in questions]
            known_questions = np.array([place for place in places if None not in place], np.int64).reshape(-1, 4)
            right = int((solve_analogies(self.unit_vectors, known_questions[:, :3]) == known_questions[:, 3]).sum())
            section_scores.append(SectionScore(name, right, len(known_questions), len(questions)))
        return section_scores

    def find(self, word: str) -> int | None:
        """Return the index of a word or of its lower-case form; None if neither is known."""
        place = self._places.get(word)
        return self._places.get(word.lower()) if place is None else place

    def index_of(self, word: str) -> int:
        """Return the index of a word; an unknown word is an error."""
        place = self.find(word)
        if place is None:
            alike = [
                candidate
                for candidate in self.words
                if candidate[:1] == word[:1].lower() and abs(len(candidate) - len(word)) < 3
            ]
            close = difflib.get_close_matches(word.lower(), alike, n=3, cutoff=0.7)
            hint = f", did you mean {' or '.join(close)}?" if close else ""
            raise ValueError(f"{word!r} is none of the {len(self.words):,} words that have a vector{hint}")
        return place

    @cached_property
    def unit_vectors(self) -> Float[np.ndarray, "vocab width"]:
        """Return the vectors normalised to length 1."""
        return unit(self.vectors)

    place = FormerName("index_of")
    units = FormerName("unit_vectors")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def _card(self) -> str:
        count, width = self.vectors.shape
        return model_card(
            "Word vectors",
            f"{count:,} words, {width} numbers each, made with Regard. Other programs read what "
            "`regard words export DIRECTORY -o vectors.txt` writes.",
            command="regard words similar DIRECTORY word",
            code='similar("word")',
        )
