"""Learning to write captions: pictures as regions, the likelihood of what people wrote, BLEU on held-out pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from regard import config
from regard.attention.hard import score_function
from regard.attention.hardware import device_of
from regard.attention.masks import Grid
from regard.checkpoint import Checkpoint
from regard.config.ranges import Amount, Count, Share, Small, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free, Warned
from regard.config.words import quantity
from regard.data.examples import TensorBatch
from regard.data.pictures.album import PREPARATION, note_enlarged, sample_digests
from regard.data.pictures.augment import Augment, AugmentConfig
from regard.data.tokenizers import TokenizerConfig
from regard.metrics.captions import score_captions
from regard.metrics.likelihood import IGNORE
from regard.models.captioner import CaptionerConfig, TransformerCaptionerConfig
from regard.models.writers import Looks
from regard.tasks.card import card
from regard.tasks.vision.captions import preparing
from regard.tasks.vision.captions.preparing import CaptionsConfig, Prepared
from regard.tasks.vision.captions.recognition import recognise
from regard.tasks.vision.captions.regions import Kept, Regions
from regard.tasks.vision.captions.writer import CaptionOptions, CaptionWriter, read_tokenizer
from regard.tasks.vision.classification import sizes_for
from regard.tasks.vision.opening import patch_size
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, alone, sample_evenly

Part = Literal["train", "valid"]
CHUNK = 128  # captions, or pictures, that one process measures at a time
PASSES = 30  # over the captions, where nobody says how many


@dataclass(frozen=True, kw_only=True)
class CaptionObjective:
    """What is minimised, and how progress is judged."""

    smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all tokens instead of the right one."""
    doubly: Amount = 1.0
    """Soft attention: weight of the doubly stochastic regulariser, by which every region is looked at in time."""
    reinforce: Amount = 1.0
    """Hard attention: weight of the score function beside the likelihood."""
    entropy: Amount = 0.01
    """Hard attention: weight of the entropy of the weights, which keeps them from deciding too soon."""
    beams: Small = 1
    """Beams of the captions that are scored; greedy ones are quick and rank checkpoints as well."""
    judged: Count = 1000
    """Held-out pictures about which captions are written at an evaluation; the loss is taken over all."""
    samples: Free[Whole] = 5
    """Held-out pictures whose captions are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class CaptionsRecipe:
    """One run that learns to write captions."""

    task: Fixed[Literal["captions"]] = "captions"
    """What is learnt."""
    data: Fingerprinted[CaptionsConfig]
    """Pictures with captions, and how they are batched."""
    augment: Warned[AugmentConfig] = field(default_factory=AugmentConfig)
    """How pictures are varied in training; what a frozen encoder makes of them is then computed every time, unless they
    are mirrored and nothing else: both sides are kept then."""
    tokenizer: Fixed[TokenizerConfig] = field(default_factory=lambda: TokenizerConfig(kind="words"))
    """How captions become tokens."""
    model: Fixed[CaptionerConfig | TransformerCaptionerConfig] = field(default_factory=CaptionerConfig)
    """The network, chosen by its name."""
    objective: CaptionObjective = field(default_factory=CaptionObjective)
    """The loss, and how checkpoints are scored."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""
    decoding: CaptionOptions = field(default_factory=CaptionOptions)
    """Beam search."""

    def __post_init__(self) -> None:
        if self.augment.mixes:
            raise ValueError("augment.mixup and augment.cutmix make one picture of two, which no caption tells: set 0")
        for name, longest in (("data", self.data.longest), ("decoding", self.decoding.longest)):
            if longest > self.model.context:
                raise ValueError(
                    f"{name}.longest is {longest} tokens, more than model.context, {self.model.context}: "
                    "lower the one or raise the other"
                )


@dataclass(frozen=True)
class CaptionBatch(TensorBatch):
    """Some captions: which, about which pictures, as tokens; and their pictures unless the device has them."""

    numbers: Int[Tensor, "caption"]
    pictures: Int[Tensor, "caption"]
    places: Int[Tensor, "caption"]
    """Where they stand in the order of training, by which pictures are varied."""
    target: Int[Tensor, "caption token"]
    labels: Int[Tensor, "caption token"]
    lengths: Int[Tensor, "caption"]
    seen: UInt8[Tensor, "caption channels size size"] | Float[Tensor, "caption region features"] | None = None
    """Bytes of the pictures, or what a frozen encoder made of them."""


class Captions(Task):
    """The task of learning to write captions."""

    Recipe = CaptionsRecipe
    usage: ClassVar[str] = "regard caption {folder} PICTURE"
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"judged": 1, "samples": 1}}
    goal: Goal = ("bleu4", "max")
    recognise = staticmethod(recognise)

    def __init__(self, recipe: CaptionsRecipe, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, data = recipe, prepared, model, recipe.data
        self.train, self.valid = (prepared.lines(side, data) for side in (prepared.train, prepared.valid))
        self.rows = math.ceil(len(self.train) / data.batch)
        self.features = data.batch * data.longest * recipe.model.width
        scales = {"mean": prepared.mean, "std": prepared.std}
        self.augment = Augment(recipe.augment, **scales, seed=recipe.training.seed, device=device_of(model))
        self.mirrored = recipe.augment == AugmentConfig(flip=True)
        kept = not recipe.model.tuned and (self.mirrored or recipe.augment == AugmentConfig())
        mirrored = {"train": self.mirrored, "valid": False}
        sides = self._sides.items() if kept else ()
        self.kept = {side: Kept(model, own, self.augment, mirrored=mirrored[side]) for side, own in sides}
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {quantity(data.batch, 'caption')}"]
        self.notes += note_enlarged(patch_size(recipe.model.encoder), *(own.album for own in self._sides.values()))
        if kept:
            regions, features = recipe.model.read
            size = 2 * regions * features * ((1 + self.mirrored) * len(prepared.train) + len(prepared.valid))
            self.notes.append(f"the encoder is frozen: {size / 1e6:,.0f} MB of regions are computed once and cached")

    @property
    def _sides(self) -> dict[str, preparing.Captioned]:
        return {"train": self.prepared.train, "valid": self.prepared.valid}

    @staticmethod
    def prepare(recipe: CaptionsRecipe, known: Checkpoint | None = None) -> Prepared:
        """Read pictures and captions, as a model to start from knows them."""
        tokenizer = read_tokenizer(known) if known is not None and "tokenizer.json" in known.files else None
        before = None if known is None else known.config
        size = recipe.model.encoder.size or None
        return preparing.prepare(recipe.data, recipe.tokenizer, parent_config=before, tokenizer=tokenizer, size=size)

    @staticmethod
    def default_settings(recipe: CaptionsRecipe, prepared: Prepared) -> dict[str, Any]:
        """An encoder that learns where there is none to start from, and an end that so many captions ask for."""
        captions = prepared.report["train"]["captions"]
        batch = round_between(8, captions // 40, 64)
        rows = math.ceil(captions / batch)
        encoder = sizes_for(recipe.model.encoder, len(prepared.train), prepared.shape.size)
        return {
            "data": {"batch": batch},
            "model": {"tuned": prepared.fresh, "encoder": encoder},
            "optim": {"name": "adamw", "rate": 5e-4, "schedule": "cosine"},
            "training": default_run_length(recipe.training, rows=rows, steps=round_between(300, PASSES * rows, 50_000)),
        }

    @staticmethod
    def fill_sizes(recipe: CaptionsRecipe, prepared: Prepared) -> CaptionsRecipe:
        """The recipe with the vocabulary, and the size and scales of the pictures."""
        seen: dict[str, Any] = {"size": prepared.shape.size, "channels": prepared.shape.channels}
        data = replace(recipe.data, **prepared.shape._asdict(), mean=prepared.mean, std=prepared.std)
        encoder: Any = replace(recipe.model.encoder, classes=0, **seen)  # type: ignore[arg-type]
        return replace(recipe, data=data, model=replace(recipe.model, encoder=encoder, vocab=prepared.tokenizer.vocab))

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: Prepared) -> list[str]:
        """Weights of another captioner, or of a model of pictures as the encoder."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == CaptionsRecipe.task)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """All weights that learn, one optimizer."""
        return {"model": [weight for weight in self.model.parameters() if weight.requires_grad]}

    def batch(self, row: int) -> CaptionBatch:
        """The captions of a row."""
        chosen = self.train.row(row, batch=self.recipe.data.batch, seed=self.recipe.training.seed)
        return self._batch("train", chosen, first=row * self.recipe.data.batch)

    def _batch(self, part: Part, chosen: Int[np.ndarray, "some"], *, first: int = 0) -> CaptionBatch:
        lines = self.train if part == "train" else self.valid
        bound, begin = lines.bound(chosen), self.prepared.tokenizer.opening
        labels, target = np.full((len(chosen), bound), IGNORE), np.full((len(chosen), bound), begin)
        for line, number in enumerate(chosen):
            ids = lines.tokens[number]
            labels[line, : len(ids)], target[line, 1 : len(ids)] = ids, ids[:-1]
        pictures, places = lines.picture[chosen], np.arange(first, first + len(chosen))
        arrays = chosen, pictures, places, target, labels, lines.lengths[chosen]
        numbers, turns = torch.from_numpy(pictures), torch.from_numpy(places)
        if self.kept:
            seen = self.kept[part].batch(self._shown(part, numbers, turns).numpy())
        else:
            seen = torch.from_numpy(self._sides[part].pixels(pictures))
        return CaptionBatch(*map(torch.from_numpy, arrays), seen)  # type: ignore[call-arg]

    def _shown(self, part: Part, pictures: Int[Tensor, "some"], places: Int[Tensor, "some"]) -> Int[Tensor, "some"]:
        """Which of the kept regions are shown: some of the mirrored pictures' in training, if those are kept too."""
        if part != "train" or not self.mirrored:
            return pictures
        return pictures + len(self.prepared.train) * self.augment.draw_flips(places)

    def origins(self, batch: CaptionBatch) -> list[str]:
        """Where the pictures of these captions are named, the longest caption first."""
        order = batch.lengths.cpu().argsort(descending=True, stable=True)
        return [self.prepared.train.place(int(picture)) for picture in batch.pictures.cpu()[order]]

    def step(self, batch: CaptionBatch, part: str) -> Step:
        """The surprise at every token, summed; what else is learnt by has a gradient and adds nothing."""
        batch = batch.to(self.device)
        costs, looks = self._costs(batch, "train", smoothing=self.recipe.objective.smoothing)
        real = batch.labels != IGNORE
        more = self._more(costs, looks, real)
        return Step(loss=costs.sum() + more - more.detach(), weight=real.sum(), counts={"tokens": real.sum()})

    def after_update(self, loss: Float[Tensor, ""], *, veto: Bool[Tensor, ""]) -> None:
        """What a token cost in a step, which hard attention expects of the next one."""
        if isinstance(self.model.config, CaptionerConfig) and self.model.config.attention == "hard":
            self.model.update_expected_loss(loss, veto=veto)

    def _costs(
        self, batch: CaptionBatch, part: Part, *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, "caption token"], Looks]:
        """The surprise at every token, 0 on padding, and where the model looked."""
        grid = Grid(batch.lengths, batch.target.shape[1])
        features, looks = self.model(self._regions(batch, part), batch.target, grid)
        logits = self.model.logits(features).float().transpose(1, 2)
        how: dict[str, Any] = {"reduction": "none", "label_smoothing": smoothing, "ignore_index": IGNORE}
        return F.cross_entropy(logits, batch.labels, **how), looks

    def _regions(self, batch: CaptionBatch, part: Part) -> Regions:
        """What the encoder makes of the pictures of a batch, computed now, or long ago if it is frozen."""
        if self.kept:
            shown = self._shown(part, batch.pictures, batch.places)
            return self.kept[part].of(shown) if batch.seen is None else batch.seen
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):  # places of pixels need all their bits
            varied = part == "train"
            seen: Any = batch.seen
            pixels = self.augment(seen, batch.pictures, batch.places).pixels if varied else self.augment.plain(seen)
        return self.model.regions(pixels)

    def _more(self, costs: Tensor, looks: Looks, real: Bool[Tensor, "caption token"]) -> Float[Tensor, ""]:
        """What is minimised beside the costs: Xu et al. 2015, equations 12 and 14."""
        aims, more = self.recipe.objective, costs.new_zeros(())
        if looks.weights is not None and aims.doubly:
            spent = (looks.weights * real[..., None]).sum(1)
            more = more + aims.doubly * (1 - spent).pow(2).sum()
        if looks.log_probability is not None and looks.entropy is not None:
            ahead = real.flip(1).cumsum(1).flip(1) * self.model.expected_loss
            drawn = score_function(costs, looks.log_probability * real, baseline=ahead)
            more = more + aims.reinforce * drawn.sum() - aims.entropy * (looks.entropy * real).sum()
        return more

    @torch.no_grad()
    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Loss per token over all held-out captions, scores of captions that are written about some of the pictures."""
        chunks = [range(first, min(first + CHUNK, len(self.valid))) for first in range(0, len(self.valid), CHUNK)]
        losses = spread(self._surprise, chunks)
        side = self.prepared.valid
        pictures = list(sample_evenly(range(len(side)), self.recipe.objective.judged))
        blocks = [pictures[first : first + CHUNK] for first in range(0, len(pictures), CHUNK)]
        answers = [text for block in spread(self._written, blocks) for text in block]
        references = [side.texts[picture] for picture in pictures]
        scores = score_captions(answers, references)
        samples = [
            {"picture": side.name(picture), "reference": side.texts[picture][0], "answer": answer}
            for picture, answer in sample_evenly(
                list(zip(pictures, answers, strict=True)), self.recipe.objective.samples
            )
        ]
        tokens = sum(count for _, count in losses)
        metrics = {"loss": sum(loss for loss, _ in losses) / max(tokens, 1)}
        metrics |= {name: scores[own].score for name, own in (("bleu4", "BLEU-4"), ("cider", "CIDEr-D"))}
        return Evaluation(metrics, samples)

    def _surprise(self, chunk: range) -> tuple[float, int]:
        """The loss of some held-out captions, summed, and how many tokens that is."""
        batch = self._batch("valid", np.array(chunk)).to(self.device)
        costs, _ = self._costs(batch, "valid")
        return float(costs.sum()), int((batch.labels != IGNORE).sum())

    def _written(self, pictures: list[int]) -> list[str]:
        """Captions about some held-out pictures."""
        chosen = np.array(pictures)
        if self.kept:
            regions = self.kept["valid"].of(torch.from_numpy(chosen).to(self.device))
        else:
            regions = self.model.regions(self.augment.plain(self._pixels(chosen)))
        found = self.writer().written(regions, replace(self.recipe.decoding, beams=self.recipe.objective.beams))
        return [one.text for one in found]

    def _pixels(self, pictures: Int[np.ndarray, "some"]) -> UInt8[Tensor, "some channels size size"]:
        return torch.from_numpy(self.prepared.valid.pixels(pictures)).to(self.device)

    def writer(self) -> CaptionWriter:
        """The model as it is now, ready to use."""
        return CaptionWriter(self.model, self.prepared.tokenizer, self._data(), self.recipe.decoding)

    def _data(self) -> Mapping[str, Any]:
        """How pictures are brought to the model, for the checkpoint."""
        plain = config.plain(self.recipe.data)
        file = config.plain(replace(self.recipe.data.train[0], path="", folder=None, only=None))
        told = {name: plain[name] for name in (*PREPARATION, "plain") if plain[name] is not None}
        return {**told, "file": file, "learnt": sample_digests(self.prepared.train.marks)}

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe = config.plain(self.recipe)
        kept = {name: recipe[name] for name in ("task", "model", "tokenizer", "decoding")}
        kept["tokenizer"]["normalise"] = self.prepared.tokenizer.how.normalise
        return {
            "config.yaml": {"format": 1, **kept, "data": self._data()},
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": self.card(),
        }

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        data = self.recipe.data
        return card(
            "Writes captions",
            f"{self.recipe.model.phrase}. Trained with Regard on {len(self.train):,} captions of "
            f"{len(self.prepared.train):,} pictures, brought to {data.size} x {data.size} pixels.",
            command="regard caption DIRECTORY picture.jpg",
            code='caption(["picture.jpg"])',
            files=[file.path for file in data.train],
        )
