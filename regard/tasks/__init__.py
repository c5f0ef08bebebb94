"""Where data, model, objective, decoding and metric meet; these literal tables are the whole registry."""

from collections.abc import Mapping
from typing import Any

from regard.config.registry import Registry

DEFAULT = "translation"  # what a recipe learns that does not say
FEW = "few-shot"  # fitted at once, without the training loop: a kind of trained model and no task
TASKS: Registry = Registry(
    {
        "captions": "regard.tasks.vision.captions.task:Captions regard.tasks.vision.captions.writer:CaptionWriter",
        "causal-lm": "regard.tasks.pretraining.causal:CausalLM regard.tasks.pretraining.writer:Writer",
        "choice": "regard.tasks.labels.choosing:MultipleChoice regard.tasks.labels.chooser:Chooser",
        "classification": "regard.tasks.labels.classification:Classification regard.tasks.labels.labeller:Classifier",
        "counting": "regard.tasks.vision.counting:Counting regard.tasks.vision.counting:Counter",
        "gan": "regard.tasks.vision.gan.task:PictureMaking regard.tasks.vision.gan.maker:PictureMaker",
        "language": "regard.tasks.language.task:Language regard.tasks.language.writer:Writer",
        "localisation": "regard.tasks.vision.localisation:Localisation regard.tasks.vision.localisation:Locator",
        "masked-lm": "regard.tasks.pretraining.masked:MaskedLM regard.tasks.pretraining.filler:Filler",
        "matching": "regard.tasks.embedding.matching:Matching regard.tasks.embedding.embedder:Embedder",
        "omics": "regard.tasks.omics.task:OmicsClassification regard.tasks.omics.classifier:OmicsClassifier",
        "node-classification": "regard.tasks.graphs.task:NodeClassification "
        "regard.tasks.graphs.classifier:NodeClassifier",
        "pictures": "regard.tasks.vision.classification:PictureClassification "
        "regard.tasks.vision.classifier:PictureClassifier",
        "pixels": "regard.tasks.vision.pixels.task:Pixels regard.tasks.vision.pixels.painter:Painter",
        "question-answering": "regard.tasks.answering.task:Answering regard.tasks.answering.answerer:Answerer",
        "regression": "regard.tasks.tables.task:Regression regard.tasks.tables.task:Predictor",
        "remembering": "regard.tasks.memory.task:Memory regard.tasks.memory.machine:Machine",
        "similarity": "regard.tasks.labels.similarity:Similarity regard.tasks.labels.rater:Rater",
        "span-corruption": "regard.tasks.pretraining.corruption:SpanCorruption "
        "regard.tasks.pretraining.restorer:Restorer",
        "tagging": "regard.tasks.labels.tagging:Tagging regard.tasks.labels.labeller:Tagger",
        "text-to-text": "regard.tasks.translation.text_to_text:TextToText "
        "regard.tasks.translation.respondent:Respondent",
        "translation": "regard.tasks.translation.task:Translation regard.tasks.translation.translator:Translator",
        "word2vec": "regard.tasks.word2vec.task:SkipGram regard.tasks.word2vec.vectors:WordVectors",
    }
)
"""Every task by its name: how it is learnt, and what its trained model is."""

USES: dict[str, tuple[str, str]] = {
    "captions": ("caption", "a captioner"),
    "causal-lm": ("write", "a language model"),
    "choice": ("choose", "a model that chooses among answers"),
    "classification": ("classify", "a classifier"),
    "counting": ("count", "a model that counts digits"),
    "gan": ("make", "a generator of pictures"),
    "language": ("write", "a language model"),
    "localisation": ("locate", "a model that finds digits"),
    "masked-lm": ("fill", "a masked language model"),
    "matching": ("embed", "an embedder"),
    "omics": ("predict", "a model of omics"),
    "node-classification": ("classify", "a classifier of nodes"),
    "pictures": ("classify", "a classifier of pictures"),
    "pixels": ("draw", "a model of pixels"),
    "question-answering": ("ask", "a model of question answering"),
    "regression": ("predict", "a model of tables"),
    "remembering": ("remember", "a model that remembers sequences"),
    "similarity": ("rate", "a model of similarity"),
    "span-corruption": ("restore", "a text-to-text model"),
    "tagging": ("tag", "a tagger"),
    "text-to-text": ("reply", "a text-to-text model"),
    "translation": ("translate", "a translator"),
    "word2vec": ("similar", "a table of word vectors"),
    FEW: ("classify", "a classifier"),
}
"""What trained models do, and what they are, by their tasks; so that nobody imports all of them to know."""


FACES: Mapping[str, Any] = Registry(
    {**{name: place.split()[1] for name, place in TASKS.places.items()}, FEW: "regard.tasks.embedding.few:FewShot"}
)
"""Every kind of trained model by its task."""
