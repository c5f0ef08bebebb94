"""A trained model of similarity in use: a score for each pair, correlations on a file, where it looked."""

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
from regard.tasks.labels.evaluation_files import TrainedLayout
from regard.tasks.labels.files import RatedFile, read_examples
from regard.tasks.labels.input_format import EncodedText, encode_texts
from regard.tasks.labels.preparation import build_dataset
from regard.tasks.labels.similarity import rate_pairs, rating_metrics, sum_readings
from regard.tasks.labels.text_labeller import BATCH_TOKENS, LABEL_ITEMS, TextLabeller
from regard.tasks.labels.text_pairs import Pair, both_orders, pair_column_names, parse_pair, read_pairs
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.trained import chosen

MAX_SHOWN_CHARACTERS = 300  # characters of a pair that are shown


@dataclass(frozen=True)
class Rating:
    """A pair of texts, and how alike they are, on the scale of the training data."""

    texts: Pair
    score: float

    def __str__(self) -> str:
        return f"{self.score:.3f}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"texts": list(self.texts), "score": round(self.score, 6)}


class Rater(TextLabeller):
    """Says how alike two texts are."""

    file = RatedFile
    task: ClassVar[str] = "similarity"
    verb: ClassVar[str] = "rate"
    kind: ClassVar[str] = "a model of similarity"
    input_kind: ClassVar[InputKind] = PAIR
    pairs: ClassVar[bool] = True
    scale: tuple[float, float]

    @classmethod
    def pair_class(cls) -> Any:
        """It reads nothing else."""
        return cls

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Rater:
        """The one a checkpoint directory holds."""
        found = super().load(checkpoint, device=device)
        mean, deviation = (float(each) for each in checkpoint.config["scale"])
        found.scale = (mean, deviation)
        return found

    @property
    def inputs(self) -> Inputs:
        """Pairs of texts, of a file those in its columns."""
        return Inputs(kind=self.input_kind, parse=self.parse, read=self.read)

    def parse(self, text: str) -> Pair:
        """Two texts with a tab between them, or an object of JSON."""
        return parse_pair(text, pair_column_names(self.data))

    def read(self, path: Path) -> list[Pair]:
        """The pairs of a file."""
        *columns, _ = self.data["file"].get("columns") or (None,)
        return read_pairs(path, pair_column_names(self.data), columns)

    def answer(self, inputs: Sequence[Pair], **options: Any) -> list[Rating]:
        """How alike the texts of each pair are."""
        chosen(self, options)
        return self.rate(inputs)

    @torch.no_grad()
    def rate(self, given: Any) -> list[Rating]:
        """How alike the texts of each pair are."""
        listed: list[Any] = [tuple(pair) for pair in list_inputs(given, PAIR, verb=self.verb)]
        laid = [self._encode(pair) for pair in listed]

        def answer(batch: list[int]) -> list[float]:
            return sum_readings(self._logits([one for number in batch for one in laid[number]]), len(laid[0])).tolist()

        scores = answer_by_length([sum(len(one.tokens) for one in ways) for ways in laid], answer, budget=BATCH_TOKENS)
        return [Rating(pair, score * self.scale[1] + self.scale[0]) for pair, score in zip(listed, scores, strict=True)]

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Correlations with the scores of files; `changes` are settings of the files, such as columns."""
        check_files(self, paths, "rated pairs of texts")
        read, notes = TrainedLayout(self.file, self.data).open_files(paths, changes)
        side = build_dataset(read_examples(read, self.data["names"], reject=0.0), self.tokenizer, [], self.style)
        answers = rate_pairs(self.model, side, self.scale, tokens=BATCH_TOKENS)
        truth = np.asarray(side.labels, np.float64)
        off = np.abs(answers - truth)
        examples = [
            Judged(number + 1, " | ".join(words)[:MAX_SHOWN_CHARACTERS], f"{right:g}", f"{told:.3g}", float(missed))
            for number, (words, right, told, missed) in enumerate(zip(side.texts, truth, answers, off, strict=True))
        ]
        return Scores(
            name or self.name,
            self.task,
            {
                "Pearson": pearson(answers, truth),
                "Spearman": spearman(answers, truth),
                "mean error": mean_statistics(off, lower=True),
            },
            examples,
            details=rating_metrics(answers, truth, self.scale),
            notes=notes,
            unit="pair",
            counted="error",
            lower_is_better=True,
        )

    def look(self, given: Pair) -> Trace:
        """Rate a pair and keep where the model looked, in the order in which it is given."""
        [laid, *_] = self._encode(given)
        _, weights = self._watch_attention(laid)
        [rating] = self.rate(given)
        items = {"source": self._items(laid.tokens, []), LABEL_ITEMS: [Item(str(rating), word=0)]}
        return self._build_trace(laid, weights, items, {"text": " | ".join(given), "answer": str(rating)})

    def _predictions(self, trace: Trace, probabilities: Any) -> list[Any]:
        """There are no labels to choose from."""
        return []

    def _encode(self, pair: Pair) -> list[EncodedText]:
        """A pair as the model reads it: in one order, or in both."""
        return encode_texts(self.tokenizer, self.format, both_orders(pair) if self.style == "gpt" else [pair])
