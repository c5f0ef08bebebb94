"""Where data, model, objective, decoding and metric meet; this literal dict is the whole registry."""

from typing import Any

from regard.tasks.answering.answerer import Answerer
from regard.tasks.answering.task import Answering
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.few import FewShot
from regard.tasks.embedding.matching import Matching
from regard.tasks.graphs.classifier import NodeClassifier
from regard.tasks.graphs.task import NodeClassification
from regard.tasks.inputs import accept_lists, explain_missing
from regard.tasks.labels.chooser import Chooser
from regard.tasks.labels.choosing import MultipleChoice
from regard.tasks.labels.classification import Classification
from regard.tasks.labels.labeller import Classifier, Tagger
from regard.tasks.labels.rater import Rater
from regard.tasks.labels.similarity import Similarity
from regard.tasks.labels.tagging import Tagging
from regard.tasks.language.task import Language
from regard.tasks.language.writer import Writer
from regard.tasks.memory.machine import Machine
from regard.tasks.memory.task import Memory
from regard.tasks.omics.classifier import OmicsClassifier
from regard.tasks.omics.task import OmicsClassification
from regard.tasks.pretraining.causal import CausalLM
from regard.tasks.pretraining.corruption import SpanCorruption
from regard.tasks.pretraining.filler import Filler
from regard.tasks.pretraining.masked import MaskedLM
from regard.tasks.pretraining.restorer import Restorer
from regard.tasks.pretraining.writer import Writer as GPTWriter
from regard.tasks.tables.task import Predictor, Regression
from regard.tasks.translation.respondent import Respondent
from regard.tasks.translation.task import Translation
from regard.tasks.translation.text_to_text import TextToText
from regard.tasks.translation.translator import Translator
from regard.tasks.vision.captions.task import Captions
from regard.tasks.vision.captions.writer import CaptionWriter
from regard.tasks.vision.classification import PictureClassification
from regard.tasks.vision.classifier import PictureClassifier
from regard.tasks.vision.counting import Counter, Counting
from regard.tasks.vision.gan.maker import PictureMaker
from regard.tasks.vision.gan.task import PictureMaking
from regard.tasks.vision.localisation import Localisation, Locator
from regard.tasks.vision.pixels.painter import Painter
from regard.tasks.vision.pixels.task import Pixels
from regard.tasks.word2vec.task import SkipGram
from regard.tasks.word2vec.vectors import WordVectors

DEFAULT = "translation"  # what a recipe learns that does not say
TASKS: dict[str, tuple[Any, Any]] = {
    "captions": (Captions, CaptionWriter),
    "causal-lm": (CausalLM, GPTWriter),
    "choice": (MultipleChoice, Chooser),
    "classification": (Classification, Classifier),
    "counting": (Counting, Counter),
    "gan": (PictureMaking, PictureMaker),
    "language": (Language, Writer),
    "localisation": (Localisation, Locator),
    "masked-lm": (MaskedLM, Filler),
    "matching": (Matching, Embedder),
    "omics": (OmicsClassification, OmicsClassifier),
    "node-classification": (NodeClassification, NodeClassifier),
    "pictures": (PictureClassification, PictureClassifier),
    "pixels": (Pixels, Painter),
    "question-answering": (Answering, Answerer),
    "regression": (Regression, Predictor),
    "remembering": (Memory, Machine),
    "similarity": (Similarity, Rater),
    "span-corruption": (SpanCorruption, Restorer),
    "tagging": (Tagging, Tagger),
    "text-to-text": (TextToText, Respondent),
    "translation": (Translation, Translator),
    "word2vec": (SkipGram, WordVectors),
}
FACES: dict[str, Any] = {**{name: face for name, (_, face) in TASKS.items()}, FewShot.task: FewShot}
"""Every kind of trained model by its task; one that is fitted at once, without the training loop, is no task."""

_missing = explain_missing({face.verb: face.kind for face in reversed(FACES.values())})
for _face in FACES.values():
    _face.evaluate = accept_lists(_face.evaluate)
    _face.__getattr__ = _missing
