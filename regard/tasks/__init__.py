"""Where data, model, objective, decoding and metric meet; this literal dict is the whole registry."""

from typing import Any

from regard.tasks.labels.classification import Classification
from regard.tasks.labels.labeller import Classifier, Tagger
from regard.tasks.labels.tagging import Tagging
from regard.tasks.language.task import Language
from regard.tasks.language.writer import Writer
from regard.tasks.tables.task import Predictor, Regression
from regard.tasks.translation.task import Translation
from regard.tasks.translation.translator import Translator
from regard.tasks.vision.counting import Counter, Counting
from regard.tasks.vision.localisation import Localisation, Locator
from regard.tasks.word2vec.task import SkipGram
from regard.tasks.word2vec.vectors import WordVectors

DEFAULT = "translation"  # what a recipe learns that does not say
TASKS: dict[str, tuple[Any, Any]] = {
    "classification": (Classification, Classifier),
    "counting": (Counting, Counter),
    "language": (Language, Writer),
    "localisation": (Localisation, Locator),
    "regression": (Regression, Predictor),
    "tagging": (Tagging, Tagger),
    "translation": (Translation, Translator),
    "word2vec": (SkipGram, WordVectors),
}
