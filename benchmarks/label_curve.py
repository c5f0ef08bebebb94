"""Accuracy against the number of labels: a network from scratch, the same pre-trained, a linear model, a few examples.

    python -m benchmarks.label_curve runs/imdb-bert imdb/train.jsonl.gz imdb/test.jsonl.gz --out curve.jsonl
    python -m benchmarks.label_curve --plot curve.jsonl curve.png

The first argument is a BERT that was pre-trained on texts of the kind, none of them the test's. Of every number of
labels, as many of each class are drawn; a tenth of them is held out to choose the checkpoint, as `regard train` does.
From scratch means the same sizes with new weights and a tokenizer of the same texts. A line is written for each run.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import regard
from regard import recipe
from regard.tasks.embedding.few_shot import train_few_shot
from regard.training import device as devices

SIZES = (50, 150, 500, 1500, 5000, 25000)
WAYS = ("scratch", "pretrained", "linear", "few")
NAMES = {
    "scratch": "from scratch",
    "pretrained": "pre-trained, then fine-tuned",
    "linear": "linear, over words and pairs",
    "few": "linear, over vectors of the pre-trained",
}
KEPT = ("width", "heads", "hidden", "depth", "context", "norm", "positions", "segments", "activation", "embedding_norm")
FEW = 5000  # labels up to which vectors are fitted to convergence


def main() -> None:
    """Train and score what was asked for, or draw what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="the pre-trained model, training and test texts")
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--ways", nargs="*", default=WAYS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("curve.jsonl"))
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("LINES", "PICTURE"))
    asked = parser.parse_args()
    if asked.plot:
        draw(asked.plot[0], asked.plot[1])
        return
    body, train, test = asked.files
    for size in asked.sizes:
        for seed in asked.seeds:
            for way in asked.ways:
                if way == "few" and size > FEW:
                    continue
                with tempfile.TemporaryDirectory() as scratch:
                    few = sample(train, Path(scratch) / "texts.jsonl", size, seed)
                    began = time.perf_counter()
                    model = trained(way, body, few, size, seed, Path(scratch) / "run")
                    seconds = time.perf_counter() - began
                    accuracy = model.evaluate(test).details["accuracy"]
                found = {"way": way, "labels": size, "seed": seed, "accuracy": accuracy, "seconds": round(seconds, 1)}
                print(json.dumps(found), flush=True)
                with asked.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")


def sample(train: Path, out: Path, size: int, seed: int) -> Path:
    """A file of so many labelled texts, the same number of every class."""
    from regard.data.readers import lines

    classes: dict[Any, list[bytes]] = defaultdict(list)
    for line in lines(str(train)):
        if line:
            classes[json.loads(line)["label"]].append(line)
    chance, each = random.Random(seed), size // len(classes)
    chosen = [line for name in sorted(classes) for line in chance.sample(classes[name], min(each, len(classes[name])))]
    chance.shuffle(chosen)
    out.write_bytes(b"".join(line + b"\n" for line in chosen))
    return out


def trained(way: str, body: Path, texts: Path, size: int, seed: int, out: Path) -> Any:
    """A model that learnt these texts in one of the ways."""
    if way == "few":
        return train_few_shot([str(texts)], recipe.open_model(body), device=devices.choose("auto")).classifier
    epochs = 20 if size <= 500 else 10 if size <= 5000 else 3
    settings = [f"training.seed={seed}", "training.tensorboard=false"]
    if way == "linear":
        return _loaded([texts], [*settings, "model.name=linear"], out)
    settings += ["model.pool=mean", f"training.epochs={epochs}"]
    if way == "pretrained":
        return _loaded([texts], [*settings, "optim.learning_rate=0.0001", "tuning.layer_decay=0.9"], out, start=body)
    shape = recipe.open_model(body).config
    same = [f"model.{name}={shape['model'][name]}" for name in KEPT if name in shape["model"]]
    longest = min(512, shape["model"]["context"])
    same += ["model.name=bert-encoder", f"tokenizer.vocab={shape['model']['vocab']}", f"tokenizer.max_length={longest}"]
    return _loaded([texts], [*settings, *same, "optim.learning_rate=0.0003", "optim.schedule=linear"], out)


def _loaded(files: Sequence[Path], settings: Sequence[str], out: Path, **more: Any) -> Any:
    return regard.load(regard.train(list(files), *settings, out=out, quiet=True, **more).best)


def draw(lines: Path, picture: Path) -> None:
    """Curves of the mean, with every run as a dot."""
    from matplotlib import pyplot

    runs = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    figure, axes = pyplot.subplots(figsize=(6.4, 4), layout="constrained")
    for way in WAYS:
        found: dict[int, list[float]] = defaultdict(list)
        for run in runs:
            if run["way"] == way:
                found[run["labels"]].append(100 * run["accuracy"])
        if found:
            sizes = sorted(found)
            [line] = axes.plot(sizes, [statistics.mean(found[size]) for size in sizes], label=NAMES[way])
            dots = [(size, each) for size in sizes for each in found[size]]
            axes.plot(*zip(*dots, strict=True), "o", color=line.get_color(), markersize=3)
    axes.set(xscale="log", xlabel="labelled reviews", ylabel="test reviews labelled right, %")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main()
