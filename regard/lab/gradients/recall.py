"""Layers before and after they have learnt to recall the first of many inputs: what training makes of the gradient."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import causal
from regard.attention.multihead import MultiHead
from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement
from regard.lab.gradients.reach import reach
from regard.models.parts.cells import Layers

RESULTS = Path(__file__).with_name("recall.json")
LENGTH, WIDTH, CLASSES = 60, 32, 4
STEPS, BATCH, RATE = 800, 32, 3e-3
EXAMPLES = 1_000  # to measure accuracy on
HEADS = 4
KINDS = ("RNN", "GRU", "LSTM", "LSTM, forget bias 1", "LSTM, forget bias 3", "self-attention")


@dataclass(frozen=True)
class Recall:
    """One layer before and after training."""

    name: str
    accuracy: float
    """Share of the test examples whose first input was recalled; a guess is right in 1 of CLASSES."""
    untrained: list[float]
    """Norm of the gradient by distance before training."""
    trained: list[float]


class Recaller(nn.Module):
    """A layer of one kind, and a linear classifier on its last output."""

    def __init__(self, name: str):
        super().__init__()
        kind, _, bias = name.partition(", forget bias ")
        self.layer: nn.Module
        if name == "self-attention":
            self.layer = MultiHead(WIDTH, HEADS)
        else:
            self.layer = Layers(kind.lower(), WIDTH, WIDTH)  # type: ignore[arg-type]
        if bias:
            self.set_forget_bias(float(bias))
        self.output = nn.Linear(WIDTH, CLASSES)

    def set_forget_bias(self, bias: float) -> None:
        """Initialise the forget gate bias of an LSTM."""
        with torch.no_grad():
            for name, values in self.layer.named_parameters():
                if "bias" in name:
                    values[WIDTH : 2 * WIDTH] = bias / 2  # there are two of them, which are added

    def read(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """Return the outputs of the layer."""
        return self.layer(x, mask=causal()) if isinstance(self.layer, MultiHead) else self.layer(x)[0]

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the class shown in the first input."""
        return self.output(self.read(x)[:, -1])


def make_examples(count: int, generator: torch.Generator) -> tuple[Float[Tensor, "n t w"], Int[Tensor, "n"]]:
    """Return noise sequences whose first vector encodes a class, and the classes."""
    x = torch.randn(count, LENGTH, WIDTH, generator=generator)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    x[:, :, : CLASSES + 1] = 0
    x[torch.arange(count), 0, labels] = 3.0
    x[:, 0, CLASSES] = 3.0  # the mark of the input to be recalled
    return x, labels


def train_all(*, steps: int = STEPS, seed: int = 0, report: Callable[[str], None] = lambda line: None) -> list[Recall]:
    """Train every kind of layer; each result has gradient norms by distance before and after training."""
    recalls = []
    for name in KINDS:
        began = time.process_time()
        recalls.append(train(name, steps=steps, seed=seed))
        report(f"{name}: {time.process_time() - began:.0f} s of processor time, accuracy {recalls[-1].accuracy:.1%}")
    return recalls


def train(name: str, *, steps: int, seed: int) -> Recall:
    """Train one kind of layer."""
    generator = torch.Generator().manual_seed(seed)
    test_x, test_labels = make_examples(EXAMPLES, generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Recaller(name)
    untrained = measure_norms(model, test_x[:4])
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(steps):
        x, labels = make_examples(BATCH, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        accuracy = float((model(test_x).argmax(-1) == test_labels).float().mean())
    return Recall(name, accuracy, untrained, measure_norms(model, test_x[:4]))


def measure_norms(model: Recaller, x: Float[Tensor, "batch time width"]) -> list[float]:
    """Measure the norm of the gradient by distance in double precision."""
    norms = reach(model.double().read, x.double()).tolist()
    model.float()
    return norms


def read_results(path: Path = RESULTS) -> list[Recall]:
    """Read the results of a training that are kept beside this file."""
    return [Recall(**record) for record in json.loads(path.read_text(encoding="utf-8"))["layers"]]


def write_results(recalls: list[Recall], path: Path = RESULTS) -> None:
    """Write results with three digits for every number."""
    layers = [{name: _round(value) for name, value in asdict(recall).items()} for recall in recalls]
    path.write_text(json.dumps({"steps": STEPS, "length": LENGTH, "layers": layers}) + "\n", encoding="utf-8")


def _round(value: str | float | list[float]) -> str | float | list[float]:
    if isinstance(value, list):
        return [float(f"{number:.3g}") for number in value]
    return value if isinstance(value, str) else float(f"{value:.3g}")


def compare_training(recalls: list[Recall]) -> Demonstration:
    """Compare gradient norms by distance before and after training, and the accuracies reached."""
    rows = [[recall.untrained[-1], recall.trained[-1], 100 * recall.accuracy] for recall in recalls]
    table = LabelledMatrix(
        f"Recalling the first of {LENGTH} inputs: gradient of the last output by it, and accuracy",
        [recall.name for recall in recalls],
        ["untrained", "trained", "right, of 100"],
        rows,
        digits=None,
    )
    by_name: Mapping[str, Recall] = {recall.name: recall for recall in recalls}
    charts = [
        Chart(
            title,
            "distance in steps",
            "norm of the gradient",
            list(range(LENGTH)),
            {recall.name: list(getattr(recall, title)) for recall in recalls},
            y_scale="log",
            tabulated=False,
        )
        for title in ("untrained", "trained")
    ]
    gates, plain = by_name["LSTM, forget bias 3"], by_name["RNN"]
    quantity = f"gradient by the first of {LENGTH} inputs, after training"
    attention = by_name["self-attention"]
    measurements = [
        Measurement(quantity, "LSTM, forget bias 3", gates.trained[-1], "RNN, without gates", plain.trained[-1]),
        Measurement(quantity, "self-attention", attention.trained[-1], "RNN, without gates", plain.trained[-1]),
    ]
    return Demonstration("Gradients before and after training", measurements, charts=charts, tables=[table])
