"""What recipes and the training loop know of a task: everything one must say to be trained, resumed and adapted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

Thing = TypeVar("Thing")
Goal = tuple[str, Literal["max", "min"]]
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Step:
    """What a task says of one row: the loss summed over what it counts, how much that is, and what to report."""

    loss: Tensor
    weight: int | float | Tensor
    counts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Scores by name, and a few answers to look at."""

    metrics: Mapping[str, int | float]
    samples: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None
    """Why training has gone wrong for good, with a remedy: such a model is never the best, and training stops."""


@dataclass(frozen=True)
class Given:
    """Files that somebody wants to train on, and what was said of them."""

    files: tuple[str, ...]
    valid: tuple[str, ...] = ()
    """Files to measure on."""
    kind: str | None = None
    """What they hold, as a task's `takes` calls it; None: it is to be seen."""
    aligned: bool = False
    """Whether there are two, line n of the second belonging to line n of the first."""
    to: str | None = None
    """The language of the second texts."""
    labels: str | None = None
    """A file with the labels of what the others hold."""
    columns: tuple[int, int] | None = None
    """Columns of the two texts, or of text and label."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What was named beside them."""

    @property
    def told(self) -> bool:
        """Whether somebody said what they are, so that looks do not matter."""
        return self.kind is not None or "task" in self.settings


@dataclass(frozen=True)
class Claim:
    """What a task takes files for."""

    data: Mapping[str, Any]
    """The data section of a recipe that learns from them."""
    sentence: str
    """What it takes them for and what it would train, as it follows the names of the files."""
    confidence: int
    """How sure it is: one of the four below."""


NAMED, SURE, LIKELY, POSSIBLE = 4, 3, 2, 1  # the first: columns say by their names what they hold


def data_section(train: Sequence[Any], valid: Sequence[Any] = ()) -> dict[str, Any]:
    """A data section with these files: one stands by itself, so that settings reach into it, several in a list."""
    named = {"train": list(train), "valid": list(valid)}
    return {name: files[0] if len(files) == 1 else files for name, files in named.items() if files}


@runtime_checkable
class Data(Protocol):
    """What a task made of the files of a recipe."""

    report: Any
    """Counts and fingerprints, as JSON: a run is resumed with the same examples only."""
    summary: Sequence[str]
    """The same in lines for a person."""


@runtime_checkable
class Learner(Protocol):
    """What the loop needs to know of something that can be learnt.

    Four methods more are used where there are any: `origins(batch) -> list[str]`, where its examples come from (such
    as `train.fr:1042`), longest first; `split(batch) -> list`, its halves, or only itself when it is one example;
    `heed(loss, veto)`, told after every update the mean loss of the step over all processes, and whether it does not
    count; and `learn(rows, rate) -> Step`, which changes the weights itself and stands for backward pass and optimizer.
    A task that can `split` may also have `piece_tokens`: of how many tokens a CPU computes gradients at once.
    """

    model: nn.Module
    goal: Goal | None
    """The metric by which the best weights are chosen; None: the newest are."""
    rows: int
    """Rows in an epoch."""

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """The parameters of each optimizer, stepped in this order; `optim` may have a section for each by its name."""

    def batch(self, row: int) -> Any:
        """The data of a row, a pure function of its number; rows count on across epochs."""

    def step(self, batch: Any, part: str) -> Step:
        """The loss that this part's parameters should lower."""

    def evaluate(self, spread: Spread = ...) -> Evaluation:
        """How good the model is now; what `spread` is given is dealt out to all processes."""

    def contents(self) -> dict[str, Any]:
        """The files of a checkpoint beside weights, metrics and manifest."""


@runtime_checkable
class Task(Learner, Protocol):
    """A kind of learning, from the files of a recipe to something the loop can train.

    Where evaluations take long, `brief` are settings that shorten them for whoever does not need them.

    One that learns from files also has `takes`, what it calls their contents (`pairs`), and
    `recognise(given: Given) -> Claim | None`, a static method. Another is used where there is one:
    `check(recipe, *, tokens=False)`, a report on the data with `lines()` for a person, `plain()` for JSON, and
    `problems` that would stop a training.
    """

    Recipe: ClassVar[type]
    """Frozen dataclass with the sections data, model, training and whatever else there is to set."""
    usage: ClassVar[str]
    """The command that uses a trained model; `{folder}` is its run."""
    shared: ClassVar[bool]
    """Whether several processes may share a step's rows: not where a row carries a state to the next one, or where the
    task says in `single` why else."""

    recipe: Any
    features: int
    """Numbers in a row of the widest layer: small rows are computed faster by one thread."""
    notes: Sequence[str]
    """What to say before training begins."""

    @staticmethod
    def prepare(recipe: Any, known: Any) -> Data:
        """Read the data; `known`, a checkpoint to resume from or None, gives its tokenizer, labels and scales."""

    @staticmethod
    def suited(recipe: Any, data: Any) -> Mapping[str, Any]:
        """Settings that follow from the data where nobody named them: sizes, length, warm-up, patience."""

    @staticmethod
    def sized(recipe: Any, data: Any) -> Any:
        """The recipe with what only the data can say: the number of tokens, of classes, of inputs."""

    def __init__(self, recipe: Any, data: Any, model: Any, *, fixed: bool = False) -> None:
        """Ready to be trained; rows of `fixed` shape can be compiled and captured."""


def alone(function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """The function of each thing, by this process: how evaluations are spread when there is no other."""
    return [function(thing) for thing in things]


def evenly(things: Sequence[Thing], count: int) -> Sequence[Thing]:
    """So many of the things, always the same, from all parts of the list: corpora stand there one after the other."""
    if count >= len(things):
        return things
    return [things[(2 * place + 1) * len(things) // (2 * count)] for place in range(count)]


def spread_over_classes(labels: Sequence[int], count: int) -> list[int]:
    """Return the places of so many examples, always the same: of every class in turn, or of classes far apart."""
    seen: dict[int, int] = {}
    turns = []
    for place, label in enumerate(labels):
        turns.append((seen.setdefault(int(label), 0), int(label), place))
        seen[int(label)] += 1
    in_turn = [place for _, _, place in sorted(turns)]
    return list(evenly(in_turn[: len(seen)], count)) if count < len(seen) else in_turn[:count]


def every_weight(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """One set of weights, one optimizer: the parts of most tasks."""
    return {"model": list(model.parameters())}
