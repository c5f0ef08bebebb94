"""A trained translator: splits texts into sentences, translates them, and joins the translations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import torch

from regard import config
from regard.checkpoint import Checkpoint
from regard.data.language_names import LANGUAGES
from regard.data.normalise import TextConfig, read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.decoding.exchange import Exchange, TextStream
from regard.decoding.search_tree import SearchTree
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.tasks.inputs import TEXT, check_input, list_inputs
from regard.tasks.search_options import name_changes
from regard.tasks.trained import Extra, Face, Workload, describe_model, load_model
from regard.tasks.translation.aligned import translate_aligned
from regard.tasks.translation.answers import Answer, describe_unfinished
from regard.tasks.translation.documents import document
from regard.tasks.translation.ensemble import combine_translators
from regard.tasks.translation.looking import search_tree, trace_answer, trace_steps
from regard.tasks.translation.options import (
    AnswerFileOptions,
    DecodingConfig,
    LookOptions,
    TargetOptions,
    TranslationOptions,
    TranslationTreeOptions,
)
from regard.tasks.translation.pipeline import Pipeline
from regard.tasks.translation.sentence_translator import SentenceTranslator
from regard.tasks.translation.streaming import TranslationStream

if TYPE_CHECKING:
    from regard.interpret.measure.forced_decoding import ForcedReader
    from regard.interpret.steps import Steps as TracedSteps
    from regard.tasks.translation.documents.glossary import Terms

WARMING = 3  # searches after which a GPU replays captured steps
Result = TypeVar("Result")


class Translator(SentenceTranslator, Face):
    """Translates text with a trained model."""

    Options: ClassVar[type] = TranslationOptions
    LookOptions: ClassVar[type] = LookOptions
    __repr__ = describe_model

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Translator:
        """Load the translator of a checkpoint directory."""
        decoding = config.build(DecodingConfig, checkpoint.config.get("decoding", {}), where="decoding")
        name, reads = checkpoint.directory.name, checkpoint.about.language
        translator = cls(load_model(checkpoint, device), read_tokenizers(checkpoint), decoding, name=name)
        translator.reads = tuple(reads)
        translator.trained_direction = checkpoint.config.get("languages")
        return translator

    @classmethod
    def combine(cls, models: Sequence[Any]) -> Translator:
        """Return an ensemble of translators, which decodes with all of them."""
        if strange := [model for model in models if type(model) is not cls]:
            raise ValueError(f"{strange[0].name} is {strange[0].kind}, {models[0].name} is {cls.kind}: load one kind")
        return combine_translators(models)

    @overload
    def translate(self, texts: str, *, to: str | None = None, **settings: Any) -> str: ...

    @overload
    def translate(self, texts: Sequence[str], *, to: str | None = None, **settings: Any) -> list[str]: ...

    def translate(self, texts: str | Sequence[str], *, to: str | None = None, **settings: Any) -> str | list[str]:
        """Translate one text, or a list of them; settings are those of `DecodingConfig`.

        If the model has several target languages and `to` is None, it is guessed from the texts.
        """
        answers = self.answers(texts, to=to, **settings)
        for code in dict.fromkeys(answer.foreign for answer in answers if answer.foreign):
            warnings.warn(self.describe_unknown_language(code), stacklevel=2)
        if unfinished := sum(answer.unfinished for answer in answers):
            warnings.warn(describe_unfinished(unfinished), stacklevel=2)
        translations = [answer.text for answer in answers]
        return translations[0] if isinstance(texts, str) else translations

    def describe_unknown_language(self, code: str) -> str:
        """Return the warning about text in a language or script that the model does not know."""
        seems = f"looks like {LANGUAGES[code]}" if code in LANGUAGES else f"is in {code} script"
        known_languages = " and ".join(LANGUAGES[language_code] for language_code in self.reads)
        return f"the text {seems}; {self.name} knows {known_languages} only, so do not trust the answer"

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Return the extras: workloads to benchmark, forced decoding, and the tree of a search."""
        return {
            "alignments": Extra(self.read_answers, TargetOptions, "Its attention while it is told the answers."),
            "tree": Extra(
                self.tree,
                TranslationTreeOptions,
                "The search for one answer, with what it left.",
                {"beams": self.decoding.beams},
            ),
            "workloads": Extra(self.workloads, TargetOptions, "Searches to time, by one and by many."),
        }

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Answer]:
        """Return translations with their scores; options are those of `TranslationOptions`."""
        return self.answers(inputs, **options)

    def evaluate(self, *files: str | Path, columns: tuple[int, int] | None = None, **options: Any) -> Scores:
        """Score the translator on one file of pairs, or on a file of sources and one of references."""
        from regard.tasks.translation import scoring

        return scoring.evaluate(self, files, columns=columns, **options)

    @staticmethod
    def judge(
        answers: str | Path,
        *files: str | Path,
        name: str,
        columns: tuple[int, int] | None = None,
        to: str | None = None,
        metric: str = "overlap",
        tokenize: str = "13a",
    ) -> Scores:
        """Score the translations in a file, one per line."""
        from regard.tasks.translation import scoring

        test = scoring.pairs(*files, columns=columns, to=to)
        return scoring.score_answers(name, answers, test, metric=metric, tokenize=tokenize)

    score_answers = Extra(judge, AnswerFileOptions, "Scores of translations that are in a file already.")

    def read_answers(self, *, to: str | None = None) -> ForcedReader:
        """Return a reader for forced decoding of given answers, with its attention weights."""
        from regard.interpret.measure.forced_decoding import ForcedReader

        return ForcedReader(self, to if self.languages else None)

    def workloads(self, inputs: Sequence[str], batches: Sequence[int], to: str | None = None) -> Iterator[Workload]:
        """Yield searches to time, in several batch sizes."""
        from regard.tasks.translation.speed import workloads

        return workloads(self, inputs, batches, to)

    def exchange(
        self,
        inputs: Sequence[str],
        *,
        to: str | None = None,
        first: int = 0,
        html: bool = False,
        terms: Terms | None = None,
        alignment: bool = False,
        **settings: Any,
    ) -> Exchange[list[Answer]]:
        """Translate as `answers` does, by requests to an engine: yield requests, receive hypotheses, return answers.

        So several callers can share one engine. HTML and texts with a glossary are translated as documents. With
        `alignment`, the words of plain texts are linked to those of their translations.
        """
        texts = list_inputs(inputs, TEXT, verb=self.verb)
        if html or terms is not None:
            if alignment:
                raise ValueError("alignment is for plain text: leave it out with HTML and with a glossary")
            steps = document.translate_stepwise(self, texts, html=html, to=to, terms=terms, **settings)
        else:
            decoding = self.settings(**settings) if settings else self.decoding
            pipeline = Pipeline(self, texts, self.language(texts, to), decoding, first=first)
            steps = translate_aligned(pipeline) if alignment else pipeline.translate()
        return (yield from self.exchange_steps(steps))

    def open_stream(
        self, item: str, *, to: str | None = None, html: bool = False, terms: Terms | None = None, **settings: Any
    ) -> TextStream | None:
        """Return a translation that can be read while an engine searches for it; options as in `exchange`.

        A document, whose tags and terms are put in place once all of it is translated, comes in one piece.
        """
        if html or terms is not None:
            return None
        decoding = self.settings(**settings) if settings else self.decoding
        return TranslationStream(self, Pipeline(self, [item], self.language([item], to), decoding))

    def warm_up(self) -> None:
        """Compile kernels and capture graphs now instead of during the first requests."""
        self.ready.warm()
        for to in self.languages * WARMING or [None] * WARMING:  # type: ignore[list-item]
            self.answers(["."], to=to, copy="none")

    def look(self, text: str, *, to: str | None = None, prefix: Sequence[int] = ()) -> Trace:
        """Translate one sentence, and trace the attention weights of all heads along the best hypothesis.

        `prefix` holds the ids of tokens that the translation must begin with, such as those of candidates of a trace.
        """
        check_input(text, TEXT, verb="look")
        return trace_answer(self, text, self.language([text], to), prefix)

    def tree(self, text: str, *, to: str | None = None, prefix: Sequence[int] = (), **search: Any) -> SearchTree:
        """Translate one sentence, and return its beam search as a tree; options are `TranslationTreeOptions`."""
        check_input(text, TEXT, verb="tree")
        return search_tree(self, text, self.language([text], to), prefix=prefix, **name_changes(**search))

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None, top: int = 10) -> TracedSteps:
        """Return the intermediate results of the decoder's (or the named) attentions while the answer is read again."""
        return trace_steps(self, trace, names=names, top=top)


def read_tokenizers(checkpoint: Checkpoint) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of the source and of the target, which may be the same."""
    how = TextConfig(normalise=read_text_settings(checkpoint.config.get("tokenizer"))["normalise"])
    source = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
    separate = "tokenizer.target.json" in checkpoint.files
    return source, Tokenizer.parse(checkpoint.text("tokenizer.target.json"), how) if separate else source
