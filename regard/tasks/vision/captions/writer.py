"""A trained captioner in use: what it writes about pictures, scores on captioned ones, where it looked word by word."""

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
from regard.data.normalise import TextConfig, read_text_settings
from regard.data.pictures.album import ALLOWED, Shape, note_enlarged, note_learnt_pictures, scales_of
from regard.data.pictures.augment import Augment, AugmentConfig
from regard.data.tokenizers import Tokenizer
from regard.decoding import constraints
from regard.decoding.beam import Beam, search
from regard.decoding.engine import ROWS, Engine
from regard.decoding.exchange import Exchange
from regard.decoding.request import Request
from regard.decoding.stepper import Hypothesis
from regard.interpret.items import Item, Weights, tokens
from regard.interpret.trace import Trace
from regard.interpret.watch import SearchWatcher, attention_names, watch
from regard.metrics import gender
from regard.metrics.captions import NOTE, score_captions
from regard.metrics.scores import Judged, Scores
from regard.models.inference import ENOUGH, Ready, pays
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.trained import Face, describe_model, load_model, no_attention_error
from regard.tasks.vision.captions.files import CaptionFile
from regard.tasks.vision.captions.preparing import read
from regard.tasks.vision.captions.removing import curves
from regard.tasks.vision.opening import Given, called, opened, patch_size, patches, unfolded

CHUNK = 64  # pictures looked at at a time


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
    prefix: str = ""
    """Text every caption must begin with."""
    force: tuple[str, ...] = ()
    """Phrases every caption must contain."""
    forbid: tuple[str, ...] = ()
    """Phrases no caption may contain."""
    no_repeat: Whole = 0
    """Length of token sequences that may not occur twice; 0 allows all."""
    batch: Count = CHUNK
    """Pictures looked at at a time; bounds the memory."""


@dataclass(frozen=True)
class Caption:
    """What was written about a picture, and its log-probability."""

    text: str
    score: float
    picture: str = ""

    def __str__(self) -> str:
        return self.text

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"picture": self.picture, "caption": self.text, "score": round(self.score, 6)}


class CaptionWriter(Face):
    """Writes captions about pictures."""

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
        self.scaled = Augment(AugmentConfig(), **scales_of(data), seed=0, device=device_of(model)).plain
        self.ready = Ready(model) if hasattr(model, "stack") else None

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> CaptionWriter:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        name = "/".join(checkpoint.directory.absolute().parts[-2:])
        decoding = config.build(CaptionOptions, known.get("decoding") or {}, where="decoding")
        return cls(load_model(checkpoint, device), read_tokenizer(checkpoint), known["data"], decoding, name)

    @property
    def inputs(self) -> Inputs:
        """Pictures of any size, and folders of them."""
        return Inputs(kind=self.input_kind, parse=self.parse, expand=unfolded)

    def parse(self, text: str) -> Path:
        """An input is the path of a picture."""
        return Path(text)

    def answer(self, inputs: Sequence[Given], **options: Any) -> list[Caption]:
        """A caption for each picture; options are those of `CaptionOptions`."""
        settings = self.settings(**options)
        inputs = list_inputs(inputs, PICTURE, verb=self.verb)
        found: list[Caption] = []
        for first in range(0, len(inputs), settings.batch):
            some = list(inputs[first : first + settings.batch])
            captions = self.written(self.regions(some, fast=True), settings)
            found += [replace(one, picture=called(each)) for one, each in zip(captions, some, strict=True)]
        return found

    def exchange(self, inputs: Sequence[Given], **options: Any) -> Exchange[list[Caption]]:
        """The same, with somebody else to search; pictures are read here, some at a time."""
        settings = self.settings(**options)
        inputs = list_inputs(inputs, PICTURE, verb=self.verb)
        found: list[Hypothesis] = []
        for first in range(0, len(inputs), settings.batch):
            regions = self.regions(list(inputs[first : first + settings.batch]), fast=True)
            best = yield from self._ask(regions, settings)
            silent = [number for number, one in enumerate(best) if not one.tokens]
            if silent and not settings.minimum:
                again = yield from self._ask(regions[silent], replace(settings, minimum=1))
                best = [again[silent.index(n)] if n in silent else one for n, one in enumerate(best)]
            found += best
        captions = (Caption(self.tokenizer.decode(best.tokens), best.score) for best in found)
        return [replace(one, picture=called(each)) for one, each in zip(captions, inputs, strict=True)]

    def make_engine(self, *, rows: int = ROWS) -> Engine:
        """Return an engine for captions of any length that the model knows."""
        model = self.model if self.ready is None else self.ready(ENOUGH)
        longest = self.model.config.context
        return Engine(
            model,
            eos=self.tokenizer.role("end"),
            longest=longest,
            rows=rows,
            device=device_of(self.model),
            watch=partial(SearchWatcher, self.model),
        )

    def _ask(
        self, regions: Float[Tensor, "picture region features"], settings: CaptionOptions
    ) -> Exchange[list[Hypothesis]]:
        """Ask for the best hypothesis of each picture."""
        beam = Beam(beams=settings.beams, length_penalty=settings.length_penalty)
        prompt, rules = torch.tensor([self.tokenizer.opening]), tuple(self._constraints(settings))
        requests = [
            Request(inputs=(picture, prompt), limit=settings.longest, how=beam, rules=rules)
            for picture in regions.unbind()
        ]
        found = (yield requests) if requests else []
        return [best for best, *_ in found]

    def caption(self, pictures: Given | Sequence[Given], **options: Any) -> list[str]:
        """Captions: of files, folders of them, or arrays (height, width) or (height, width, 3)."""
        listed = list_inputs(pictures, PICTURE, verb=self.verb)
        spread = [one for each in listed for one in (unfolded(each) if isinstance(each, (str, Path)) else [each])]
        return [one.text for one in self.answer(spread, **options)]

    def evaluate(self, *paths: str | Path, name: str | None = None, reject: float = 0.0, **options: Any) -> Scores:
        """Scores on pictures with captions: BLEU-1 to 4, with and without brevity penalty, and CIDEr-D.

        Up to a share of `reject` may be unusable.
        """
        if not paths:
            raise ValueError(f"{self.name} is measured on pictures with captions: name a file of them")
        columns = {key: options.pop(key) for key in ("picture", "caption", "folder", "only") if key in options}
        own = {**(self.data.get("file") or {}), **columns}
        files = [config.build(CaptionFile, {**own, "path": str(path)}, where="file") for path in paths]
        settings, side = self.settings(**options), read(files, self.shape, reject, remedy=ALLOWED)
        answers: list[str] = []
        for first in range(0, len(side), settings.batch):
            pixels = side.pixels(np.arange(first, min(first + settings.batch, len(side))))
            answers += [one.text for one in self.written(self._read(torch.from_numpy(pixels), fast=True), settings)]
        names, notes = [side.name(n) for n in range(len(side))], [f"{settings.beams} beams", *side.album.summary]
        notes += note_enlarged(self.patch, side.album) + note_learnt_pictures(side.album, self.data.get("learnt"))
        return scored(name or self.name, names, answers, side.texts, notes=notes)

    def attention_names(self) -> list[str]:
        """Return the names of what `look` shows: the attentions of the decoder."""
        return [name for name in attention_names(self.model) if name.startswith("decoder.")]

    def look(self, given: Given, **options: Any) -> Trace:
        """Write about one picture and keep where the winning beam looked before each word."""
        if not any(isinstance(module, Tap) for module in self.model.decoder.modules()):
            raise no_attention_error(self, "train with model.attention=soft")
        picture, settings = opened([given], self.shape, patch=self.patch), self.settings(**options)
        regions = self._read(torch.from_numpy(picture))
        with watch(self.model) as seen:
            [best] = self.hypotheses(regions, settings)
        if not best.tokens and not settings.minimum:
            with watch(self.model) as seen:
                [best] = self.hypotheses(regions, replace(settings, minimum=1))
        written = [*best.tokens, self.tokenizer.role("end")][: len(best.path) + 1]
        items: dict[str, list[Item]] = {
            "source": patches(self.model.grid),
            "target": tokens(self.tokenizer, written),
            "fed": tokens(self.tokenizer, [self.tokenizer.opening, *written[:-1]]),
        }
        weights = [Weights(name, *_axes(name), values=found[0].cpu()) for name, found in seen.along([best]).items()]
        answer, last = self.tokenizer.decode(best.tokens), [one for one in weights if ".cross" in one.name][-1]
        told = {"label": answer, "method": last.name}
        looked = last.values.mean((0, 1))  # by all heads, over all words
        blank = self.model.regions(torch.zeros_like(self.scaled(torch.from_numpy(picture).to(regions.device)))).float()
        lost = curves(self.model, regions, blank, [self.tokenizer.opening, *written], looked)
        facts = {"text": called(given), "answer": answer, "score": best.score, "curves": [told | one for one in lost]}
        seen_picture = torch.from_numpy(picture[0]).permute(1, 2, 0)
        return Trace(self.name, self.task, items, weights, facts, pictures={"source": seen_picture})

    def changes(self, frames: Iterable[Given], **options: Any) -> Iterator[tuple[Given, Caption]]:
        """The frames, in their order, at which the caption is another than before."""
        before, size, coming = None, self.settings(**options).batch, iter(frames)
        while some := list(islice(coming, size)):
            for frame, found in zip(some, self.answer(some, **options), strict=True):
                if found.text != before:
                    before = found.text
                    yield frame, found

    def settings(self, **changes: Any) -> CaptionOptions:
        """Its settings with some of them changed."""
        found = config.build(CaptionOptions, {**config.plain(self.decoding), **changes}, where="options")
        if found.longest > self.model.config.context:
            raise ValueError(f"longest {found.longest}: the model writes {self.model.config.context} tokens at most")
        return found

    def regions(self, pictures: Sequence[Given], *, fast: bool = False) -> Float[Tensor, "picture region features"]:
        """What the encoder makes of pictures; one that is none is named. `fast`: in half precision where that pays."""
        return self._read(torch.from_numpy(opened(pictures, self.shape, patch=self.patch)), fast=fast)

    def written(self, regions: Float[Tensor, "picture region features"], settings: CaptionOptions) -> list[Caption]:
        """Captions about pictures that are read already."""
        found = self.hypotheses(regions, settings, fast=True)
        silent = [number for number, best in enumerate(found) if not best.tokens]
        if silent and not settings.minimum:  # about strange pictures: a caption has a word at least
            again = self.hypotheses(regions[silent], replace(settings, minimum=1), fast=True)
            for number, best in zip(silent, again, strict=True):
                found[number] = best
        return [Caption(self.tokenizer.decode(best.tokens), best.score) for best in found]

    def hypotheses(
        self, regions: Float[Tensor, "picture region features"], settings: CaptionOptions, *, fast: bool = False
    ) -> list[Hypothesis]:
        """The best hypothesis of each picture; `fast`, by the copy that is made for it, if there is one."""
        model = self.ready(len(regions)) if fast and self.ready is not None else None
        prompt = torch.full((len(regions), 1), self.tokenizer.opening, device=regions.device)
        beam = Beam(beams=settings.beams, length_penalty=settings.length_penalty)
        limits = {"limit": settings.longest, "eos": self.tokenizer.role("end")}
        found = search(model or self.model, (regions, prompt), beam, **limits, constraints=self._constraints(settings))
        return [best for best, *_ in found]

    @torch.no_grad()
    def _read(self, pixels: Tensor, *, fast: bool = False) -> Float[Tensor, "picture region features"]:
        place = device_of(self.model)
        with torch.autocast(place.type, torch.float16) if fast and pays(place) else nullcontext():
            return self.model.regions(self.scaled(pixels.to(place))).float()

    def _constraints(self, settings: CaptionOptions) -> list[constraints.Constraint]:
        """What the settings demand of a caption, in tokens."""

        def coded(phrases: Sequence[str]) -> list[list[int]]:
            return [self.tokenizer.encode(phrase, written=True) for phrase in phrases]

        wanted: list[constraints.Constraint] = []
        if self.tokenizer.begin is None:  # then pad begins a caption, and never stands in it
            wanted.append(constraints.Forbid([[self.tokenizer.opening]]))
        if settings.prefix:
            wanted.append(constraints.Prefix(coded([settings.prefix])[0]))
        if settings.force:
            wanted.append(constraints.Force(coded(settings.force)))
        if settings.forbid:
            wanted.append(constraints.Forbid(coded(settings.forbid)))
        if settings.no_repeat:
            wanted.append(constraints.NoRepeat(settings.no_repeat))
        if settings.minimum:
            wanted.append(constraints.MinimumLength(settings.minimum))
        return wanted


def read_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a checkpoint."""
    how = TextConfig(normalise=read_text_settings(checkpoint.config.get("tokenizer"))["normalise"])
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), how)


def _axes(name: str) -> tuple[str, str]:
    """Which items the queries and keys of an attention are."""
    if name.startswith("reader"):
        return "source", "source"
    return ("target", "source") if ".cross" in name else ("target", "fed")


def scored(
    name: str,
    pictures: Sequence[str],
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    notes: Sequence[str] = (),
) -> Scores:
    """How good captions are beside those that people wrote, whoever wrote them."""
    scores = score_captions(answers, references)
    worth = scores["CIDEr-D"].counts[:, 0]
    examples = [
        Judged(n + 1, pictures[n], " | ".join(references[n]), answers[n], float(worth[n])) for n in range(len(answers))
    ]
    people = gender.measure_activities(answers, references)
    tables = [gender.table(people)] if any(one.captions for one in people) else []
    details = {"people": {one.name: one.plain() for one in people}} if tables else {}
    notes = (NOTE, scores["BLEU-4"].signature, *notes, *([gender.NOTE] if tables else []))
    told: dict[str, Any] = {"tables": tables, "notes": notes, "details": details, "unit": "picture"}
    return Scores(name, CaptionWriter.task, scores, examples, **told, counted="CIDEr-D")
