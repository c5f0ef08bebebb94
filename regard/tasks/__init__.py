"""Where data, model, objective, decoding and metric meet; this literal dict is the whole registry."""

from typing import Any

from regard.tasks.embedding import Embedding
from regard.tasks.language import Language
from regard.tasks.translation import Translation
from regard.tasks.translator import Translator
from regard.tasks.wordvectors import WordVectors
from regard.tasks.writer import Writer

TASKS: dict[str, tuple[Any, Any]] = {
    "language": (Language, Writer),
    "translation": (Translation, Translator),
    "word2vec": (Embedding, WordVectors),
}
