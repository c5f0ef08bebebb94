"""A trained classifier of texts, or of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.interpret.items import Item
from regard.interpret.trace import Trace
from regard.tasks.inputs import PAIR, InputKind, Inputs, check_input, list_inputs
from regard.tasks.labels.checkpoint_columns import read_text_column
from regard.tasks.labels.files import LabelledFile
from regard.tasks.labels.input_format import EncodedText, encode_texts
from regard.tasks.labels.text_labeller import LABEL_ITEMS, TextLabeller
from regard.tasks.labels.text_pairs import Pair, pair_column_names, parse_pair, read_pairs
from regard.tasks.labels.text_tokenizer import readable_tokens
from regard.tasks.supervised.prediction import Prediction
from regard.tasks.trained import chosen

CLASS_TOKEN = "<class>"


@dataclass(frozen=True, kw_only=True)
class TextPrediction(Prediction):
    """What a text is, or a pair of texts."""

    text: str | tuple[str, ...]

    @property
    def subject(self) -> dict[str, Any]:
        """The text, or both of a pair."""
        return {"text": self.text} if isinstance(self.text, str) else {"texts": list(self.text)}


class Classifier(TextLabeller):
    """Says what a text is."""

    file = LabelledFile
    task: ClassVar[str] = "classification"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier"

    @classmethod
    def pair_class(cls) -> Any:
        """What reads pairs instead of texts."""
        return PairClassifier

    @property
    def inputs(self) -> Inputs:
        """Texts, of a table those in the column of the training files."""
        column = read_text_column(self.data, self.classes)
        return Inputs(kind=self.input_kind, parse=self.parse, text_column=column)

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[TextPrediction]:
        """What each text is."""
        chosen(self, options)
        return self.classify(inputs)

    def classify(self, texts: Any) -> list[TextPrediction]:
        """What each text is, or each pair."""
        listed = list_inputs(texts, self.input_kind, verb=self.verb)
        found = self._probabilities(self._encode(listed))
        return [self._predict(text, probabilities) for text, probabilities in zip(listed, found, strict=True)]

    def look(self, text: Any) -> Trace:
        """Classify a text and keep where the model looked."""
        check_input(text, self.input_kind, verb="look")
        [laid] = self._encode([text])
        probabilities, weights = self._watch_attention(laid)
        verdict = self._predict(text, probabilities)
        written = readable_tokens(self.tokenizer, text) if self.style == "plain" and isinstance(text, str) else []
        items = self._items(laid.tokens, written)
        if self.style == "plain" and config.plain(self.config).get("pool") == "class":
            after = [replace(item, word=None if item.word is None else item.word + 1) for item in items]
            items = [Item(CLASS_TOKEN, word=0), *after]
        both = {"source": items, LABEL_ITEMS: [Item(verdict.label, word=0)]}
        facts = {
            "text": text if isinstance(text, str) else " | ".join(text),
            "answer": verdict.label,
            "probability": round(verdict.probability, 6),
        }
        return self._build_trace(laid, weights, both, facts)

    def _encode(self, texts: Sequence[Any]) -> list[EncodedText]:
        return encode_texts(self.tokenizer, self.format, [(one,) if isinstance(one, str) else one for one in texts])

    def _predict(self, text: Any, probabilities: Float[Tensor, "classes"]) -> TextPrediction:
        return TextPrediction.rank(self.classes, probabilities.tolist(), text=text)


class PairClassifier(Classifier):
    """Says what a pair of texts is, such as whether the second follows from the first."""

    kind: ClassVar[str] = "a classifier of pairs"
    input_kind: ClassVar[InputKind] = PAIR
    pairs: ClassVar[bool] = True

    @property
    def inputs(self) -> Inputs:
        """Pairs of texts, of a file those in its columns."""
        return replace(super().inputs, read=self.read)

    def parse(self, text: str) -> Pair:
        """Two texts with a tab between them, or an object of JSON."""
        return parse_pair(text, pair_column_names(self.data))

    def read(self, path: Path) -> list[Pair]:
        """The pairs of a file."""
        *columns, _ = self.data["file"].get("columns") or (None,)
        return read_pairs(path, pair_column_names(self.data), columns)

    def classify(self, texts: Any) -> list[TextPrediction]:
        """What each pair of texts is."""
        return super().classify([tuple(pair) for pair in list_inputs(texts, PAIR, verb=self.verb)])
