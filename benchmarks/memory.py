"""Peak memory of training GPT-2 and BERT base on one GPU, beside what `regard cost` says of it.

    python -m benchmarks.memory --out memory.json
    python -m benchmarks.memory --dry

A few steps are taken as a run takes them: packed rows, bfloat16, compiled and recorded, fused AdamW. With `--dry` small
models run on a CPU in single precision, and what autograd keeps in a step is counted instead.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpus import name_of
from regard import cost, models, recipe
from regard.training.microbatch import MicroBatches
from regard.training.optim import Updates, build

STEPS = 4  # an ordinary one that compiles, one that is recorded, two that are replayed
CASES: dict[str, dict[str, Any]] = {
    "gpt2": {"task": "causal-lm", "model": {"preset": "gpt2"}, "vocab": 50_257, "context": 1024, "windows": 32},
    "bert-base": {
        "task": "masked-lm",
        "model": {"preset": "bert-base"},
        "vocab": 30_522,
        "context": 128,
        "windows": 256,
    },
}
SMALL: dict[str, dict[str, Any]] = {
    "gpt": {"width": 64, "heads": 4, "hidden": 256, "depth": 4},
    "bert": {"width": 64, "heads": 4, "hidden": 256, "depth": 4},
}


def main() -> None:
    """Measure, print a line each, and write all of it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("memory.json"))
    parser.add_argument("--dry", action="store_true", help="on a CPU, at small sizes, in single precision")
    arguments = parser.parse_args()
    results = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = counted(Path(folder), case) if arguments.dry else measured(Path(folder), case)
        print(json.dumps({name: results[name]}), flush=True)
    if not arguments.dry:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def learner(folder: Path, case: dict[str, Any], device: torch.device) -> Any:
    """What is to be trained, on text of random words that have the vocabulary of the case."""
    text, vocab = folder / "text.txt", case["vocab"]
    chance, words = random.Random(0), [name_of(number) for number in range(vocab)]
    tokens = words + chance.choices(words, k=4 * case["context"] * case["windows"])
    lines = (" ".join(tokens[start : start + 200]) for start in range(0, len(tokens), 200))
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {
        "task": case["task"],
        "data": {
            "train": str(text),
            "context": case["context"],
            "batch_size": case["windows"],
            "validation_share": 0.01,
        },
        "tokenizer": {"kind": "words", "vocab": vocab},
        "model": case["model"],
        "optim": {"name": "adamw"},
    }
    task, asked = recipe.resolve(settings)
    data = task.prepare(asked, None)
    asked = task.resolve(settings, data)
    torch.manual_seed(0)
    return task(asked, data, models.build(asked.model).to(device).train(), fixed=device.type == "cuda")


def measured(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    """The most bytes allocated in a few steps, beside those on paper."""
    device = torch.device("cuda")
    task = learner(folder, case, device)
    peaks = []
    with MicroBatches(task, device, torch.bfloat16, seed=0, compiles="on") as rows:
        optimizer = build(task.parts()["model"], task.recipe.optim)
        update = Updates(optimizer, clip=1.0, device=device)
        for number in range(STEPS):
            torch.cuda.reset_peak_memory_stats(device)
            rows.clear(optimizer)
            [piece] = rows.take([number])
            _, step = rows.backward(piece, "model", 0)
            update(step.weight, rate=1e-4, veto=torch.zeros((), dtype=torch.bool, device=device))
            torch.cuda.synchronize(device)
            peaks.append(torch.cuda.max_memory_allocated(device))
    plan = cost.Plan(length=case["context"], batch=case["windows"], gpu="H200")
    paper = cost.estimate(task.model.config, plan).memory["adamw"]
    return {
        "device": torch.cuda.get_device_name(device),
        "parameters": sum(parameter.numel() for parameter in task.model.parameters()),
        "measured": max(peaks),
        "steps": peaks,
        "paper": paper.total,
        "parts": vars(paper),
        "paper_by_measured": round(paper.total / max(peaks), 4),
    }


def counted(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    """Bytes that autograd keeps in a step of a small model, beside those on paper."""
    name = recipe.resolve({"task": case["task"], "data": {"text": "x"}})[1].model.name
    small = {**case, "model": SMALL[name], "vocab": 500, "context": 64, "windows": 16}
    task = learner(folder, small, torch.device("cpu"))
    own = {parameter.untyped_storage().data_ptr() for parameter in task.model.parameters()}
    storages = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    batch = task.batch(0)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        task.step(batch, "model")
    kept = sum(storage.nbytes() for address, storage in storages.items() if address not in own)
    plan = cost.Plan(length=64, batch=16, precision="fp32")
    paper = cost.estimate(task.model.config, plan).memory["adamw"]
    return {
        "kept": kept,
        "paper": paper.activations + paper.loss,
        "paper_by_kept": round((paper.activations + paper.loss) / kept, 4),
    }


if __name__ == "__main__":
    main()
