"""Where data, model, objective, decoding and metric meet; this literal dict is the whole registry."""

from typing import Any

from regard.tasks.classification import Classification
from regard.tasks.counting import Counter, Counting
from regard.tasks.embedding import Embedding
from regard.tasks.labeller import Classifier, Tagger
from regard.tasks.language import Language
from regard.tasks.localisation import Localisation, Locator
from regard.tasks.regression import Predictor, Regression
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Translation
from regard.tasks.translator import Translator
from regard.tasks.wordvectors import WordVectors
from regard.tasks.writer import Writer

TASKS: dict[str, tuple[Any, Any]] = {
    "classification": (Classification, Classifier),
    "counting": (Counting, Counter),
    "language": (Language, Writer),
    "localisation": (Localisation, Locator),
    "regression": (Regression, Predictor),
    "tagging": (Tagging, Tagger),
    "translation": (Translation, Translator),
    "word2vec": (Embedding, WordVectors),
}
