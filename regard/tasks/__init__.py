"""The tasks: each connects data, model, objective, decoding and metrics. The table `TASKS` is the whole registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.config.registry import Registry, load_object

DEFAULT = "translation"  # the task of a recipe that names none
FEW = "few-shot"  # a kind of trained model that is fitted without the training loop and so is not a task


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """A task: its two classes, its training files, and the description and verb of its trained model."""

    task_class: str
    trained_class: str
    title: str
    """Description of the training data and the result."""
    takes: str | None
    """The kind of its training files in `FILE_KINDS`; None if it generates its examples."""
    folders: bool = False
    """True if a folder may stand for such files."""
    verb: str
    """The method that uses the trained model."""
    kind: str
    """Description of the trained model in messages."""

    @property
    def task(self) -> Any:
        """The class of the task, imported on access."""
        return load_object(self.task_class)


TASKS: dict[str, TaskEntry] = {
    "translation": TaskEntry(
        task_class="regard.tasks.translation.task:Translation",
        trained_class="regard.tasks.translation.translator:Translator",
        title="pairs of texts: a translator (Transformer or seq2seq)",
        takes="pairs",
        verb="translate",
        kind="a translator",
    ),
    "text-to-text": TaskEntry(
        task_class="regard.tasks.translation.text_to_text:TextToText",
        trained_class="regard.tasks.translation.respondent:Respondent",
        title="texts with answers: a T5 that learns what is asked",
        takes="pairs",
        verb="reply",
        kind="a text-to-text model",
    ),
    "classification": TaskEntry(
        task_class="regard.tasks.text_labels.classification:Classification",
        trained_class="regard.tasks.text_labels.classifier:Classifier",
        title="labelled texts: a classifier",
        takes="labelled",
        verb="classify",
        kind="a classifier",
    ),
    "tagging": TaskEntry(
        task_class="regard.tasks.text_labels.tagging:Tagging",
        trained_class="regard.tasks.text_labels.tagger:Tagger",
        title="tagged words: a tagger",
        takes="tagged",
        verb="tag",
        kind="a tagger",
    ),
    "similarity": TaskEntry(
        task_class="regard.tasks.text_labels.similarity:Similarity",
        trained_class="regard.tasks.text_labels.rater:Rater",
        title="rated pairs: how alike two texts are",
        takes="rated",
        verb="rate",
        kind="a model of similarity",
    ),
    "choice": TaskEntry(
        task_class="regard.tasks.text_labels.multiple_choice:MultipleChoice",
        trained_class="regard.tasks.text_labels.chooser:Chooser",
        title="questions with choices: which answer is right",
        takes="choices",
        verb="choose",
        kind="a model that chooses among answers",
    ),
    "question-answering": TaskEntry(
        task_class="regard.tasks.answering.task:Answering",
        trained_class="regard.tasks.answering.answerer:Answerer",
        title="questions about texts: answers found in them",
        takes="questions",
        verb="ask",
        kind="a model of question answering",
    ),
    "causal-lm": TaskEntry(
        task_class="regard.tasks.pretraining.causal:CausalLM",
        trained_class="regard.tasks.pretraining.writer:Writer",
        title="plain text: a GPT that continues it",
        takes="text",
        folders=True,
        verb="write",
        kind="a language model",
    ),
    "masked-lm": TaskEntry(
        task_class="regard.tasks.pretraining.masked:MaskedLM",
        trained_class="regard.tasks.pretraining.filler:Filler",
        title="plain text: a BERT that fills gaps (--masked)",
        takes="text",
        folders=True,
        verb="fill",
        kind="a masked language model",
    ),
    "span-corruption": TaskEntry(
        task_class="regard.tasks.pretraining.corruption:SpanCorruption",
        trained_class="regard.tasks.pretraining.restorer:Restorer",
        title="plain text: a T5 that restores spans",
        takes="text",
        folders=True,
        verb="restore",
        kind="a text-to-text model",
    ),
    "language": TaskEntry(
        task_class="regard.tasks.rnn_lm.task:Language",
        trained_class="regard.tasks.rnn_lm.writer:Writer",
        title="plain text: a recurrent language model",
        takes="text",
        verb="write",
        kind="a language model",
    ),
    "word2vec": TaskEntry(
        task_class="regard.tasks.word2vec.task:SkipGram",
        trained_class="regard.tasks.word2vec.vectors:WordVectors",
        title="plain text: word vectors",
        takes="text",
        verb="similar",
        kind="a table of word vectors",
    ),
    "matching": TaskEntry(
        task_class="regard.tasks.embedding.matching:Matching",
        trained_class="regard.tasks.embedding.embedder:Embedder",
        title="pairs of texts: vectors in which partners lie near one another",
        takes="pairs",
        verb="embed",
        kind="an embedder",
    ),
    "regression": TaskEntry(
        task_class="regard.tasks.tables.task:Regression",
        trained_class="regard.tasks.tables.task:Predictor",
        title="a table: a number or a class from other columns",
        takes="table",
        verb="predict",
        kind="a model of tables",
    ),
    "omics": TaskEntry(
        task_class="regard.tasks.omics.task:OmicsClassification",
        trained_class="regard.tasks.omics.classifier:OmicsClassifier",
        title="several tables of the same samples: their classes",
        takes="tables",
        verb="predict",
        kind="a model of omics",
    ),
    "node-classification": TaskEntry(
        task_class="regard.tasks.graphs.task:NodeClassification",
        trained_class="regard.tasks.graphs.classifier:NodeClassifier",
        title="a graph: classes of its nodes (GAT)",
        takes="graph",
        verb="classify",
        kind="a classifier of nodes",
    ),
    "pictures": TaskEntry(
        task_class="regard.tasks.images.task:ImageClassification",
        trained_class="regard.tasks.images.classifier:ImageClassifier",
        title="labelled pictures: a classifier (ViT or CNN)",
        takes="pictures",
        folders=True,
        verb="classify",
        kind="a classifier of pictures",
    ),
    "gan": TaskEntry(
        task_class="regard.tasks.gan.task:ImageGeneration",
        trained_class="regard.tasks.gan.generator:ImageGenerator",
        title="labelled pictures: a generator of such pictures (SAGAN)",
        takes="pictures",
        folders=True,
        verb="make",
        kind="a generator of pictures",
    ),
    "captions": TaskEntry(
        task_class="regard.tasks.captions.task:Captions",
        trained_class="regard.tasks.captions.writer:CaptionWriter",
        title="pictures with captions: a captioner",
        takes="captions",
        verb="caption",
        kind="a captioner",
    ),
    "pixels": TaskEntry(
        task_class="regard.tasks.pixels.task:PixelGeneration",
        trained_class="regard.tasks.pixels.generator:PixelGenerator",
        title="pictures: a model that writes them pixel by pixel",
        takes="pictures",
        folders=True,
        verb="draw",
        kind="a model of pixels",
    ),
    "localisation": TaskEntry(
        task_class="regard.tasks.scenes.localisation:Localisation",
        trained_class="regard.tasks.scenes.localisation:Locator",
        title="pictures it draws itself: which digit, and where",
        takes=None,
        verb="locate",
        kind="a model that finds digits",
    ),
    "counting": TaskEntry(
        task_class="regard.tasks.scenes.counting:Counting",
        trained_class="regard.tasks.scenes.counting:Counter",
        title="pictures it draws itself: how many digits",
        takes=None,
        verb="count",
        kind="a model that counts digits",
    ),
    "remembering": TaskEntry(
        task_class="regard.tasks.memory.task:Memory",
        trained_class="regard.tasks.memory.machine:Machine",
        title="sequences of bits it draws itself: copy, repeat, recall",
        takes=None,
        verb="remember",
        kind="a model that remembers sequences",
    ),
}
"""Every task by its name."""

USES: dict[str, tuple[str, str]] = {
    **{name: (entry.verb, entry.kind) for name, entry in TASKS.items()},
    FEW: ("classify", "a classifier"),
}
"""Verb and kind of trained models by task, without importing them."""

FACES: Mapping[str, Any] = Registry(
    {**{name: entry.trained_class for name, entry in TASKS.items()}, FEW: "regard.tasks.embedding.few_shot:FewShot"}
)
"""Every class of trained models by task."""
