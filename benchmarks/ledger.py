"""What several benchmark processes found, in one JSON file: each adds its own part, and none overwrites another's."""

from __future__ import annotations

import fcntl
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import regard
from regard.recipe import Outcome


def read(path: Path) -> dict[str, Any]:
    """All that was found so far."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def record(path: Path, keys: Sequence[str], found: Mapping[str, Any]) -> None:
    """Put what was found under its keys, beside what other processes put there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole = read(path)
        place = whole
        for key in keys:
            place = place.setdefault(key, {})
        place.update(found)
        scratch = path.with_suffix(".new")
        scratch.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        scratch.replace(path)
    print(*keys, *(f"{name} {_brief(value)}" for name, value in found.items()), sep="  ", flush=True)


def attempted(path: Path, keys: Sequence[str], measure: Callable[[], Mapping[str, Any]]) -> None:
    """Record what a measurement finds, or why it failed: the others go on."""
    try:
        found = measure()
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"[:500]}
    record(path, keys, found)


def trained(recipe: Path, *settings: str, seed: int, out: Path, start: Path | None) -> tuple[Outcome, dict[str, Any]]:
    """A run of this recipe, which goes on if it had begun before, and how long it took."""
    began, begun = perf_counter(), (out / "last").exists()
    changes = (f"training.seed={seed}", "training.tensorboard=false", *settings)
    outcome = regard.train(recipe, *changes, out=out, start=start, resume=begun, overwrite=not begun, quiet=True)
    if outcome.result.reason == "interrupted":
        raise SystemExit(f"{out}: interrupted, the same command continues")
    if outcome.result.reason.startswith("diverged"):
        raise SystemExit(f"{out}: {outcome.result.reason}")
    held = {metric: round(value, 4) for metric, value in outcome.metrics.items()}
    seconds = round(perf_counter() - began, 1)
    return outcome, {"seconds": seconds, "resumed": begun, "steps": outcome.result.step, "held out": held}


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Mean and standard deviation."""
    all_of = list(values)
    if not all_of:
        return ""
    mean = f"{statistics.mean(all_of):.{digits}f}"
    return mean if len(all_of) == 1 else f"{mean} ± {statistics.stdev(all_of):.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows as Markdown."""
    print("| " + " | ".join(head) + " |")
    print("| " + " | ".join("---" for _ in head) + " |")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def _brief(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) < 80 else text[:77] + "..."
