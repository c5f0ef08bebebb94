"""Which maps may be believed: every method in grids of CIFAR-10 and on drawn digits with boxes, and a planted shortcut.

    REGARD_DATA=data python -m benchmarks.judge grids runs/vision/cifar10-all-0 runs/vision/cifar10-resnet-all-0
    REGARD_DATA=data python -m benchmarks.judge boxes
    REGARD_DATA=data python -m benchmarks.judge probe runs/vision/cifar10-resnet-all-0
    python -m benchmarks.judge table

`grids` is `regard judge` on the test pictures of CIFAR-10. `boxes` draws digits among scraps, trains a
ViT and a ResNet to name them and a locator on their boxes, and judges the maps of the first two against the third.
`probe` trains on CIFAR-10 with a mark in the pictures of one class, and probes that model and those that are named.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import regard
from benchmarks import ledger

RECIPES = Path(__file__).parent.parent / "recipes"
RIVALS = (("gradient", "rollout"), ("gradcam", "centre"))
MARKED = "ship"
NETWORKS: dict[str, tuple[str, ...]] = {  # that are trained on drawn digits
    "vit": ("model.name=vit", "model.positions=sinusoidal", "training.steps=4000"),
    "resnet": ("model.name=resnet", "model.stem=small", "model.depths=[1,1,1]", "model.widths=[32,64,128]"),
}
SIDES = 48  # pixels of a drawn picture
DRAWN = 20_000


def main() -> None:
    """Judge, and print what was found so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("grids", "boxes", "probe", "table"))
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--grids", type=int, default=500)
    parser.add_argument("--singles", type=int, default=200, help="pictures for deletion, insertion and change")
    parser.add_argument("--drawn", type=int, default=DRAWN, help="drawn pictures to learn from")
    parser.add_argument("--settings", nargs="*", default=[], help="of what is trained, such as training.steps=10")
    parser.add_argument("--runs", type=Path, default=Path("runs/judge"), help="where runs go")
    parser.add_argument("--out", type=Path, default=Path("judge.json"))
    asked = parser.parse_args()
    cifar = Path(os.environ.get("REGARD_DATA", ".")) / "cifar10.npz"
    if asked.what == "grids":
        for model in asked.models:
            ledger.attempted(asked.out, ["grids", model.name], lambda model=model: judged(asked, model, cifar))
    elif asked.what == "boxes":
        boxes(asked)
    elif asked.what == "probe":
        probe(asked, cifar)
    show(ledger.read(asked.out))


def judged(asked: argparse.Namespace, model: Path, pictures: Path, against: Any = None) -> dict[str, Any]:
    """All methods of a model beside controls, and which differences are beyond chance."""
    began = time.perf_counter()
    found = regard.load(model).judge_maps(pictures, against=against, grids=asked.grids, singles=asked.singles)
    checks = [("pointing", False), *([("pointing", True), ("overlap", True)] if found.boxed_count else [])]
    chances = {
        f"{one} against {rival}, {check}{' in boxes' * boxed}": found.p_value(one, rival, check, boxed=boxed)
        for one, rival in RIVALS
        for check, boxed in checks
    }
    known = {name: p for name, p in chances.items() if p is not None}
    return {**found.plain(), "p": known, "seconds": round(time.perf_counter() - began, 1)}


def boxes(asked: argparse.Namespace) -> None:
    """Maps of models that were told the class alone, beside one that was told the box."""
    from regard.tasks.scenes import digit_file

    pictures = digit_file.write_digits(asked.runs / "drawn", count=asked.drawn, size=SIDES)
    locator = ("training.device=auto", "training.steps=3000", "training.eval_every=1000", *asked.settings)
    regard.train(RECIPES / "locate-digits.yaml", *locator, out=asked.runs / "locator", overwrite=True, quiet=True)
    for name, network in NETWORKS.items():
        out = asked.runs / f"digits-{name}"
        how = ("training.steps=2000", "training.tensorboard=false", *network, *asked.settings)
        regard.train([pictures], *how, kind="pictures", out=out, overwrite=True, quiet=True)
        against = regard.load(asked.runs / "locator", task="localisation")
        ledger.attempted(asked.out, ["boxes", name], lambda out=out, to=against: judged(asked, out, pictures, to))


def probe(asked: argparse.Namespace, cifar: Path) -> None:
    """A model that was trained with a mark, and those that were not."""
    out = asked.runs / "marked"
    mark = (f"data.shortcut.label={MARKED}", "training.epochs=15", "training.tensorboard=false")
    regard.train(RECIPES / "cifar10-resnet.yaml", *mark, *asked.settings, out=out, overwrite=True, quiet=True)
    for model in (out, *asked.models):
        ledger.attempted(asked.out, ["probe", model.name], lambda model=model: regard.load(model).probe(cifar).plain())


def show(found: dict[str, Any]) -> None:
    """Tables of all checks; a line for every probe."""
    for kind in ("grids", "boxes"):
        for model, one in found.get(kind, {}).items():
            for part in ("methods", "boxed"):
                if methods := one.get(part):
                    columns = list(dict.fromkeys(check for own in methods.values() for check in own))
                    print(f"\n{model}, {'grids' if part == 'methods' else 'boxes'}: {one.get('p')}")
                    rows = [(name, *(told(own.get(check)) for check in columns)) for name, own in methods.items()]
                    ledger.table(("method", *columns), rows)
            if "failed" in one:
                print(model, one["failed"])
    probes = found.get("probe", {})
    if probes:
        head = ("exposed", "label", "found", "bare", "drawn", "before", "p", "lit", "area")
        rows = [(name, *(one.get(column) for column in head)) for name, one in probes.items()]
        print()
        ledger.table(("model", *head), rows)


def told(one: dict[str, float] | None) -> str:
    """A mean and half of its interval."""
    return "" if one is None else f"{one['mean']:.3f} ± {(one['high'] - one['low']) / 2:.3f}"


if __name__ == "__main__":
    main()
