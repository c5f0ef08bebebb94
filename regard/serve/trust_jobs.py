"""The checks of a model as jobs: which of them it can be given, on what, and the key under which results are kept."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard import __version__, checkpoint, shipped
from regard.data.cache import key
from regard.interpret.measure import fixed_answers, trust
from regard.interpret.measure.map_checks import MapExamples
from regard.metrics import alignment
from regard.serve.catalogue import ServedModel, read_version
from regard.serve.limits import Limits
from regard.serve.refusal import Refusal
from regard.tasks.trained import copy_sharing_weights

LANGUAGES = ("en", "fr")
"""Of the pairs aligned by hand that come with Regard."""
FEWEST = 2  # inputs of a check
Work = Callable[["TrustJob"], fixed_answers.Report]


class Cancelled(Exception):
    """Raised inside a measurement that was called off, or took too long."""


@dataclass
class TrustJob:
    """One measurement: what it is of, how far it is, what was found, and what cannot be measured."""

    model: str
    key: str
    """Of the model in the catalogue."""
    trained: Any = field(repr=False)
    """The version of the model that is checked."""
    digest: str
    work: Work
    total: int
    name: str
    """The key of what it measures."""
    seconds: float
    identifier: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    status: str = "queued"
    done: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    is_cancelled: bool = False
    deadline: float = 0.0
    to: str | None = None
    """The language into which a translator is checked."""

    def tell(self, count: int) -> None:
        """Count what is about to be done, and leave off if that is wanted."""
        if self.is_cancelled:
            raise Cancelled("it was cancelled")
        if time.monotonic() > self.deadline:
            raise Cancelled(f"it took longer than {self.seconds:g} s: allow more with -s trust_seconds")
        self.done = min(self.total, self.done + count)

    def plan(self, total: int) -> None:
        """Note how much there is to do, once that is known."""
        self.total = max(total, self.done)

    def plain(self) -> dict[str, Any]:
        """Return how the job stands, as JSON."""
        return {
            "id": self.identifier,
            "model": self.model,
            "digest": self.digest,
            "status": self.status,
            "done": self.done,
            "total": self.total,
            "findings": self.findings,
            "gaps": self.gaps,
            "reason": self.reason,
        }


def check_kind(model: ServedModel) -> str | None:
    """Return which checks exist for a model: of a translator, of maps, of other fixed answers, or none."""
    trained: Any = model.trained
    if "alignments" in trained.extras:
        return "translator"
    if "judge" in trained.extras:
        return "maps"
    return "answers" if isinstance(trained, trust.FixesAnswers) else None


def needs_inputs(model: ServedModel) -> bool:
    """True if a model is checked on inputs that are sent; else hand-aligned pairs that come with Regard serve too."""
    return check_kind(model) != "translator" or not directions_of(model.trained)


def make_job(model: ServedModel, limits: Limits, to: Any = None, inputs: Sequence[Any] | None = None) -> TrustJob:
    """Return the job that checks a model, on these inputs or on the pairs that come with Regard; or refuse."""
    kind = check_kind(model)
    if kind is None:
        raise Refusal(422, f"no check of what {model.name} shows exists: it is {model.trained.kind}", "no_check")
    target = _choose_target(model, to, inputs)
    if inputs is None and not needs_inputs(model):
        return _make_pairs_job(model, limits, target)
    plural = model.trained.inputs.kind.plural
    if inputs is None or len(inputs) < FEWEST:
        raise Refusal(422, f"send {plural} on which it is checked as inputs, {FEWEST} at least", "invalid_input")
    chosen = list(inputs)[: limits.trust_sentences]
    if kind == "maps":
        return _make_maps_job(model, limits, chosen)
    return _make_answers_job(model, limits, chosen, target)


def _choose_target(model: ServedModel, to: Any, inputs: Sequence[Any] | None) -> str | None:
    """Return the language into which a translator is checked, if there is a choice."""
    directions = directions_of(model.trained) if inputs is None else list(model.trained.languages)
    if to is not None and to not in directions:
        raise Refusal(422, f"to must be one of {', '.join(directions) or 'none: leave it out'}", "invalid_input")
    return to or (directions[-1] if directions else None)


def _make_pairs_job(model: ServedModel, limits: Limits, target: str | None) -> TrustJob:
    """Return the job that checks a translator on pairs that people aligned."""
    golds = alignment.read()[: limits.trust_sentences]
    golds = [gold.swap_languages() for gold in golds] if target == "en" else golds
    language = target if model.trained.languages else None

    def work(job: TrustJob) -> fixed_answers.Report:
        copy = copy_sharing_weights(model.trained)  # the heads of the model that answers are not silenced
        return trust.check_translator(trust.CountingReader(copy, language, job.tell), golds)

    total = trust.count_readings(model.trained.model, golds)
    return _job_of(model, limits, work, total, ("translator", target, len(golds)), to=target)


def _make_answers_job(model: ServedModel, limits: Limits, inputs: list[Any], target: str | None) -> TrustJob:
    """Return the job that checks a model on its own answers to these inputs."""

    def work(job: TrustJob) -> fixed_answers.Report:
        copy: Any = copy_sharing_weights(model.trained)
        if check_kind(model) == "translator":
            answers = map(str, copy.answer(inputs, **({} if target is None else {"to": target})))
            reader = trust.CountingReader(copy, target, job.tell)
            return trust.check_own_answers(reader, list(zip(inputs, answers, strict=True)), job.plan)
        answers = copy.fix_answers(inputs, tell=job.tell)
        job.plan(answers.count)
        return fixed_answers.check_answers(answers)

    return _job_of(model, limits, work, len(inputs), ("answers", target, *map(_mark, inputs)), to=target)


def _make_maps_job(model: ServedModel, limits: Limits, pictures: list[Any]) -> TrustJob:
    """Return the job that checks the maps of a classifier of pictures."""
    trained: Any = model.trained
    pixels = trained.decode_images(pictures)

    def work(job: TrustJob) -> fixed_answers.Report:
        copy = copy_sharing_weights(trained)
        pictures = copy.normalise(pixels.to(copy.runner.device))
        with torch.no_grad():
            labels = copy.model(pictures).argmax(-1)
        return trust.check_maps(copy.model, MapExamples(pictures, labels), job.tell)

    total = trust.count_map_readings(trained.model, len(pictures))
    return _job_of(model, limits, work, total, ("maps", *map(_mark, pixels)))


def _job_of(
    model: ServedModel,
    limits: Limits,
    work: Callable[[TrustJob], fixed_answers.Report],
    total: int,
    what: Sequence[Any],
    *,
    to: str | None = None,
) -> TrustJob:
    digest = digest_of(model)
    name = name_of(digest, *what)
    return TrustJob(model.name, model.key, model.trained, digest, work, total, name, limits.trust_seconds, to=to)


def _mark(item: Any) -> str:
    """Return the fingerprint of an input."""
    return checkpoint.fingerprint(item.tolist() if hasattr(item, "tolist") else item)


def directions_of(trained: Any) -> list[str]:
    """Return the target languages in which a translator can be checked on the pairs that come with Regard."""
    if trained.languages:
        known = set(LANGUAGES) <= {*trained.reads, *trained.languages}
        return [code for code in LANGUAGES if code in trained.languages and known]
    direction = getattr(trained, "trained_direction", None)
    return [direction[1]] if direction and set(direction) == set(LANGUAGES) else []


def digest_of(model: ServedModel) -> str:
    """Return the digest of a model's checkpoint; that of its weights for one that has no folder."""
    if model.version is not None:
        return model.version
    entry = shipped.models().get(model.name)
    if entry is not None and model.folder is None and (version := read_version(entry.path)) is not None:
        return version
    tensors = model.trained.model.state_dict()
    return key(weights=[[name, float(tensor.double().sum())] for name, tensor in sorted(tensors.items())])


def name_of(digest: str, kind: str, *what: Any) -> str:
    """Return the key of a result: the checkpoint, the version of what is measured, how it is judged, and on what."""
    how = {"version": trust.VERSION, "good": fixed_answers.GOOD, "fewest": fixed_answers.FEWEST}
    return key(trust=how, regard=__version__, digest=digest, kind=kind, what=what)
