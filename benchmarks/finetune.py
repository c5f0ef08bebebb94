"""Fine-tuning an imported BERT beside transformers: the same weights, texts, epochs, batches and seeds, in one process.

    regard import all-MiniLM-L6-v2 runs/minilm
    python -m benchmarks.finetune all-MiniLM-L6-v2 runs/minilm train.tsv dev.tsv test.tsv --seeds 0 1 2

Regard trains as `regard train --from` does, in every way that is named; transformers by a loop like its Trainer's:
AdamW, a linear schedule with a warm-up, bfloat16 on a GPU, batches in random order padded to their longest text. Both
keep what is best on the validation texts after an epoch, and label the test texts with it. Seconds are those of
training, evaluations included, without imports; what the first seed compiles, the others find.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard import config
from regard.metrics.labels import judge
from regard.metrics.significance import Statistics
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile

WARM = 0.06  # share of the steps in which the rate rises
STRONGER = 20  # times the rate, where little learns
Example = tuple[tuple[str, ...], str]


def main() -> None:
    """One line for every run, then means and deviations; all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "model", "train", "valid", "test"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--ways", nargs="*", default=["full", "lora", "frozen"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="texts of a step, on average")
    parser.add_argument(
        "--rate", type=float, default=5e-5, help="where all learns; for LoRA and frozen twenty times that"
    )
    parser.add_argument("--settings", nargs="*", default=[], help="of Regard, such as training.compile=off")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("finetune.json"))
    asked = parser.parse_args()
    sides = {name: read(getattr(asked, name)) for name in ("train", "valid", "test")}
    found: dict[str, Any] = {"epochs": asked.epochs, "batch": asked.batch, "rate": asked.rate, "runs": {}}
    runs = found["runs"]
    for seed in asked.seeds:
        for way in asked.ways:
            runs.setdefault(way, []).append(told(way, seed, ours(asked, sides, way, seed)))
        if not asked.no_peer:
            runs.setdefault("transformers", []).append(told("transformers", seed, theirs(asked, sides, seed)))
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, each in runs.items():
        print(name, *(f"{key} {spread([one[key] for one in each])}" for key in each[0]), sep="  ")


def read(path: Path) -> list[Example]:
    """Texts, or pairs of them, with their labels."""
    file = config.build(LabelledFile, {"path": str(path)}, where="file")
    return [(each.texts, str(each.labels[0])) for each in read_examples([file], {}, reject=0.01).examples]


def ours(asked: argparse.Namespace, sides: dict[str, list[Example]], way: str, seed: int) -> dict[str, float]:
    """A run of Regard, and its answers to the test texts."""
    rate = asked.rate * (1 if way == "full" else STRONGER)
    steps = -(-len(sides["train"]) // asked.batch)
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        outcome = regard.train(
            [asked.train],
            f"tuning.method={way}",
            f"optim.learning_rate={rate}",
            "optim.name=adamw",
            "optim.weight_decay=0.01",
            f"optim.warmup={max(1, round(WARM * steps * asked.epochs))}",
            f"data.batch_tokens={tokens(asked, sides['train'])}",
            f"training.epochs={asked.epochs}",
            f"training.eval_every={steps}",
            "training.tensorboard=false",
            f"training.seed={seed}",
            *asked.settings,
            valid=[asked.valid],
            start=asked.model,
            out=Path(scratch) / "run",
            quiet=True,
        )
        seconds = time.perf_counter() - began
        labeller = regard.load(outcome.best)
        given = [words if len(words) > 1 else words[0] for words, _ in sides["test"]]
        answers = [answer.label for answer in labeller.classify(given)]
    return scored(sides["test"], answers) | {"seconds": round(seconds, 1)}


def tokens(asked: argparse.Namespace, examples: Sequence[Example]) -> int:
    """Tokens that so many texts have, on average."""
    from transformers import AutoTokenizer

    own = AutoTokenizer.from_pretrained(asked.folder)
    lengths = [len(each) for each in own([" ".join(words) for words, _ in examples[:2000]])["input_ids"]]
    return max(64, round(asked.batch * statistics.mean(lengths)))


def theirs(asked: argparse.Namespace, sides: dict[str, list[Example]], seed: int) -> dict[str, float]:
    """The same with transformers."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

    device = "cuda" if torch.cuda.is_available() else "cpu"
    names = sorted({label for _, label in sides["train"]})
    own = AutoTokenizer.from_pretrained(asked.folder)
    torch.manual_seed(seed)
    began = time.perf_counter()
    model = AutoModelForSequenceClassification.from_pretrained(
        asked.folder, num_labels=len(names), dtype=torch.float32
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=asked.rate, weight_decay=0.01)
    total = asked.epochs * -(-len(sides["train"]) // asked.batch)
    schedule = get_linear_schedule_with_warmup(optimizer, max(1, round(WARM * total)), total)
    kept, best, chance = copy.deepcopy(model.state_dict()), -1.0, random.Random(seed)
    for _ in range(asked.epochs):
        model.train()
        order = chance.sample(range(len(sides["train"])), len(sides["train"]))
        for batch, labels in batches(own, [sides["train"][each] for each in order], names, asked.batch, device):
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                loss = model(**batch, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        now = scored(sides["valid"], labelled(model, own, sides["valid"], names, device))["accuracy"]
        if now > best:
            kept, best = copy.deepcopy(model.state_dict()), now
    seconds = time.perf_counter() - began
    model.load_state_dict(kept)
    return scored(sides["test"], labelled(model, own, sides["test"], names, device)) | {"seconds": round(seconds, 1)}


@torch.no_grad()
def labelled(model: Any, own: Any, examples: Sequence[Example], names: Sequence[str], device: str) -> list[str]:
    """What their model says."""
    model.eval()
    found: list[str] = []
    for batch, _ in batches(own, examples, names, 128, device):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            found += [names[each] for each in model(**batch).logits.argmax(-1).tolist()]
    return found


def batches(
    own: Any, examples: Sequence[Example], names: Sequence[str], size: int, device: str
) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
    """Tokens of so many texts at a time, padded to the longest, with the numbers of their labels."""
    for first in range(0, len(examples), size):
        some = examples[first : first + size]
        columns = list(zip(*(words for words, _ in some), strict=True))
        batch = own(*map(list, columns), padding=True, truncation=True, return_tensors="pt").to(device)
        yield dict(batch), torch.tensor([names.index(label) for _, label in some], device=device)


def scored(examples: Sequence[Example], answers: Sequence[str]) -> dict[str, float]:
    """Accuracy, F1 of the last label (the positive one of two) and Matthews' correlation."""
    names = sorted({label for _, label in examples} | set(answers))
    truth, said = (np.array([names.index(each) for each in some]) for some in ([y for _, y in examples], answers))
    found = judge(truth, said, names)
    return {
        "accuracy": round(found.accuracy, 4),
        "f1": round(found.labels[-1].f1, 4),
        "matthews": round(Statistics("matthews", np.eye(len(names) ** 2)[truth * len(names) + said]).score, 4),
    }


def told(name: str, seed: int, found: dict[str, float]) -> dict[str, float]:
    """Print a run."""
    print(name, f"seed {seed}", *(f"{key} {value}" for key, value in found.items()), sep="  ", flush=True)
    return found


def spread(values: Sequence[float]) -> str:
    """Mean and deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4g} ± {deviation:.2g}"


if __name__ == "__main__":
    main()
