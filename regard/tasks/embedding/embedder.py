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
from regard.data.normalise import recorded
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
from regard.tasks.embedding.pooling import EmbeddingConfig, pooled, scaled
from regard.tasks.embedding.scoring import measured, scored
from regard.tasks.inputs import TEXT, check_files, check_input, list_inputs
from regard.tasks.trained import DirectAnswers, chosen, described, revived

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
        return {"text": self.text, "embedding": listed(self.vector)}


class Embedder(DirectAnswers):
    """Turns texts into vectors: reads each with all blocks of a model and pools the vectors of its tokens."""

    task: ClassVar[str] = "matching"
    verb: ClassVar[str] = "embed"
    kind: ClassVar[str] = "an embedder"
    Options: ClassVar[type] = EmbeddingConfig
    LookOptions: ClassVar[type] = EmbeddingConfig
    __repr__ = described

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
            held = f"{checkpoint.directory} holds {shape.phrase}"
            raise ValueError(f"{held}, which gives no vectors of texts: give a BERT or a GPT, pre-trained or imported")
        how = config.build(EmbeddingConfig, checkpoint.config.get("embedding", {}), where="embedding")
        found = cls(revived(checkpoint, device), tokenizer_of(checkpoint), how, checkpoint.directory.name)
        found.file = dict(checkpoint.config.get("data", {}).get("file", {}))
        return found

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
        found = self.embed(inputs, **options)
        return [Embedding(text, vector) for text, vector in zip(inputs, found, strict=True)]

    def embed(
        self, texts: str | Sequence[str], *, progress: Progress = lambda done, total: None, **options: Any
    ) -> Float[np.ndarray, "text width"]:
        """The vectors of texts, in their order; texts of the same length are read together, without padding.

        `progress` hears how many of the texts are done.
        """
        how = self.chosen(options)
        given = list_inputs(texts, TEXT, verb=self.verb)
        found = np.empty((len(given), self.width), np.float32)
        for start in range(0, len(given), TOGETHER):
            read = self.encode(given[start : start + TOGETHER], how)
            batches = by_equal_length([len(ids) for ids in read], budget=BUDGET)
            done = start
            for batch, vectors in zip(batches, self._embed_batches(read, batches, how), strict=True):
                found[[start + number for number in batch]] = vectors
                done += len(batch)
                progress(done, len(given))
        return found

    def _embed_batches(
        self, read: Sequence[Sequence[int]], batches: Sequence[Sequence[int]], how: EmbeddingConfig
    ) -> Iterator[Float[np.ndarray, "text width"]]:
        """Vectors of each batch of texts; on a CPU several batches side by side, where their order does not matter."""

        @torch.no_grad()
        def embed_batch(batch: Sequence[int]) -> Float[np.ndarray, "text width"]:
            flat = torch.tensor([id for number in batch for id in read[number]], device=self.device)
            row = Row.of([len(read[number]) for number in batch]).to(self.device)
            vectors = pooled(self.runner(flat, layout=row), row, how.pool)
            return scaled(vectors.float(), how.normalise).cpu().numpy()

        watched = any(isinstance(module, Tap) and module.watched for module in self.model.modules())
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
            return rated.scored(name or self.name, self.task, self.units, pairs)
        own = {**self.file, **({} if columns is None else {"columns": columns}), **options}
        tables = list(map(is_table, names))
        beside = len(names) == 2 and not any(tables)
        told = [{"source": names[0], "target": names[1]}] if beside else [{**own, "path": name} for name in names]
        given, _ = read([config.build(Corpus, one, where="file") for one in told], 0.0)
        return scored(name or self.name, self.task, measured(self.units, given))

    def units(self, texts: Sequence[str]) -> Float[np.ndarray, "text width"]:
        """The vectors of texts, of length 1 in any case."""
        return self.embed(texts, normalise=True)

    def look(self, given: str, **options: Any) -> Trace:
        """Read a text and keep where every head looked."""
        [ids] = self.encode([check_input(given, TEXT, verb="look")], self.chosen(options))
        with watch(self.model) as seen:
            self._read(ids)
        items = {"source": tokens(self.tokenizer, ids)}
        weights = [Weights(name, "source", "source", seen[name][0].cpu()) for name in seen]
        return Trace(self.name, self.task, items, weights, {"text": given, "answer": given, "read": ids}, self.steps)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None) -> Steps:
        """The vectors of all attentions (or of those named) as the text is read again."""
        names = names or [one.name for one in trace.weights]
        found, _ = inside(self.model, lambda: self._read(trace.facts["read"]), names=names)
        return Steps(found, [])

    def chosen(self, options: dict[str, Any]) -> EmbeddingConfig:
        """How texts are read; what nobody names is as in the checkpoint."""
        how = chosen(self, options, below=config.plain(self.how))
        if how.longest is not None and how.longest > self.model.config.context:
            raise ValueError(f"longest is {how.longest}, the model reads {self.model.config.context} tokens at most")
        return how

    def encode(self, texts: Sequence[str], how: EmbeddingConfig) -> list[list[int]]:
        """Tokens of each text as the model reads it, special ones included; blanks around a text mean nothing."""
        before, after = self.frame
        room = (how.longest or self.model.config.context) - len(before) - len(after)
        if room < 1:
            raise ValueError(
                f"longest is {how.longest}, too short for a text and {len(before) + len(after)} tokens more"
            )
        prepared = [text.strip().lower() if how.lowercase else text.strip() for text in texts]
        read = ([*before, *ids[:room], *after] for ids in self.tokenizer.encode_many(prepared))
        return [ids or [self.tokenizer.opening] for ids in read]

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and after a text: the class token and the separator, or what opens a text of a GPT."""
        own = self.tokenizer
        if self.model.config.name == "bert":
            return [own.role("begin")], [own.role("separator")]
        return ([own.role("begin")] if own.opens else []), []

    @torch.no_grad()
    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        return self.runner(torch.tensor(ids, device=self.device), layout=Row.of([len(ids)]).to(self.device))


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a checkpoint, whichever task wrote it."""
    known = recorded(checkpoint.config.get("tokenizer")).items()
    names = UnitsConfig.__dataclass_fields__
    how = config.build(UnitsConfig, {name: value for name, value in known if name in names}, where="tokenizer")
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), how)


def listed(vector: Float[np.ndarray, "width"]) -> list[float]:
    """Numbers of a vector for JSON, as short as they come back the same in single precision."""
    return [float(str(value)) for value in vector]
