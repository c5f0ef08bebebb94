"""A trained BERT or GPT that turns texts into vectors, whatever it was trained for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from regard import config
from regard.attention.masks import Row
from regard.attention.tap import Tap
from regard.checkpoint import Checkpoint
from regard.data.normalise import read_text_settings
from regard.data.readers import Corpus
from regard.data.tables import is_table
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import UnitsConfig
from regard.decoding.batching import by_equal_length
from regard.decoding.threads import map_in_threads
from regard.interpret.items import Weights, tokens
from regard.interpret.steps import Steps, inside
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics.scores import Scores
from regard.models import config_of
from regard.tasks.embedding import rated
from regard.tasks.embedding.pairs import read
from regard.tasks.embedding.pooling import EmbeddingConfig, pool_tokens, scale_vectors
from regard.tasks.embedding.scoring import rank_partners, score_retrieval
from regard.tasks.inputs import TEXT, check_files, check_input, list_inputs
from regard.tasks.trained import DirectAnswers, describe_model, load_model, resolve_options

BODIES = ("bert", "gpt")
BUDGET = 1 << 11  # tokens read at a time
TOGETHER = 1 << 14  # texts tokenised at a time
Progress = Callable[[int, int], None]
SHOWN = 6  # numbers of a vector in a line for a person


@dataclass(frozen=True)
class Embedding:
    """A text and its vector."""

    text: str
    vector: Float[np.ndarray, "width"]

    def __str__(self) -> str:
        numbers = " ".join(f"{value:.4f}" for value in self.vector[:SHOWN])
        return f"{numbers}{' ...' * (len(self.vector) > SHOWN)}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"text": self.text, "embedding": vector_to_list(self.vector)}


class Embedder(DirectAnswers):
    """Turns texts into vectors: reads each with all blocks of a model and pools the vectors of its tokens."""

    task: ClassVar[str] = "matching"
    verb: ClassVar[str] = "embed"
    kind: ClassVar[str] = "an embedder"
    Options: ClassVar[type] = EmbeddingConfig
    LookOptions: ClassVar[type] = EmbeddingConfig
    __repr__ = describe_model

    def __init__(
        self, model: Any, tokenizer: Tokenizer, how: EmbeddingConfig | None = None, name: str = "embedder"
    ) -> None:
        self.model, self.tokenizer, self.how, self.name = model, tokenizer, how or EmbeddingConfig(), name
        self.file: dict[str, Any] = {}

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Embedder:
        """The BERT or GPT that a checkpoint holds, of whatever task; its own way of pooling, if it says one."""
        shape = config_of(checkpoint.config.get("model", {}))
        if shape.name not in BODIES:
            message = f"{checkpoint.directory} holds {shape.phrase}"
            raise ValueError(
                f"{message}, which gives no vectors of texts: give a BERT or a GPT, pre-trained or imported"
            )
        how = config.build(EmbeddingConfig, checkpoint.config.get("embedding", {}), where="embedding")
        embedder = cls(load_model(checkpoint, device), tokenizer_of(checkpoint), how, checkpoint.directory.name)
        embedder.file = dict(checkpoint.config.get("data", {}).get("file", {}))
        return embedder

    @classmethod
    def serves(cls, model: Mapping[str, Any]) -> bool:
        """Whether a model of any task can be used like this: all that read texts and have no head of labels."""
        return model.get("name") in BODIES

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.runner.device

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self.model.config.width

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Embedding]:
        """The vector of each text; options are those of `EmbeddingConfig`."""
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        vectors = self.embed(inputs, **options)
        return [Embedding(text, vector) for text, vector in zip(inputs, vectors, strict=True)]

    def embed(
        self, texts: str | Sequence[str], *, progress: Progress = lambda completed, total: None, **options: Any
    ) -> Float[np.ndarray, "text width"]:
        """The vectors of texts, in their order; texts of the same length are read together, without padding.

        `progress` hears how many of the texts are done.
        """
        how = self.resolve_options(options)
        text_list = list_inputs(texts, TEXT, verb=self.verb)
        embeddings = np.empty((len(text_list), self.width), np.float32)
        for start in range(0, len(text_list), TOGETHER):
            token_ids = self.encode(text_list[start : start + TOGETHER], how)
            batches = by_equal_length([len(ids) for ids in token_ids], budget=BUDGET)
            completed = start
            for batch, vectors in zip(batches, self._embed_batches(token_ids, batches, how), strict=True):
                embeddings[[start + number for number in batch]] = vectors
                completed += len(batch)
                progress(completed, len(text_list))
        return embeddings

    def _embed_batches(
        self, token_ids: Sequence[Sequence[int]], batches: Sequence[Sequence[int]], how: EmbeddingConfig
    ) -> Iterator[Float[np.ndarray, "text width"]]:
        """Vectors of each batch of texts; on a CPU several batches side by side, where their order does not matter."""

        @torch.no_grad()
        def embed_batch(batch: Sequence[int]) -> Float[np.ndarray, "text width"]:
            flat = torch.tensor([id for number in batch for id in token_ids[number]], device=self.device)
            row = Row.of([len(token_ids[number]) for number in batch]).to(self.device)
            vectors = pool_tokens(self.runner(flat, layout=row), row, how.pool)
            return scale_vectors(vectors.float(), how.normalise).cpu().numpy()

        watched = any(isinstance(module, Tap) and module.is_watched for module in self.model.modules())
        ordered = self.device.type != "cpu" or self.model.training or watched or len(batches) == 1
        return map(embed_batch, batches) if ordered else map_in_threads(embed_batch, batches)

    def evaluate(
        self,
        *files: str | Path,
        name: str | None = None,
        columns: tuple[int, int] | None = None,
        rating: int | None = None,
        **options: Any,
    ) -> Scores:
        """How well the partners of texts are found, in files of pairs like those it was trained on, or two files.

        With a `rating`, a column of numbers that people gave the pairs, how well cosines go together with these.
        """
        check_files(self, files, "pairs of texts")
        names = [str(file) for file in files]
        if rating is not None:
            pairs = rated.read(names, columns or (1, 2), rating)
            return rated.score_ratings(name or self.name, self.task, self.units, pairs)
        file_settings = {**self.file, **({} if columns is None else {"columns": columns}), **options}
        tables = list(map(is_table, names))
        beside = len(names) == 2 and not any(tables)
        sections = (
            [{"source": names[0], "target": names[1]}]
            if beside
            else [{**file_settings, "path": name} for name in names]
        )
        text_pairs, _ = read([config.build(Corpus, section, where="file") for section in sections], 0.0)
        return score_retrieval(name or self.name, self.task, rank_partners(self.units, text_pairs))

    def units(self, texts: Sequence[str]) -> Float[np.ndarray, "text width"]:
        """The vectors of texts, of length 1 in any case."""
        return self.embed(texts, normalise=True)

    def look(self, text: str, **options: Any) -> Trace:
        """Read a text and keep where every head looked."""
        [ids] = self.encode([check_input(text, TEXT, verb="look")], self.resolve_options(options))
        with watch(self.model) as watched:
            self._read(ids)
        items = {"source": tokens(self.tokenizer, ids)}
        weights = [Weights(name, "source", "source", watched[name][0].cpu()) for name in watched]
        return Trace(self.name, self.task, items, weights, {"text": text, "answer": text, "read": ids}, self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """The vectors of all attentions (or of those named) as the text is read again."""
        names = names or [attention.name for attention in trace.weights]
        vectors, _ = inside(self.model, lambda: self._read(trace.facts["read"]), names=names)
        return Steps(vectors, [])

    def resolve_options(self, options: dict[str, Any]) -> EmbeddingConfig:
        """How texts are read; what nobody names is as in the checkpoint."""
        how = resolve_options(self, options, below=config.plain(self.how))
        if how.max_length is not None and how.max_length > self.model.config.context:
            raise ValueError(
                f"max_length is {how.max_length}, the model reads {self.model.config.context} tokens at most"
            )
        return how

    def encode(self, texts: Sequence[str], how: EmbeddingConfig) -> list[list[int]]:
        """Tokens of each text as the model reads it, special ones included; blanks around a text mean nothing."""
        before, after = self.frame
        room = (how.max_length or self.model.config.context) - len(before) - len(after)
        if room < 1:
            raise ValueError(
                f"max_length is {how.max_length}, too short for a text and {len(before) + len(after)} tokens more"
            )
        prepared = [text.strip().lower() if how.lowercase else text.strip() for text in texts]
        read = ([*before, *ids[:room], *after] for ids in self.tokenizer.encode_many(prepared))
        return [ids or [self.tokenizer.opening] for ids in read]

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and after a text: the class token and the separator, or what opens a text of a GPT."""
        tokenizer = self.tokenizer
        if self.model.config.name == "bert":
            return [tokenizer.role("begin")], [tokenizer.role("separator")]
        return ([tokenizer.role("begin")] if tokenizer.opens else []), []

    @torch.no_grad()
    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        return self.runner(torch.tensor(ids, device=self.device), layout=Row.of([len(ids)]).to(self.device))


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a checkpoint, whichever task wrote it."""
    settings = read_text_settings(checkpoint.config.get("tokenizer")).items()
    names = UnitsConfig.__dataclass_fields__
    how = config.build(UnitsConfig, {name: value for name, value in settings if name in names}, where="tokenizer")
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), how)


def vector_to_list(vector: Float[np.ndarray, "width"]) -> list[float]:
    """Numbers of a vector for JSON, as short as they come back the same in single precision."""
    return [float(str(value)) for value in vector]
