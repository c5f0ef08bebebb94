"""Whether a model learns the same on the fast path and on the plain one: the loss of every window, run beside run.

    python -m benchmarks.curve --recipe recipes/multi30k-en-de.yaml --out curve.json

Fast: compiled, captured, half precision, packed kernels. Plain: none of it, once in full precision, once in half. Same
weights, same rows; dropout is off, since a compiled step draws other numbers. What the two plain runs differ by is the
noise of half precision.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

WAYS: dict[str, dict[str, Any]] = {
    "plain, float32": {"compile": "off", "precision": "float32"},
    "plain, bfloat16": {"compile": "off", "precision": "bfloat16"},
    "fast, bfloat16": {"compile": "on", "precision": "bfloat16"},
}


def main() -> None:
    """Train in each way, print how far apart they are, and write the curves as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("curve.json"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("changes", nargs="*", help="settings such as model.preset=base")
    arguments = parser.parse_args()
    curves = {}
    for way, how in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            curves[way] = curve(arguments.recipe, how, arguments.steps, arguments.changes, Path(folder) / "run")
        print(way, "loss at the end", curves[way][-1], flush=True)
    truth = curves["plain, float32"]
    apart = {way: largest(truth, own) for way, own in curves.items()}
    print("largest difference of a window from plain float32, relative:", json.dumps(apart))
    results = {"recipe": arguments.recipe.name, "changes": arguments.changes, "apart": apart, "loss": curves}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def curve(recipe: Path, how: dict[str, Any], steps: int, changes: list[str], out: Path) -> list[float]:
    """The mean loss of every ten steps."""
    from regard import recipe as recipes

    settings = recipes.settings(recipe, "model.dropout=0", *changes)
    short = {
        "steps": steps,
        "log_every": 10,
        "eval_every": steps,
        "save_every": steps,
        "average": 0,
        "tensorboard": False,
    }
    settings["training"] = {**settings.get("training", {}), **short, **how}
    settings["objective"] = {**settings.get("objective", {}), "eval_examples": 1, "samples": 1}
    recipes.train(settings, out=out, quiet=True)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [record["loss"] for record in records if record["kind"] == "training"]


def largest(truth: list[float], own: list[float]) -> float:
    """The largest difference of two curves, as a share of the first."""
    return max(abs(one - other) / one for one, other in zip(truth, own, strict=True))


if __name__ == "__main__":
    main()
