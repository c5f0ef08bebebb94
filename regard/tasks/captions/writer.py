"""A trained captioner in use: what it writes about images, scores on captioned ones, where it looked word by word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.attention.tap import Tap
from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Length, Range, Small, Whole
from regard.data.images.album import ALLOWED, Shape, note_enlarged, note_learnt_pictures, scales_of
from regard.data.images.augmentation import Augment, AugmentConfig
from regard.data.normalise import TextConfig, read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.decoding import constraints
from regard.decoding.beam import Beam, search
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange
from regard.decoding.request import Request
from regard.decoding.search_tree import SearchTree
from regard.decoding.stepper import Hypothesis
from regard.interpret.items import Item, Weights, tokens
from regard.interpret.trace import Trace
from regard.interpret.watch import SearchWatcher, attention_names, watch
from regard.metrics import gender
from regard.metrics.captions import NOTE, score_captions
from regard.metrics.scores import Judged, Scores
from regard.models.inference.fast_path import ENOUGH, FastPath, pays
from regard.tasks.captions.dataset import read
from regard.tasks.captions.files import CaptionFile
from regard.tasks.captions.fixed_captions import FixesCaptions
from regard.tasks.captions.region_removal import measure_removal
from regard.tasks.captions.search_tree import list_caption_candidates, search_tree
from regard.tasks.image_inputs import (
    ImageInput,
    expand_folder,
    input_name,
    patch_items,
    patch_size,
)
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.trained import Extra, describe_model, load_model, no_attention_error

IMAGES_PER_BATCH = 64  # images read at a time


@dataclass(frozen=True, kw_only=True)
class CaptionOptions:
    """Beam search."""

    beams: Small = 5
    """Beam width: hypotheses kept side by side; 1 is greedy."""
    length_penalty: Annotated[float, Range(-100, 100)] = 1.0
    """Length penalty of beam search: scores are divided by the length to this power; larger prefers longer captions."""
    longest: Length = 40
    """Most tokens of a caption."""
    minimum: Annotated[int, Range(0, 2**20)] = 0
    """Fewest tokens of a caption; it has one at least."""
    prefix: str | tuple[Whole, ...] = ""
    """Text every caption must begin with, or the ids of its tokens."""
    force: tuple[str, ...] = ()
    """Phrases every caption must contain."""
    forbid: tuple[str, ...] = ()
    """Phrases no caption may contain."""
    no_repeat: Whole = 0
    """Length of token sequences that may not occur twice; 0 allows all."""
    batch: Count = IMAGES_PER_BATCH
    """Pictures looked at at a time; bounds the memory."""


@dataclass(frozen=True)
class Caption:
    """A caption of an image, and its log-probability."""

    text: str
    score: float
    picture: str = ""

    def __str__(self) -> str:
        return self.text

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"picture": self.picture, "caption": self.text, "score": round(self.score, 6)}


class CaptionWriter(FixesCaptions):
    """Writes captions of images."""

    task: ClassVar[str] = "captions"
    verb: ClassVar[str] = "caption"
    kind: ClassVar[str] = "a captioner"
    input_kind: ClassVar[InputKind] = PICTURE
    remembers: ClassVar[bool] = True
    Options: ClassVar[type] = CaptionOptions
    LookOptions: ClassVar[type] = CaptionOptions
    __repr__ = describe_model

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        data: Mapping[str, Any],
        decoding: CaptionOptions | None = None,
        name: str = "captioner",
    ) -> None:
        self.model, self.tokenizer, self.data, self.name = model, tokenizer, data, name
        self.decoding = decoding or CaptionOptions()
        encoder = model.config.encoder
        self.shape = Shape.of(encoder, data)
        self.patch = patch_size(encoder)
        self.normalise = Augment(AugmentConfig(), **scales_of(data), seed=0, device=device_of(model)).plain
        self.ready = FastPath(model)

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> CaptionWriter:
        """Load the captioner of a checkpoint directory."""
        settings = checkpoint.config
        name = "/".join(checkpoint.directory.absolute().parts[-2:])
        decoding = config.build(CaptionOptions, settings.get("decoding") or {}, where="decoding")
        return cls(load_model(checkpoint, device), read_tokenizer(checkpoint), settings["data"], decoding, name)

    @property
    def inputs(self) -> Inputs:
        """Images of any size, and folders of them."""
        return Inputs(kind=self.input_kind, parse=self.parse, expand=expand_folder)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """The search for one caption as a tree."""
        own = {"beams": self.decoding.beams, "longest": self.decoding.longest}
        return {"tree": Extra(self.tree, CaptionOptions, "The search for one caption, with what it left.", own)}

    def parse(self, text: str) -> Path:
        """Return the path of an image."""
        return Path(text)

    def answer(self, inputs: Sequence[ImageInput], **options: Any) -> list[Caption]:
        """Write a caption for each image; options are those of `CaptionOptions`."""
        settings = self.settings(**options)
        inputs = list_inputs(inputs, PICTURE, verb=self.verb)
        answers: list[Caption] = []
        for first in range(0, len(inputs), settings.batch):
            batch = list(inputs[first : first + settings.batch])
            captions = self.caption_regions(self.regions(batch, fast=True), settings)
            answers += [
                replace(caption, picture=input_name(image)) for caption, image in zip(captions, batch, strict=True)
            ]
        return answers

    def exchange(self, inputs: Sequence[ImageInput], **options: Any) -> Exchange[list[Caption]]:
        """Yield requests for captions and return the answers; images are encoded here, a batch at a time."""
        settings = self.settings(**options)
        inputs = list_inputs(inputs, PICTURE, verb=self.verb)
        hypotheses: list[Hypothesis] = []
        for first in range(0, len(inputs), settings.batch):
            regions = self.regions(list(inputs[first : first + settings.batch]), fast=True)
            best = yield from self._request_captions(regions, settings)
            empty = [number for number, hypothesis in enumerate(best) if not hypothesis.tokens]
            if empty and not settings.minimum:
                retried = yield from self._request_captions(regions[empty], replace(settings, minimum=1))
                best = [retried[empty.index(n)] if n in empty else hypothesis for n, hypothesis in enumerate(best)]
            hypotheses += best
        captions = (Caption(self.tokenizer.decode(best.tokens), best.score) for best in hypotheses)
        return [replace(caption, picture=input_name(image)) for caption, image in zip(captions, inputs, strict=True)]

    def make_engine(self, *, rows: int = ROWS) -> Engine:
        """Return an engine for captions of any length that the model knows."""
        model = self.ready(ENOUGH)
        longest = self.model.config.context
        return Engine(
            model,
            eos=self.tokenizer.role("end"),
            longest=longest,
            rows=rows,
            device=device_of(self.model),
            watch=partial(SearchWatcher, self.model),
        )

    def _request_captions(
        self, regions: Float[Tensor, "image region features"], settings: CaptionOptions
    ) -> Exchange[list[Hypothesis]]:
        """Request the best hypothesis of each image."""
        beam = Beam(beams=settings.beams, length_penalty=settings.length_penalty)
        prompt, rules = torch.tensor([self.tokenizer.opening]), tuple(self._decoding_constraints(settings))
        requests = [
            Request(inputs=(image, prompt), limit=settings.longest, how=beam, rules=rules) for image in regions.unbind()
        ]
        results = (yield requests) if requests else []
        return [best for best, *_ in results]

    def caption(self, images: ImageInput | Sequence[ImageInput], **options: Any) -> list[str]:
        """Return captions: of files, folders of them, or arrays (height, width) or (height, width, 3)."""
        listed = list_inputs(images, PICTURE, verb=self.verb)
        expanded = [
            image
            for listed_input in listed
            for image in (expand_folder(listed_input) if isinstance(listed_input, (str, Path)) else [listed_input])
        ]
        return [caption.text for caption in self.answer(expanded, **options)]

    def evaluate(self, *paths: str | Path, name: str | None = None, reject: float = 0.0, **options: Any) -> Scores:
        """Return scores on images with captions: BLEU-1 to 4, with and without brevity penalty, and CIDEr-D.

        Up to a share of `reject` may be unusable.
        """
        if not paths:
            raise ValueError(f"{self.name} is measured on pictures with captions: name a file of them")
        columns = {key: options.pop(key) for key in ("picture", "caption", "folder", "only") if key in options}
        file_settings = {**(self.data.get("file") or {}), **columns}
        files = [config.build(CaptionFile, {**file_settings, "path": str(path)}, where="file") for path in paths]
        settings, captioned = self.settings(**options), read(files, self.shape, reject, remedy=ALLOWED)
        answers: list[str] = []
        for first in range(0, len(captioned), settings.batch):
            pixels = captioned.pixels(np.arange(first, min(first + settings.batch, len(captioned))))
            regions = self._encode_pixels(torch.from_numpy(pixels), fast=True)
            answers += [caption.text for caption in self.caption_regions(regions, settings)]
        names = [captioned.name(number) for number in range(len(captioned))]
        notes = [f"{settings.beams} beams", *captioned.album.summary]
        notes += note_enlarged(self.patch, captioned.album)
        notes += note_learnt_pictures(captioned.album, self.data.get("learnt"))
        return caption_scores(name or self.name, names, answers, captioned.texts, notes=notes)

    def attention_names(self) -> list[str]:
        """Return the names of what `look` shows: the attentions of the decoder."""
        return [name for name in attention_names(self.model) if name.startswith("decoder.")]

    def look(self, image: ImageInput, **options: Any) -> Trace:
        """Caption one image and keep where the winning beam looked before each word."""
        if not any(isinstance(module, Tap) for module in self.model.decoder.modules()):
            raise no_attention_error(self, "train with model.attention=soft")
        pixels = self.decode_pixels([image])
        settings = self.settings(**options)
        regions = self._encode_pixels(pixels)
        with watch(self.model) as attention:
            [best] = self.search_captions(regions, settings)
        if not best.tokens and not settings.minimum:
            with watch(self.model) as attention:
                [best] = self.search_captions(regions, replace(settings, minimum=1))
        token_ids = [*best.tokens, self.tokenizer.role("end")][: len(best.path) + 1]
        items: dict[str, list[Item]] = {
            "source": patch_items(self.model.grid),
            "target": tokens(self.tokenizer, token_ids),
            "fed": tokens(self.tokenizer, [self.tokenizer.opening, *token_ids[:-1]]),
        }
        along, visible = attention.along([best]), attention.visible_along([best])
        weights = [
            Weights(name, *_attention_axes(name), along[name][0].cpu(), visible[name][0].cpu()) for name in along
        ]
        answer = self.tokenizer.decode(best.tokens)
        last = [attention_weights for attention_weights in weights if ".cross" in attention_weights.name][-1]
        mean_attention = last.values.mean((0, 1))  # by all heads, over all words
        blank = self.model.regions(torch.zeros_like(self.normalise(pixels.to(regions.device)))).float()
        removal_curves = measure_removal(
            self.model, regions, blank, [self.tokenizer.opening, *token_ids], mean_attention
        )
        facts = {
            "text": input_name(image),
            "answer": answer,
            "score": best.score,
            "curves": [{"label": answer, "method": last.name} | curve for curve in removal_curves],
            "written": token_ids,
            "predictions": list_caption_candidates(self.model, self.tokenizer, regions, token_ids),
        }
        source = pixels[0].permute(1, 2, 0)
        return Trace(self.name, self.task, items, weights, facts, pictures={"source": source})

    def tree(self, image: ImageInput, **options: Any) -> SearchTree:
        """Caption one image, and return the beam search as a tree; options are those of `CaptionOptions`."""
        settings, regions = self.settings(**options), self.regions([image])
        names = {"model": self.name, "text": input_name(image)}
        return search_tree(lambda: self.search_caption(regions, settings), self.tokenizer, settings.prefix, **names)

    def search_caption(self, regions: Float[Tensor, "image region features"], settings: CaptionOptions) -> Hypothesis:
        """Return the best hypothesis of the only image; a caption has one word at least."""
        [best] = self.search_captions(regions, settings)
        longer = replace(settings, minimum=1)
        return best if best.tokens or settings.minimum else self.search_captions(regions, longer)[0]

    def caption_changes(self, frames: Iterable[ImageInput], **options: Any) -> Iterator[tuple[ImageInput, Caption]]:
        """Yield the frames, in their order, at which the caption changes."""
        last_text, batch_size, remaining = None, self.settings(**options).batch, iter(frames)
        while batch := list(islice(remaining, batch_size)):
            for frame, caption in zip(batch, self.answer(batch, **options), strict=True):
                if caption.text != last_text:
                    last_text = caption.text
                    yield frame, caption

    def settings(self, **changes: Any) -> CaptionOptions:
        """Return the decoding options with some of them changed."""
        options = config.build(CaptionOptions, {**config.plain(self.decoding), **changes}, where="options")
        if options.longest > self.model.config.context:
            raise ValueError(f"longest {options.longest}: the model writes {self.model.config.context} tokens at most")
        if isinstance(options.prefix, tuple):
            constraints.check_room(options.prefix, options.longest)
        return options

    def regions(self, images: Sequence[ImageInput], *, fast: bool = False) -> Float[Tensor, "image region features"]:
        """Encode images; one that cannot be read is named. `fast`: in half precision where that pays."""
        return self._encode_pixels(self.decode_pixels(images), fast=fast)

    def caption_regions(
        self, regions: Float[Tensor, "image region features"], settings: CaptionOptions
    ) -> list[Caption]:
        """Write captions about images that are encoded already."""
        hypotheses = self.search_captions(regions, settings, fast=True)
        empty = [number for number, best in enumerate(hypotheses) if not best.tokens]
        if empty and not settings.minimum:  # an unusual image: a caption has one word at least
            retried = self.search_captions(regions[empty], replace(settings, minimum=1), fast=True)
            for number, best in zip(empty, retried, strict=True):
                hypotheses[number] = best
        return [Caption(self.tokenizer.decode(best.tokens), best.score) for best in hypotheses]

    def search_captions(
        self, regions: Float[Tensor, "image region features"], settings: CaptionOptions, *, fast: bool = False
    ) -> list[Hypothesis]:
        """Return the best hypothesis of each image; `fast`, by the copy that is made for it, if there is one."""
        model = self.ready(len(regions)) if fast else self.model
        prompt = torch.full((len(regions), 1), self.tokenizer.opening, device=regions.device)
        beam = Beam(beams=settings.beams, length_penalty=settings.length_penalty)
        limits = {"limit": settings.longest, "eos": self.tokenizer.role("end")}
        results = search(model, (regions, prompt), beam, **limits, constraints=self._decoding_constraints(settings))
        return [best for best, *_ in results]

    @torch.no_grad()
    def _encode_pixels(self, pixels: Tensor, *, fast: bool = False) -> Float[Tensor, "image region features"]:
        device = device_of(self.model)
        with torch.autocast(device.type, torch.float16) if fast and pays(device) else nullcontext():
            return self.model.regions(self.normalise(pixels.to(device))).float()

    def _decoding_constraints(self, settings: CaptionOptions) -> list[constraints.Constraint]:
        """Return the constraints that the settings put on a caption, in tokens."""

        def encode_phrases(phrases: Sequence[str]) -> list[list[int]]:
            return [self.tokenizer.encode(phrase, written=True) for phrase in phrases]

        demanded: list[constraints.Constraint] = []
        forbidden = [self.tokenizer.opening] if self.tokenizer.begin is None else []
        if forbidden:  # then pad begins a caption, and never stands in it
            demanded.append(constraints.Forbid([forbidden]))
        if isinstance(settings.prefix, tuple):
            demanded += constraints.force_tokens(settings.prefix, vocab=self.tokenizer.vocab, forbidden=forbidden)
        elif settings.prefix:
            demanded.append(constraints.Prefix(encode_phrases([settings.prefix])[0]))
        if settings.force:
            demanded.append(constraints.Force(encode_phrases(settings.force)))
        if settings.forbid:
            demanded.append(constraints.Forbid(encode_phrases(settings.forbid)))
        if settings.no_repeat:
            demanded.append(constraints.NoRepeat(settings.no_repeat))
        if settings.minimum:
            demanded.append(constraints.MinimumLength(settings.minimum))
        return demanded


def read_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """Return the tokenizer of a checkpoint."""
    text_config = TextConfig(normalise=read_text_settings(checkpoint.config.get("tokenizer"))["normalise"])
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), text_config)


def _attention_axes(name: str) -> tuple[str, str]:
    """Return which items the queries and keys of an attention are."""
    if name.startswith("reader"):
        return "source", "source"
    return ("target", "source") if ".cross" in name else ("target", "fed")


def caption_scores(
    name: str,
    images: Sequence[str],
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    notes: Sequence[str] = (),
) -> Scores:
    """Return the scores of captions beside those that people wrote, whoever wrote them."""
    scores = score_captions(answers, references)
    cider = scores["CIDEr-D"].counts[:, 0]
    examples = [
        Judged(n + 1, images[n], " | ".join(references[n]), answers[n], float(cider[n])) for n in range(len(answers))
    ]
    activity_counts = gender.measure_activities(answers, references)
    tables = [gender.table(activity_counts)] if any(group.captions for group in activity_counts) else []
    details = {"people": {group.name: group.plain() for group in activity_counts}} if tables else {}
    notes = (NOTE, scores["BLEU-4"].signature, *notes, *([gender.NOTE] if tables else []))
    report: dict[str, Any] = {"tables": tables, "notes": notes, "details": details, "unit": "picture"}
    return Scores(name, CaptionWriter.task, scores, examples, **report, counted="CIDEr-D")
