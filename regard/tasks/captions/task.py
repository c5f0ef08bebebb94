"""Training a captioner: regions of images in, the likelihood of human captions as loss, BLEU on held-out images."""

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
from regard.data.examples import TensorBatch, sample_evenly
from regard.data.images.album import PREPARATION, note_enlarged, sample_digests
from regard.data.images.augmentation import Augment, AugmentConfig
from regard.data.tokenizers import TokenizerConfig
from regard.metrics.captions import score_captions
from regard.metrics.likelihood import IGNORE
from regard.models.captioner import CaptionerConfig, TransformerCaptionerConfig
from regard.models.parts.recurrent_decoders import Looks
from regard.tasks.captions import dataset
from regard.tasks.captions.cached_regions import CachedRegions, Regions
from regard.tasks.captions.dataset import CaptionsConfig, CaptionSplits
from regard.tasks.captions.recognition import recognise
from regard.tasks.captions.writer import CaptionOptions, CaptionWriter, read_tokenizer
from regard.tasks.image_inputs import channels_last, patch_size
from regard.tasks.image_model_sizes import default_model_sizes
from regard.tasks.model_card import model_card
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, TraceInput, alone

Part = Literal["train", "valid"]
EVALUATION_BATCH = 128  # captions, or images, that one process measures at a time
EPOCHS = 30  # of training, unless a length is named


@dataclass(frozen=True, kw_only=True)
class CaptionObjective:
    """What is minimised, and how progress is judged."""

    label_smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all tokens instead of the right one."""
    doubly_stochastic: Amount = 1.0
    """Soft attention: weight of the doubly stochastic regulariser, by which every region is looked at in time."""
    reinforce: Amount = 1.0
    """Hard attention: weight of the score function beside the likelihood."""
    entropy: Amount = 0.01
    """Hard attention: weight of the entropy of the weights, which keeps them from deciding too soon."""
    beams: Small = 1
    """Beams of the captions that are scored; greedy ones are quick and rank checkpoints as well."""
    eval_examples: Count = 1000
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
        for name, length in (("data.max_length", self.data.max_length), ("decoding.longest", self.decoding.longest)):
            if length > self.model.context:
                raise ValueError(
                    f"{name} is {length} tokens, more than model.context, {self.model.context}: "
                    "lower the one or raise the other"
                )


@dataclass(frozen=True)
class CaptionBatch(TensorBatch):
    """Some captions: which, about which images, as tokens; and their images unless the device has them."""

    numbers: Int[Tensor, "caption"]
    image_numbers: Int[Tensor, "caption"]
    places: Int[Tensor, "caption"]
    """Where they stand in the order of training, by which pictures are varied."""
    target: Int[Tensor, "caption token"]
    labels: Int[Tensor, "caption token"]
    lengths: Int[Tensor, "caption"]
    inputs: UInt8[Tensor, "caption channels size size"] | Float[Tensor, "caption region features"] | None = None
    """Bytes of the pictures, or what a frozen encoder made of them."""


class Captions(Task):
    """The task of writing captions."""

    Recipe = CaptionsRecipe
    usage: ClassVar[str] = "regard caption {folder} PICTURE"
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"eval_examples": 1, "samples": 1}}
    goal: Goal = ("bleu4", "max")
    recognise = staticmethod(recognise)

    def __init__(self, recipe: CaptionsRecipe, prepared: CaptionSplits, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, data = recipe, prepared, model, recipe.data
        self.train, self.valid = (prepared.tokenize_captions(part, data) for part in (prepared.train, prepared.valid))
        self.rows = math.ceil(len(self.train) / data.batch_size)
        self.features = data.batch_size * data.max_length * recipe.model.width
        statistics = {"mean": prepared.mean, "std": prepared.std}
        self.augment = Augment(recipe.augment, **statistics, seed=recipe.training.seed, device=device_of(model))
        self.mirrored = recipe.augment == AugmentConfig(flip=True)
        is_cached = not recipe.model.tuned and (self.mirrored or recipe.augment == AugmentConfig())
        mirrored_parts = {"train": self.mirrored, "valid": False}
        cached_parts = self._images_by_part.items() if is_cached else ()
        self.cached_regions = {
            part: CachedRegions(model, images, self.augment, mirrored=mirrored_parts[part])
            for part, images in cached_parts
        }
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {quantity(data.batch_size, 'caption')}"]
        self.notes += note_enlarged(
            patch_size(recipe.model.encoder), *(images.album for images in self._images_by_part.values())
        )
        if is_cached:
            regions, features = recipe.model.read
            size = 2 * regions * features * ((1 + self.mirrored) * len(prepared.train) + len(prepared.valid))
            self.notes.append(f"the encoder is frozen: {size / 1e6:,.0f} MB of regions are computed once and cached")

    @property
    def _images_by_part(self) -> dict[str, dataset.CaptionedImages]:
        return {"train": self.prepared.train, "valid": self.prepared.valid}

    @staticmethod
    def prepare(recipe: CaptionsRecipe, parent: Checkpoint | None = None) -> CaptionSplits:
        """Read and prepare images and captions; a parent model gives its tokenizer and image settings."""
        tokenizer = read_tokenizer(parent) if parent is not None and "tokenizer.json" in parent.files else None
        parent_config = None if parent is None else parent.config
        size = recipe.model.encoder.size or None
        return dataset.prepare(
            recipe.data, recipe.tokenizer, parent_config=parent_config, tokenizer=tokenizer, size=size
        )

    @staticmethod
    def default_settings(recipe: CaptionsRecipe, prepared: CaptionSplits) -> dict[str, Any]:
        """Choose batch size and training length for so many captions; a new encoder learns too."""
        captions = prepared.report["train"]["captions"]
        batch_size = round_between(8, captions // 40, 64)
        rows = math.ceil(captions / batch_size)
        encoder = default_model_sizes(recipe.model.encoder, len(prepared.train), prepared.shape.size)
        return {
            "data": {"batch_size": batch_size},
            "model": {"tuned": prepared.fresh, "encoder": encoder},
            "optim": {"name": "adamw", "learning_rate": 5e-4, "schedule": "cosine"},
            "training": default_run_length(recipe.training, rows=rows, steps=round_between(300, EPOCHS * rows, 50_000)),
        }

    @staticmethod
    def fill_sizes(recipe: CaptionsRecipe, prepared: CaptionSplits) -> CaptionsRecipe:
        """Return the recipe with the vocabulary, and the size and statistics of the images."""
        input_sizes: dict[str, Any] = {"size": prepared.shape.size, "channels": prepared.shape.channels}
        data = replace(recipe.data, **prepared.shape._asdict(), mean=prepared.mean, std=prepared.std)
        encoder: Any = replace(recipe.model.encoder, classes=0, **input_sizes)  # type: ignore[arg-type]
        return replace(recipe, data=data, model=replace(recipe.model, encoder=encoder, vocab=prepared.tokenizer.vocab))

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: CaptionSplits) -> list[str]:
        """Load the weights of another captioner, or of an image model as the encoder."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == CaptionsRecipe.task)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return all weights that learn, for one optimizer."""
        return {"model": [weight for weight in self.model.parameters() if weight.requires_grad]}

    def batch(self, row: int) -> CaptionBatch:
        """Return the captions of a row."""
        chosen = self.train.training_row(row, batch=self.recipe.data.batch_size, seed=self.recipe.training.seed)
        return self._batch("train", chosen, first=row * self.recipe.data.batch_size)

    def _batch(self, part: Part, caption_numbers: Int[np.ndarray, "some"], *, first: int = 0) -> CaptionBatch:
        lines = self.train if part == "train" else self.valid
        length, opening = lines.padded_length(caption_numbers), self.prepared.tokenizer.opening
        labels, target = (
            np.full((len(caption_numbers), length), IGNORE),
            np.full((len(caption_numbers), length), opening),
        )
        for line, number in enumerate(caption_numbers):
            ids = lines.tokens[number]
            labels[line, : len(ids)], target[line, 1 : len(ids)] = ids, ids[:-1]
        images, places = lines.image_numbers[caption_numbers], np.arange(first, first + len(caption_numbers))
        arrays = caption_numbers, images, places, target, labels, lines.lengths[caption_numbers]
        numbers, place_numbers = torch.from_numpy(images), torch.from_numpy(places)
        if self.cached_regions:
            inputs = self.cached_regions[part].batch(self._region_numbers(part, numbers, place_numbers).numpy())
        else:
            inputs = torch.from_numpy(self._images_by_part[part].pixels(images))
        return CaptionBatch(*map(torch.from_numpy, arrays), inputs)  # type: ignore[call-arg]

    def _region_numbers(
        self, part: Part, images: Int[Tensor, "some"], places: Int[Tensor, "some"]
    ) -> Int[Tensor, "some"]:
        """Return which cached regions are read: in training some mirrored ones, if those are cached too."""
        if part != "train" or not self.mirrored:
            return images
        return images + len(self.prepared.train) * self.augment.draw_flips(places)

    def origins(self, batch: CaptionBatch) -> list[str]:
        """Return where the images of these captions are named, the longest caption first."""
        order = batch.lengths.cpu().argsort(descending=True, stable=True)
        return [self.prepared.train.place(int(image)) for image in batch.image_numbers.cpu()[order]]

    def step(self, batch: CaptionBatch, part: str) -> Step:
        """Return the summed cross-entropy; the other losses have a gradient and add nothing to its value."""
        batch = batch.to(self.device)
        losses, looks = self._token_losses(batch, "train", smoothing=self.recipe.objective.label_smoothing)
        is_token = batch.labels != IGNORE
        extra = self._extra_losses(losses, looks, is_token)
        return Step(
            loss=losses.sum() + extra - extra.detach(), weight=is_token.sum(), counts={"tokens": is_token.sum()}
        )

    def after_update(self, loss: Float[Tensor, ""], *, veto: Bool[Tensor, ""]) -> None:
        """Tell hard attention the loss of a token in a step, which it expects of the next one."""
        if isinstance(self.model.config, CaptionerConfig) and self.model.config.attention == "hard":
            self.model.update_expected_loss(loss, veto=veto)

    def _token_losses(
        self, batch: CaptionBatch, part: Part, *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, "caption token"], Looks]:
        """Return the cross-entropy of every token, 0 on padding, and where the model looked."""
        grid = Grid(batch.lengths, batch.target.shape[1])
        features, looks = self.model(self._regions(batch, part), batch.target, grid)
        logits = self.model.logits(features).float().transpose(1, 2)
        options: dict[str, Any] = {"reduction": "none", "label_smoothing": smoothing, "ignore_index": IGNORE}
        return F.cross_entropy(logits, batch.labels, **options), looks

    def _regions(self, batch: CaptionBatch, part: Part) -> Regions:
        """Return what the encoder makes of the images of a batch, from the cache if it is frozen."""
        if self.cached_regions:
            numbers = self._region_numbers(part, batch.image_numbers, batch.places)
            return self.cached_regions[part].select(numbers) if batch.inputs is None else batch.inputs
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):  # places of pixels need all their bits
            is_training = part == "train"
            inputs: Any = batch.inputs
            if is_training:
                pixels = self.augment(inputs, batch.image_numbers, batch.places).pixels
            else:
                pixels = self.augment.plain(inputs)
        return self.model.regions(pixels)

    def _extra_losses(self, losses: Tensor, looks: Looks, is_token: Bool[Tensor, "caption token"]) -> Float[Tensor, ""]:
        """Return what is minimised beside the cross-entropy: Xu et al. 2015, equations 12 and 14."""
        objective, total = self.recipe.objective, losses.new_zeros(())
        if looks.weights is not None and objective.doubly_stochastic:
            attention_of_region = (looks.weights * is_token[..., None]).sum(1)
            total = total + objective.doubly_stochastic * (1 - attention_of_region).pow(2).sum()
        if looks.log_probability is not None and looks.entropy is not None:
            baseline = is_token.flip(1).cumsum(1).flip(1) * self.model.expected_loss
            sampled_losses = score_function(losses, looks.log_probability * is_token, baseline=baseline)
            entropy = (looks.entropy * is_token).sum()
            total = total + objective.reinforce * sampled_losses.sum() - objective.entropy * entropy
        return total

    @torch.no_grad()
    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure the loss per token over validation captions, and score captions written about some images."""
        starts = range(0, len(self.valid), EVALUATION_BATCH)
        loss_chunks = [range(first, min(first + EVALUATION_BATCH, len(self.valid))) for first in starts]
        losses = spread(self._measure_loss, loss_chunks)
        valid = self.prepared.valid
        images = list(sample_evenly(range(len(valid)), self.recipe.objective.eval_examples))
        caption_chunks = [images[first : first + EVALUATION_BATCH] for first in range(0, len(images), EVALUATION_BATCH)]
        answers = [text for chunk_captions in spread(self._write_captions, caption_chunks) for text in chunk_captions]
        references = [valid.texts[image] for image in images]
        scores = score_captions(answers, references)
        samples = [
            {"picture": valid.name(image), "reference": valid.texts[image][0], "answer": answer}
            for image, answer in sample_evenly(list(zip(images, answers, strict=True)), self.recipe.objective.samples)
        ]
        tokens = sum(count for _, count in losses)
        metrics = {"loss": sum(loss for loss, _ in losses) / max(tokens, 1)}
        metrics |= {name: scores[metric].score for name, metric in (("bleu4", "BLEU-4"), ("cider", "CIDEr-D"))}
        return Evaluation(metrics, samples)

    def _measure_loss(self, chunk: range) -> tuple[float, int]:
        """Return the summed loss of some validation captions, and their number of tokens."""
        batch = self._batch("valid", np.array(chunk)).to(self.device)
        token_losses, _ = self._token_losses(batch, "valid")
        return float(token_losses.sum()), int((batch.labels != IGNORE).sum())

    def _write_captions(self, images: list[int]) -> list[str]:
        """Write captions about some validation images."""
        numbers = np.array(images)
        if self.cached_regions:
            regions = self.cached_regions["valid"].select(torch.from_numpy(numbers).to(self.device))
        else:
            regions = self.model.regions(self.augment.plain(self._pixels(numbers)))
        settings = replace(self.recipe.decoding, beams=self.recipe.objective.beams)
        captions = self.make_writer().caption_regions(regions, settings)
        return [caption.text for caption in captions]

    def _pixels(self, images: Int[np.ndarray, "some"]) -> UInt8[Tensor, "some channels size size"]:
        return torch.from_numpy(self.prepared.valid.pixels(images)).to(self.device)

    def make_writer(self) -> CaptionWriter:
        """Return the model as it is now, ready to use."""
        return CaptionWriter(self.model, self.prepared.tokenizer, self._data_settings(), self.recipe.decoding)

    def _data_settings(self) -> Mapping[str, Any]:
        """Return how images are prepared for the model, for the checkpoint."""
        plain = config.plain(self.recipe.data)
        file = config.plain(replace(self.recipe.data.train[0], path="", folder=None, only=None))
        preparation = {name: plain[name] for name in (*PREPARATION, "plain") if plain[name] is not None}
        return {**preparation, "file": file, "learnt": sample_digests(self.prepared.train.marks)}

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation images."""
        images = self.prepared.valid
        numbers = sample_evenly(range(len(images)), count)
        return [TraceInput(channels_last(images.pixels(np.array([n]))[0]), images.name(n)) for n in numbers]

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint beside weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model", "tokenizer", "decoding")}
        settings["tokenizer"]["normalise"] = self.prepared.tokenizer.how.normalise
        return {
            "config.yaml": {"format": 1, **settings, "data": self._data_settings()},
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": self.card(),
        }

    def card(self) -> str:
        """Return the model card: what a stranger should know, in a few lines."""
        data = self.recipe.data
        return model_card(
            "Writes captions",
            f"{self.recipe.model.phrase}. Trained with Regard on {len(self.train):,} captions of "
            f"{len(self.prepared.train):,} pictures, brought to {data.size} x {data.size} pixels.",
            command="regard caption DIRECTORY picture.jpg",
            code='caption(["picture.jpg"])',
            files=[file.path for file in data.train],
        )
