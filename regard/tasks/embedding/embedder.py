"""Text embeddings from a trained BERT or GPT of any task."""

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
BUDGET = 1 << 11  # tokens per batch
TOGETHER = 1 << 14  # texts tokenised at a time
Progress = Callable[[int, int], None]
SHOWN = 6  # features printed in a line


@dataclass(frozen=True)
class Embedding:
    """A text and its vector."""

    text: str
    vector: Float[np.ndarray, "width"]

    def __str__(self) -> str:
        numbers = " ".join(f"{value:.4f}" for value in self.vector[:SHOWN])
        return f"{numbers}{' ...' * (len(self.vector) > SHOWN)}"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"text": self.text, "embedding": vector_to_list(self.vector)}


class Embedder(DirectAnswers):
    """Embeds texts: pools the last hidden states of their tokens."""

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
        """Load the BERT or GPT of a checkpoint of any task, with the checkpoint's pooling if it has one."""
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
        """True if models of this config can embed texts: BERT and GPT, without a classification head."""
        return model.get("name") in BODIES

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.runner.device

    @property
    def width(self) -> int:
        """Number of features of a vector."""
        return self.model.config.width

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Embedding]:
        """Return the vector of each text; options are those of `EmbeddingConfig`."""
        inputs = list_inputs(inputs, TEXT, verb=self.verb)
        vectors = self.embed(inputs, **options)
        return [Embedding(text, vector) for text, vector in zip(inputs, vectors, strict=True)]

    def embed(
        self, texts: str | Sequence[str], *, progress: Progress = lambda completed, total: None, **options: Any
    ) -> Float[np.ndarray, "text width"]:
        """Return the vectors of texts, in their order; texts of the same length share a batch, without padding.

        `progress` is called with the number of finished texts and their total.
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
        """Yield the vectors of each batch; on a CPU, batches run in several threads unless their order matters."""

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
        """Return retrieval scores on pairs of texts, in files like those of training, or in two parallel files.

        With a `rating`, a column of human ratings of the pairs, return the correlation of cosines with the ratings.
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
        """Return the vectors of texts, always scaled to length 1."""
        return self.embed(texts, normalise=True)

    def look(self, text: str, **options: Any) -> Trace:
        """Read a text and return the attention of every head."""
        [ids] = self.encode([check_input(text, TEXT, verb="look")], self.resolve_options(options))
        with watch(self.model) as watched:
            self._read(ids)
        items = {"source": tokens(self.tokenizer, ids)}
        weights = [
            Weights(name, "source", "source", watched[name][0].cpu(), watched.visible(name)[0].cpu())
            for name in watched
        ]
        return Trace(self.name, self.task, items, weights, {"text": text, "answer": text, "read": ids}, self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """Return the vectors inside all attentions, or those in `names`, by reading the text again."""
        names = names or [attention.name for attention in trace.weights]
        vectors, _ = inside(self.model, lambda: self._read(trace.facts["read"]), names=names)
        return Steps(vectors, [])

    def resolve_options(self, options: dict[str, Any]) -> EmbeddingConfig:
        """Return the options, with defaults from the checkpoint."""
        how = resolve_options(self, options, below=config.plain(self.how))
        if how.max_length is not None and how.max_length > self.model.config.context:
            raise ValueError(
                f"max_length is {how.max_length}, the model reads {self.model.config.context} tokens at most"
            )
        return how

    def count_tokens(self, item: Any) -> int | None:
        """Return the number of tokens of a text, of which no more are read than the model's context has."""
        return min(self.tokenizer.count([item]), self.model.config.context)

    def encode(self, texts: Sequence[str], how: EmbeddingConfig) -> list[list[int]]:
        """Tokenise texts, truncated and with special tokens; blanks around a text are removed."""
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
        """The special tokens before and after a text: BERT's class token and separator, or a GPT's begin token."""
        tokenizer = self.tokenizer
        if self.model.config.name == "bert":
            return [tokenizer.role("begin")], [tokenizer.role("separator")]
        return ([tokenizer.role("begin")] if tokenizer.opens else []), []

    @torch.no_grad()
    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        return self.runner(torch.tensor(ids, device=self.device), layout=Row.of([len(ids)]).to(self.device))


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer:
    """Return the tokenizer of a checkpoint of any task."""
    settings = read_text_settings(checkpoint.config.get("tokenizer")).items()
    names = UnitsConfig.__dataclass_fields__
    how = config.build(UnitsConfig, {name: value for name, value in settings if name in names}, where="tokenizer")
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), how)


def vector_to_list(vector: Float[np.ndarray, "width"]) -> list[float]:
    """Return a vector as floats for JSON, in the shortest form that is exact in single precision."""
    return [float(str(value)) for value in vector]
