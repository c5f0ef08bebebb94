"""Graph attention beside torch-geometric's, by the same recipe in the same run: accuracy over seeds, epochs a second.

REGARD_DATA=data python benchmarks/graphs.py cora citeseer --seeds 20 --device auto
REGARD_DATA=data python benchmarks/graphs.py cora --seeds 0 --device cpu       only the speed

Accuracy is of the public test nodes, by the weights that were best on the validation nodes, which every side looks at
as often and waits for as long as the recipe says. `equal` and `none` are controls: all neighbours weighted alike, and
none of them. Speed is that of whole trainings through either loop; the difference of two lengths leaves startup out.
On a machine that is not idle, `--clock cpu --threads 1` counts processor time in place of the wall's.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import regard
from regard import recipe
from regard.models.parts.sparse import Sparse
from regard.tasks.graphs.files import prepare
from regard.training import device as devices

RECIPES = Path(__file__).parent.parent / "recipes"
CONTROLS = ("equal", "none")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Theirs(torch.nn.Module):
    """Two of their layers, as in their own example, with the sizes of a recipe."""

    def __init__(self, model: Any) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        drop, wide = {"dropout": model.attention_dropout}, model.heads * model.width
        self.dropout = model.dropout
        self.first = GATConv(model.inputs, model.width, heads=model.heads, **drop)
        self.second = GATConv(wide, model.classes, heads=model.last, concat=False, **drop)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Logits of all nodes."""
        x = F.elu(self.first(F.dropout(x, self.dropout, self.training), edges))
        return self.second(F.dropout(x, self.dropout, self.training), edges)


class Peer:
    """Their model and a plain loop around it."""

    def __init__(self, name: str, device: torch.device) -> None:
        task, found = recipe.resolve(recipe.settings(RECIPES / f"{name}.yaml"))
        data = prepare(found.data)
        self.recipe, graph = task.fill_sizes(found, data), data.graph
        features = graph.features.to_tensor()
        self.x = (features.dense() if isinstance(features, Sparse) else features).to(device)
        self.edges = torch.from_numpy(graph.edges.T.copy()).to(device)
        self.labels = torch.from_numpy(graph.labels).to(device)
        self.parts = {part: torch.from_numpy(nodes).to(device) for part, nodes in graph.parts.items()}
        self.device, self.best = device, found.objective.metric

    def begin(self, seed: int) -> None:
        """A new model and its optimizer."""
        torch.manual_seed(seed)
        optim = self.recipe.optim
        self.model = Theirs(self.recipe.model).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=optim.learning_rate,
            betas=optim.betas,
            eps=optim.eps,
            weight_decay=optim.weight_decay,
        )

    def epoch(self) -> None:
        """One step over the whole graph."""
        self.model.train()
        self.optimizer.zero_grad()
        train = self.parts["train"]
        F.cross_entropy(self.model(self.x, self.edges)[train], self.labels[train]).backward()
        self.optimizer.step()

    @torch.no_grad()
    def measured(self, part: str) -> dict[str, float]:
        """Loss and accuracy of some nodes."""
        self.model.eval()
        some = self.parts[part]
        logits, labels = self.model(self.x, self.edges)[some], self.labels[some]
        right = (logits.argmax(-1) == labels).float().mean()
        return {"loss": float(F.cross_entropy(logits, labels)), "accuracy": float(right)}

    def trained(self, seed: int) -> float:
        """Accuracy on the test nodes, in percent, of the weights that were best on the validation nodes."""
        self.begin(seed)
        training, sign = self.recipe.training, 1 if self.best == "loss" else -1
        best, kept, stale = float("inf"), self.model.state_dict(), 0
        for step in range(1, training.steps + 1):
            self.epoch()
            if step % training.eval_every == 0:
                found = sign * self.measured("valid")[self.best]
                stale = 0 if found < best else stale + 1
                if found < best:
                    best, kept = found, copy.deepcopy(self.model.state_dict())
                if training.patience is not None and stale >= training.patience:
                    break
        self.model.load_state_dict(kept)
        return 100 * self.measured("test")["accuracy"]

    def seconds(self, epochs: int, clock: str) -> float:
        """The time of a training of so many epochs."""
        begun = CLOCKS[clock]()
        self.begin(0)
        for _ in range(epochs):
            self.epoch()
        self.measured("valid")
        return CLOCKS[clock]() - begun


def ours(name: str, device: torch.device, *settings: str, clock: str = "wall") -> tuple[float, float]:
    """Accuracy on the test nodes, in percent, and the time of the training."""
    with tempfile.TemporaryDirectory() as place:
        begun = CLOCKS[clock]()
        outcome = regard.train(
            RECIPES / f"{name}.yaml", f"training.device={device}", *settings, out=Path(place) / "run", quiet=True
        )
        seconds = CLOCKS[clock]() - begun
        return regard.load(outcome.folder, device=str(device)).evaluate().metrics["accuracy, %"], seconds


def accuracies(name: str, device: torch.device, seeds: int, sides: list[str]) -> None:
    """A row for every side."""
    peer, found = Peer(name, device) if "theirs" in sides else None, {side: list[float]() for side in sides}
    for seed in range(seeds):
        for side in sides:
            if side == "theirs":
                assert peer is not None
                found[side].append(peer.trained(seed))
            else:
                how = [f"model.attention={side}"] if side in CONTROLS else []
                found[side].append(ours(name, device, f"training.seed={seed}", *how)[0])
        print(f"{name}, seed {seed}: " + ", ".join(f"{side} {found[side][-1]:.1f}" for side in sides), flush=True)
    for side, scores in found.items():
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        print(f"{name}, {side}: {statistics.mean(scores):.2f} ± {spread:.2f} over {len(scores)} seeds", flush=True)


def speed(name: str, device: torch.device, short: int, long: int, repeats: int, clock: str) -> None:
    """Epochs a second of both sides, by turns."""
    peer, rates = Peer(name, device), {"ours": list[float](), "theirs": list[float]()}
    ours(name, device, "training.steps=2")  # imports, and what is set up once
    peer.seconds(2, clock)
    for _ in range(repeats):
        often = [f"training.{each}={long + 1}" for each in ("eval_every", "save_every", "log_every")]
        both = [ours(name, device, f"training.steps={epochs}", *often, clock=clock)[1] for epochs in (short, long)]
        rates["ours"].append((long - short) / (both[1] - both[0]))
        before, after = peer.seconds(short, clock), peer.seconds(long, clock)
        rates["theirs"].append((long - short) / (after - before))
    own, other = (statistics.median(rates[side]) for side in ("ours", "theirs"))
    print(
        f"{name}, epochs a second on {device}: {own:.1f}, torch-geometric {other:.1f}, {own / other:.2f} times",
        flush=True,
    )


def main() -> None:
    """Speed first, then accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=("cora", "citeseer"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sides", nargs="+", default=["ours", "theirs", *CONTROLS])
    parser.add_argument("--epochs", nargs=2, type=int, help="lengths of the trainings that are timed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--threads", type=int, help="CPU threads of both sides")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    device = devices.choose(asked.device)
    epochs = asked.epochs or ((200, 2200) if device.type == "cuda" else (10, 60))
    for name in asked.names:
        if asked.repeats:
            speed(name, device, *epochs, asked.repeats, asked.clock)
        if asked.seeds:
            accuracies(name, device, asked.seeds, asked.sides)


if __name__ == "__main__":
    main()
