"""Documents as small as tests need them."""

from __future__ import annotations

from functools import cache

from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.pretraining.corpus import Prepared, prepare
from regard.tasks.pretraining.documents import DocumentsConfig
from regard.tasks.pretraining.masking import SPECIAL
from regard.tasks.pretraining.spans import SpansConfig, sentinel_names

WORDS = "the old wolf of Nürnberg can't sleep, unbelievably extraordinary horses runninglessly 1984 times; why? 漢字"


@cache
def prepared(kind: str = "bpe", documents: int = 30) -> Prepared:
    """Documents of very different lengths; a third of them is shorter than any window."""
    words = WORDS.split()
    texts = [
        f"{number} " + " ".join(words[(number * place + place) % len(words)] for place in range(1 + number**2 % 97))
        for number in range(documents)
    ]
    how = UnitsConfig(kind=kind, vocab=None if kind in ("characters", "words") else 480)
    more = [*SPECIAL, *sentinel_names(SpansConfig(), 64)]
    return prepare(DocumentsConfig(text="\n".join(texts), document="line", validation_share=0.1), how, special=more)
