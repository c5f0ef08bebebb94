"""A trained similarity model in use: ratings of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard.checkpoint import Checkpoint
from regard.interpret.items import Item
from regard.interpret.trace import Trace
from regard.metrics.correlation import pearson, spearman
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.inputs import PAIR, InputKind, Inputs, check_files, list_inputs
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.text_encoders.evaluation_files import TrainedLayout
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.input_format import EncodedText, encode_texts
from regard.tasks.text_encoders.trained_encoder import BATCH_TOKENS, LABEL_ITEMS
from regard.tasks.text_labels.files import RatedFile
from regard.tasks.text_labels.preparation import build_dataset
from regard.tasks.text_labels.similarity import rate_pairs, rating_metrics, sum_readings
from regard.tasks.text_labels.text_labeller import TextLabeller
from regard.tasks.text_labels.text_pairs import Pair, both_orders, pair_column_names, parse_pair, read_pairs
from regard.tasks.trained import resolve_options

MAX_SHOWN_CHARACTERS = 300  # characters of a pair shown in a report


@dataclass(frozen=True)
class Rating:
    """A pair of texts and its rated similarity, on the scale of the training data."""

    texts: Pair
    score: float

    def __str__(self) -> str:
        return f"{self.score:.3f}"

    def plain(self) -> dict[str, Any]:
        """Return the rating as JSON."""
        return {"texts": list(self.texts), "score": round(self.score, 6)}


class Rater(TextLabeller):
    """Rates the similarity of two texts."""

    file = RatedFile
    task: ClassVar[str] = "similarity"
    verb: ClassVar[str] = "rate"
    kind: ClassVar[str] = "a model of similarity"
    input_kind: ClassVar[InputKind] = PAIR
    pairs: ClassVar[bool] = True
    scale: tuple[float, float]

    @classmethod
    def pair_class(cls) -> Any:
        """Return this class, as pairs are its only input."""
        return cls

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Rater:
        """Load the model of a checkpoint directory."""
        rater = super().load(checkpoint, device=device)
        mean, deviation = (float(value) for value in checkpoint.config["scale"])
        rater.scale = (mean, deviation)
        return rater

    @property
    def inputs(self) -> Inputs:
        """Pairs of texts; of a file, those in its columns."""
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read)

    def parse(self, text: str) -> Pair:
        """Parse two texts with a tab between them, or a JSON object."""
        return parse_pair(text, pair_column_names(self.data))

    def read(self, path: Path) -> list[Pair]:
        """Read the pairs of a file."""
        *columns, _ = self.data["file"].get("columns") or (None,)
        return read_pairs(path, pair_column_names(self.data), columns)

    def answer(self, inputs: Sequence[Pair], **options: Any) -> list[Rating]:
        """Rate pairs of texts."""
        resolve_options(self, options)
        return self.rate(inputs)

    @torch.no_grad()
    def rate(self, pairs: Any) -> list[Rating]:
        """Rate the similarity of each pair of texts."""
        pair_list: list[Any] = [tuple(pair) for pair in list_inputs(pairs, PAIR, verb=self.verb)]
        encoded_pairs = [self._encode(pair) for pair in pair_list]

        def rate_batch(batch: list[int]) -> list[float]:
            logits = self._logits([order for number in batch for order in encoded_pairs[number]])
            return sum_readings(logits, len(encoded_pairs[0])).tolist()

        lengths = [sum(len(order.tokens) for order in orders) for orders in encoded_pairs]
        scores = answer_by_length(lengths, rate_batch, budget=BATCH_TOKENS)
        return [
            Rating(pair, score * self.scale[1] + self.scale[0]) for pair, score in zip(pair_list, scores, strict=True)
        ]

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Return correlations with the ratings of files; `changes` are settings of the files, such as columns."""
        check_files(self, paths, "rated pairs of texts")
        rated_files, notes = TrainedLayout(self.file, self.data).open_files(paths, changes)
        examples = read_examples(rated_files, self.data["names"], reject=0.0)
        dataset = build_dataset(examples, self.tokenizer, [], self.style)
        ratings = rate_pairs(self.runner, dataset, self.scale, tokens=BATCH_TOKENS)
        true_ratings = np.asarray(dataset.labels, np.float64)
        errors = np.abs(ratings - true_ratings)
        judged = [
            Judged(
                number + 1, " | ".join(texts)[:MAX_SHOWN_CHARACTERS], f"{true_rating:g}", f"{rating:.3g}", float(error)
            )
            for number, (texts, true_rating, rating, error) in enumerate(
                zip(dataset.texts, true_ratings, ratings, errors, strict=True)
            )
        ]
        return Scores(
            name or self.name,
            self.task,
            {
                "Pearson": pearson(ratings, true_ratings),
                "Spearman": spearman(ratings, true_ratings),
                "mean error": mean_statistics(errors, lower=True),
            },
            judged,
            details=rating_metrics(ratings, true_ratings, self.scale),
            notes=notes,
            unit="pair",
            counted="error",
            lower_is_better=True,
        )

    def look(self, pair: Pair) -> Trace:
        """Rate a pair and return the weights of all attentions, for the pair in the given order."""
        [encoded, *_] = self._encode(pair)
        _, weights = self._watch_attention(encoded)
        [rating] = self.rate(pair)
        items = {"source": self._items(encoded.tokens, []), LABEL_ITEMS: [Item(str(rating), word=0)]}
        return self._build_trace(encoded, weights, items, {"text": " | ".join(pair), "answer": str(rating)})

    def _rank_predictions(self, trace: Trace, outputs: Any) -> list[Any]:
        """Return nothing: there are no labels to choose from."""
        return []

    def count_tokens(self, item: Any) -> int | None:
        """Return the number of tokens of a pair, in each order in which it is read."""
        return sum(len(encoded.tokens) for encoded in self._encode(item))

    def _encode(self, pair: Pair) -> list[EncodedText]:
        """Tokenise a pair in the given order, or in both orders."""
        return encode_texts(self.tokenizer, self.format, both_orders(pair) if self.style == "gpt" else [pair])
