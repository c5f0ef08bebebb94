"""A translation model and its texts together: sentences in, answers with scores and alternatives out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from regard.decoding.exchange import Exchange
from regard.decoding.graphs import pause_garbage_collection
from regard.tasks.inputs import TEXT, list_inputs
from regard.tasks.translation.answers import Answer
from regard.tasks.translation.call_answers import exchange_steps, run_steps
from regard.tasks.translation.model_calls import Steps
from regard.tasks.translation.search import Searcher

Result = TypeVar("Result")


class SentenceTranslator(Searcher):
    """Answers texts with translations, alone or as an exchange that somebody else searches for."""

    task: ClassVar[str] = "translation"
    verb: ClassVar[str] = "translate"
    kind: ClassVar[str] = "a translator"

    def answers(
        self, texts: str | Sequence[str], *, to: str | None = None, first: int = 0, **settings: Any
    ) -> list[Answer]:
        """Translations with their scores and alternatives, in the order of the texts.

        `first` is the number of the first text: when a file is sampled block by block, each line has its own seed.
        """
        decoding = self.settings(**settings) if settings else self.decoding
        texts = list_inputs(texts, TEXT, verb=self.verb)
        return self.run(self.translate_stepwise(texts, self.language(texts, to), decoding, first=first))

    def run(self, steps: Steps[Result]) -> Result:
        """Drive text steps to their end with the model itself, and return their result."""
        with pause_garbage_collection():
            return run_steps(self, steps)

    def exchange_steps(self, steps: Steps[Result]) -> Exchange[Result]:
        """Drive text steps to their end as an exchange, such as `consider_stepwise(...)`."""
        return exchange_steps(self, steps)
