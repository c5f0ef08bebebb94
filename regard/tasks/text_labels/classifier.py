"""A trained classifier of texts, or of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.interpret.items import Item
from regard.interpret.trace import Trace
from regard.tasks.inputs import PAIR, InputKind, Inputs, check_input, list_inputs
from regard.tasks.supervised.prediction import TextPrediction
from regard.tasks.text_encoders.checkpoint_columns import read_text_column
from regard.tasks.text_encoders.input_format import EncodedText, encode_texts
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_encoders.text_tokenizer import readable_tokens
from regard.tasks.text_encoders.trained_encoder import LABEL_ITEMS
from regard.tasks.text_labels.fixed_labels import FixesLabels, LabelledText
from regard.tasks.text_labels.text_labeller import TextLabeller
from regard.tasks.text_labels.text_pairs import Pair, pair_column_names, parse_pair, read_pairs
from regard.tasks.trained import resolve_options

CLASS_TOKEN = "<class>"


class Classifier(FixesLabels, TextLabeller):
    """Classifies texts."""

    file = LabelledFile
    task: ClassVar[str] = "classification"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier"

    @classmethod
    def pair_class(cls) -> Any:
        """Return the class of models for pairs of texts."""
        return PairClassifier

    @property
    def inputs(self) -> Inputs:
        """Texts; of a table, those in the text column of the training files."""
        column = read_text_column(self.data, self.classes)
        return Inputs(kind=self.input_kind, parse=self.parse, text_column=column)

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[TextPrediction]:
        """Classify texts."""
        resolve_options(self, options)
        return self.classify(inputs)

    def classify(self, texts: Any) -> list[TextPrediction]:
        """Return the label of each text, or of each pair."""
        text_list = list_inputs(texts, self.input_kind, verb=self.verb)
        return list(map(self._predict, text_list, self._compute_outputs(self._encode(text_list))))

    def look(self, text: Any) -> Trace:
        """Classify a text and return the weights of all attentions."""
        check_input(text, self.input_kind, verb="look")
        [encoded] = self._encode([text])
        probabilities, weights = self._watch_attention(encoded)
        prediction = self._predict(text, probabilities)
        items_by_axis = {"source": self._list_items(text, encoded), LABEL_ITEMS: [Item(prediction.label, word=0)]}
        facts = {
            "text": text if isinstance(text, str) else " | ".join(text),
            "answer": prediction.label,
            "probability": round(prediction.probability, 6),
        }
        return self._build_trace(encoded, weights, items_by_axis, facts)

    def label_text(self, text: Any) -> LabelledText:
        """Return a text with the most probable label."""
        [encoded] = self._encode([text])
        [probabilities] = self._compute_outputs([encoded])
        return LabelledText(encoded, self._list_items(text, encoded), [int(probabilities.argmax())])

    def _list_items(self, text: Any, encoded: EncodedText) -> list[Item]:
        """Return the tokens of a text as items, after the class token if the model puts one in front."""
        token_texts = readable_tokens(self.tokenizer, text) if self.style == "plain" and isinstance(text, str) else []
        items = self._items(encoded.tokens, token_texts)
        if self.style == "plain" and config.plain(self.config).get("pool") == "class":
            shifted = [replace(item, word=None if item.word is None else item.word + 1) for item in items]
            items = [Item(CLASS_TOKEN, word=0), *shifted]
        return items

    def _encode(self, texts: Sequence[Any]) -> list[EncodedText]:
        return encode_texts(self.tokenizer, self.format, [(text,) if isinstance(text, str) else text for text in texts])

    def _predict(self, text: Any, probabilities: Float[Tensor, "classes"]) -> TextPrediction:
        return TextPrediction.rank(self.classes, probabilities.tolist(), text=text)


class PairClassifier(Classifier):
    """Classifies pairs of texts, for instance by whether the first entails the second."""

    kind: ClassVar[str] = "a classifier of pairs"
    input_kind: ClassVar[InputKind] = PAIR
    pairs: ClassVar[bool] = True

    @property
    def inputs(self) -> Inputs:
        """Pairs of texts; of a file, those in its columns."""
        return replace(super().inputs, read=self.read)

    def parse(self, text: str) -> Pair:
        """Parse two texts with a tab between them, or a JSON object."""
        return parse_pair(text, pair_column_names(self.data))

    def read(self, path: Path) -> list[Pair]:
        """Read the pairs of a file."""
        *columns, _ = self.data["file"].get("columns") or (None,)
        return read_pairs(path, pair_column_names(self.data), columns)

    def classify(self, texts: Any) -> list[TextPrediction]:
        """Return the label of each pair of texts."""
        return super().classify([tuple(pair) for pair in list_inputs(texts, PAIR, verb=self.verb)])
