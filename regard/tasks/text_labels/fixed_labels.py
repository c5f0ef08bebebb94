"""The labels of texts, read again while the model is disturbed: what checks of its looks are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.interpret.items import Item
from regard.interpret.measure.fixed_answers import FixedAnswers, Gap, Ranking, list_heads
from regard.interpret.measure.gradients import gradient_times_input, in_chunks
from regard.interpret.measure.patterns import rollout_layers
from regard.interpret.watch import watch
from regard.interpret.words import Unit, group_items
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.text_encoders.input_format import EncodedText
from regard.tasks.text_encoders.trained_encoder import BATCH_TOKENS, TrainedEncoder

POOL = "pool"  # the attention from the label to the tokens
LOOKS = ("attention", "rollout")
Tell = Callable[[int], None]


@dataclass(frozen=True)
class LabelledText:
    """A text as the model reads it, with its label or the labels of its words."""

    encoded: EncodedText
    items: Sequence[Item]
    """Its tokens, after what the model puts in front of them."""
    labels: Sequence[int]
    places: Sequence[int] | None = None
    """The tokens that labels belong to; None if the text as a whole has the only one."""

    @property
    def shift(self) -> int:
        """Return how many items the model puts in front of the tokens."""
        return len(self.items) - len(self.encoded.tokens)

    @property
    def words(self) -> list[Unit]:
        """Return the words, with the places of their tokens."""
        return group_items(self.items[self.shift :])

    @property
    def rows(self) -> list[int]:
        """Return the rows of the logits that labels are read from."""
        return [0] if self.places is None else list(self.places)

    def labels_of(self, word: Unit) -> list[int]:
        """Return the numbers of the labels of a word; none if the label is that of the whole text."""
        return [number for number, place in enumerate(self.places or ()) if place in word.places]

    def drop(self, word: Unit) -> EncodedText:
        """Return the text without a word."""
        tokens = [token for place, token in enumerate(self.encoded.tokens) if place not in word.places]
        before = sum(place < self.encoded.second_start for place in word.places)
        return EncodedText(tokens, self.encoded.second_start - before)

    def without(self, word: Unit) -> LabelledText:
        """Return the text without a word and without the label of that word, if words have labels."""
        if self.places is None:
            return LabelledText(self.drop(word), (), self.labels)
        rest = [
            (label, place - sum(dropped < place for dropped in word.places))
            for label, place in zip(self.labels, self.places, strict=True)
            if place not in word.places
        ]
        return LabelledText(self.drop(word), (), [label for label, _ in rest], [place for _, place in rest])


class FixesLabels(TrainedEncoder):
    """A trained model that labels texts or their words, and reads its labels again while it is disturbed."""

    def label_text(self, text: Any) -> LabelledText:
        """Return a text with what the model labels it."""
        raise NotImplementedError

    def fix_answers(self, inputs: Sequence[Any], *, tell: Tell) -> FixedAnswers:
        """Return the model with its labels of these texts; `tell` counts what is about to be read."""
        texts = [self.label_text(text) for text in inputs]

        def read() -> list[Tensor]:
            tell(len(texts))
            return self.score_labels(texts)

        def rank() -> Iterator[Ranking]:
            for text in texts:
                tell(1 + len(text.words))
                yield self.rank_words(text)

        heads = list_heads(self.model)
        layers = {name for name, _ in heads if name != POOL}
        missing = {"attention": "no_attention", "rollout": "no_attention"} if not heads else {}
        if heads and not layers:
            missing = {"rollout": "no_layers"}
        gaps = [Gap("attention", "alignment", "no_translation")]
        gaps += [Gap(method, "deletion", reason) for method, reason in missing.items()]
        return FixedAnswers(self.model, read, rank, [1 + len(text.words) for text in texts], heads, gaps)

    @torch.no_grad()
    def score_labels(self, texts: Sequence[LabelledText]) -> list[Float[Tensor, "label"]]:
        """Return the log-probabilities of the labels of each text."""
        lengths = [len(text.encoded.tokens) for text in texts]

        def score_batch(batch: list[int]) -> list[Tensor]:
            chosen = [texts[number] for number in batch]
            rows = self._label_scores([text.encoded for text in chosen])
            return [_pick_labels(scores, text).cpu() for scores, text in zip(rows, chosen, strict=True)]

        return answer_by_length(lengths, score_batch, budget=BATCH_TOKENS)

    def _label_scores(self, texts: Sequence[EncodedText]) -> Sequence[Float[Tensor, "place classes"]]:
        """Return the log-probabilities of all labels at every place of each text."""
        scores = self._logits(texts).float().log_softmax(-1)
        return scores.split([len(text.tokens) for text in texts]) if self.config.per_token else scores.split(1)

    def rank_words(self, text: LabelledText) -> Ranking:
        """Return how methods rank the words of a text, beside what leaving each out costs and their length.

        A word with a label of its own counts for the labels of the other words only.
        """
        words = text.words
        shorter = [text.without(word) for word in words]
        [whole, *rest] = self.score_labels([text, *shorter])
        effects = []
        for word, scores in zip(words, rest, strict=True):
            others = [number for number in range(len(text.labels)) if number not in text.labels_of(word)]
            effects.append(float((whole[others] - scores).sum()))
        weights = {**self._weigh_looks(text), "gradient": self._weigh_gradients(text)}
        scores_by_method = {method: sum_by_word(text, rows) for method, rows in weights.items()}
        return Ranking(scores_by_method, effects, {"length": [float(len(word.text)) for word in words]})

    @torch.no_grad()
    def _weigh_looks(self, text: LabelledText) -> dict[str, Float[Tensor, "label token"]]:
        """Return what the last attention, and all of them rolled out, give each token for every label."""
        if not list_heads(self.model):
            return {}
        with watch(self.model) as record:
            self._logits([text.encoded])
        means = {name: record[name][0].float().cpu().mean(0) for name in record}
        layers = [weights for name, weights in means.items() if name != POOL]
        rolled = rollout_layers(layers) if layers else None
        if POOL in means:
            looks = {"attention": means[POOL]} | ({} if rolled is None else {"rollout": means[POOL] @ rolled})
        else:
            chosen = self._answer_rows(text, len(text.items))
            looks = {"attention": chosen @ layers[-1], "rollout": chosen @ rollout_layers(layers)}
        return {method: weights[:, text.shift :] for method, weights in looks.items()}

    def _answer_rows(self, text: LabelledText, count: int) -> Float[Tensor, "label query"]:
        """Return the share of every row of the last layer in what each label is read from."""
        rows, pool = torch.eye(count), config.plain(self.config).get(POOL)
        if text.places is not None:
            return rows[[place + text.shift for place in text.places]]
        return {"class": rows[:1], "last": rows[-1:]}.get(str(pool), rows.mean(0, keepdim=True))

    def _weigh_gradients(self, text: LabelledText) -> Float[Tensor, "label token"]:
        """Return the share of every token in the gradient of each label's log-probability."""

        def compute_rows(numbers: Sequence[int]) -> Float[Tensor, "label token"]:
            inputs = self._model_inputs([text.encoded] * len(numbers))

            def run() -> Tensor:
                scores = self.model(*inputs).log_softmax(-1)
                rows = scores.split(len(text.encoded.tokens)) if self.config.per_token else scores.split(1)
                return torch.stack([_pick_labels(row, text)[n] for n, row in zip(numbers, rows, strict=True)])

            return gradient_times_input(self.model.embedding, inputs[0], run).unflatten(0, (len(numbers), -1))

        return in_chunks(compute_rows, len(text.labels), len(text.encoded.tokens))


def sum_by_word(text: LabelledText, rows: Float[Tensor, "label token"]) -> list[float]:
    """Return the weight of each word for all labels but its own."""
    sums = [rows[:, list(word.places)].sum(-1) for word in text.words]
    return [
        float(total.sum() - total[text.labels_of(word)].sum()) for total, word in zip(sums, text.words, strict=True)
    ]


def _pick_labels(scores: Float[Tensor, "place classes"], text: LabelledText) -> Float[Tensor, "label"]:
    """Return the log-probabilities of a text's labels."""
    return scores[text.rows, list(text.labels)]
