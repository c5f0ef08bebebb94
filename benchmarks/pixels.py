"""Models of pixels: bits per dimension beside tables, pictures a second beside others', axial beside full attention.

    python -m benchmarks.pixels controls                                   # tables alone; no GPU is needed
    python -m benchmarks.pixels train --recipe recipes/mnist-pixels.yaml --seconds 600
    python -m benchmarks.pixels train --recipe recipes/cifar10-pixels.yaml recipes/cifar10-axial.yaml --seconds 600
    python -m benchmarks.pixels sample                                     # 64 pictures at a time, ImageGPT-S
    python -m benchmarks.pixels cost --out pixels-cost.json                # for scripts/make_pictures.py
    python -m benchmarks.pixels sample cost --tiny                         # in small, to see that it runs

Data lies where REGARD_DATA says (docs/data.md). `train` first measures the pace of a recipe, then trains it for as many
steps as the seconds allow, so that its schedule ends with them, and scores it on the test pictures; several recipes get
equal seconds. Settings may follow: `--set data.colours=512`. `sample` draws by `regard.load(...).draw`, and by
`generate` of `transformers`, with its KV cache, in the same process and in both precisions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from regard import bench, load, recipe
from regard.attention.attend import PLAIN, attend, attend_explicitly
from regard.attention.axial import axial_pairs, full_pairs
from regard.attention.masks import EVERYONE
from regard.data.images.sources import PictureFile
from regard.tasks.pixels import baselines, dataset
from regard.tasks.pixels.tokenizer import PixelTokenizer

SETS = {"mnist": PixelTokenizer(28, 1), "fashion-mnist": PixelTokenizer(28, 1), "cifar10.npz": PixelTokenizer(32, 3)}
SMALL = {"width": 512, "heads": 8, "hidden": 2048, "depth": 24}  # ImageGPT-S
TINY = {"width": 32, "heads": 2, "hidden": 64, "depth": 2}
SECTIONS = ("controls", "train", "sample", "cost")
HEADS, DEPTH = 8, 64


def main() -> None:
    """Measure what was asked for, a line each, and write all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sections", nargs="+", choices=SECTIONS)
    parser.add_argument("--recipe", type=Path, nargs="*", default=[Path("recipes/mnist-pixels.yaml")])
    parser.add_argument("--set", nargs="*", default=[], help="settings of the recipes")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS), help="for `controls`")
    parser.add_argument("--batch", type=int, default=64, help="pictures drawn at a time")
    parser.add_argument("--sizes", type=int, nargs="*", default=None, help="sides of pictures, for `cost`")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where trained models go")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    results: dict[str, Any] = {"device": asked.device, "torch": str(torch.__version__)}
    if asked.device == "cuda":
        results["device"] = torch.cuda.get_device_name()
    else:
        torch.set_num_threads(1)
    actions = {"controls": tables, "train": trained, "sample": sampled, "cost": costs}
    for section in asked.sections:
        results[section] = actions[section](asked)
        print(json.dumps({section: results[section]}), flush=True)
        if asked.out is not None:
            asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def tables(asked: argparse.Namespace) -> dict[str, Any]:
    """Bits per dimension of the tables that every model must beat."""
    found: dict[str, Any] = {}
    for name, tokenizer in ((name, SETS[name]) for name in asked.sets):
        try:
            sides = [dataset.read([PictureFile(path=name)], tokenizer, None, part=part) for part in ("train", "test")]
        except ValueError as error:
            found[name] = str(error)
            continue
        counted = baselines.count_tables(tokenizer, dataset.tokenize_images(sides[0], tokenizer))
        bits = [
            baselines.bits_per_image(tokenizer, counted, some) for some in dataset.tokenize_images(sides[1], tokenizer)
        ]
        found[name] = {
            table: round(float(torch.cat([each[table] for each in bits]).mean()) / tokenizer.length, 4)
            for table in counted
        }
    return found


def trained(asked: argparse.Namespace) -> dict[str, Any]:
    """Bits per dimension of each recipe after equal seconds, beside tables."""
    found = {}
    for path in asked.recipe:
        settings = recipe.settings(path, *asked.set)
        pace = bench.measure_training(settings, bench.Limits("", 1.0, 1.0), steps=20 if asked.tiny else 60)
        steps = max(2, int(1000 * asked.seconds / pace.milliseconds))
        section = {**settings.get("training", {}), "steps": steps, "seconds": None, "epochs": None}
        section |= {"eval_every": max(1, steps // 5), "save_every": max(1, steps // 5)}
        began = time.perf_counter()
        out = asked.runs / f"{path.stem}-{round(asked.seconds)}s"
        outcome = recipe.train({**settings, "training": section}, out=out, overwrite=True)
        spent = time.perf_counter() - began
        data: Any = settings["data"]["train"]
        scores = load(outcome.folder, device=asked.device).evaluate(data["path"] if isinstance(data, dict) else data)
        found[path.stem] = {
            "steps": steps,
            "ms_per_step": round(pace.milliseconds, 2),
            "seconds": round(spent, 1),
            "learning_seconds": round(outcome.result.seconds, 1),
            "peak_gib": None if pace.memory is None else round(pace.memory / 2**30, 1),
            "valid": outcome.metrics,
            "test": {name: round(score, 4) for name, score in scores.metrics.items()},
            "folder": str(outcome.folder),
        }
        print(json.dumps({path.stem: found[path.stem]}), flush=True)
    return found


def sampled(asked: argparse.Namespace) -> dict[str, Any]:
    """Pictures a second, whole ones, drawn without a filter."""
    sizes, side, colours = (TINY, 8, 16) if asked.tiny else (SMALL, 32, 512)
    batch = 4 if asked.tiny else asked.batch
    with tempfile.TemporaryDirectory() as folder:
        painter = begun(Path(folder), sizes, side, colours, asked.device)
        seconds = timed(lambda: painter.draw(samples=batch), asked.device, runs=2 if asked.tiny else 3)
    found: dict[str, Any] = {"pictures": batch, "tokens": side**2, "pictures_per_s": round(batch / seconds, 3)}
    if not asked.no_peers:
        found |= peers(sizes, side, colours, batch, asked)
        best = max(found[name] for name in found if name.startswith("transformers"))
        found["times_transformers"] = round(found["pictures_per_s"] / best, 2)
    return found


def begun(folder: Path, sizes: dict[str, Any], side: int, colours: int, device: str) -> Any:
    """A model of these sizes after two steps on random pictures, loaded as anybody would."""
    chance = np.random.default_rng(0)
    pictures = chance.integers(0, 256, (64, side, side, 3), np.uint8)
    np.savez(folder / "random.npz", pictures=pictures, labels=np.arange(64) % 2)
    short = {
        "steps": 2,
        "eval_every": bench.NEVER_STEP,
        "save_every": bench.NEVER_STEP,
        "compile": "off",
        "tensorboard": False,
    }
    settings = {
        "task": "pixels",
        "data": {"train": str(folder / "random.npz"), "size": side, "colours": colours, "batch_size": 2},
        "model": {"name": "image-gpt", **sizes, "positions": "learned"},
        "objective": {"eval_examples": 1},
        "training": {**short, "device": device},
    }
    return load(recipe.train(settings, out=folder / "run", quiet=True).folder, device=device)


def peers(sizes: dict[str, Any], side: int, colours: int, batch: int, asked: argparse.Namespace) -> dict[str, Any]:
    """The same by `transformers`, in single and, on a GPU, in half precision."""
    from transformers import ImageGPTConfig, ImageGPTForCausalImageModeling

    shape = ImageGPTConfig(
        vocab_size=colours + 1,
        n_positions=side**2,
        n_embd=sizes["width"],
        n_layer=sizes["depth"],
        n_head=sizes["heads"],
        n_inner=sizes["hidden"],
    )
    model = ImageGPTForCausalImageModeling(shape).eval().to(asked.device)
    first = torch.full((batch, 1), colours, device=asked.device)
    how: Any = {"do_sample": True, "top_k": 0, "use_cache": True, "pad_token_id": 0, "eos_token_id": None}
    kinds = {"float32": torch.float32} | ({"float16": torch.float16} if asked.device == "cuda" else {})
    found = {}
    for name, kind in kinds.items():
        model.to(kind)

        def draw(pixels: int = side**2) -> None:
            made = model.generate(first, max_new_tokens=pixels - 1, min_new_tokens=pixels - 1, **how)
            assert made.shape == (batch, pixels), made.shape  # one pixel fewer: its table of positions ends there

        with torch.no_grad():
            draw(min(64, side**2))  # what is set up once; a whole picture takes half a minute
            seconds = timed(draw, asked.device, runs=1, warm=0)
        found[f"transformers_{name}_per_s"] = round(batch / seconds, 3)
        print(json.dumps(found), flush=True)
    return found


def costs(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds and bytes of one layer, forward and backward, over pictures of one size after the other.

    Full attention is measured twice: fused, which never holds its weights, and with all of them held, as when they are
    watched or dropped out; axial attention is a pass along rows and one along columns.
    """
    usual = [8, 16, 24] if asked.tiny else [16, 32, 64, 128] if asked.device == "cuda" else [16, 24, 32, 48, 64]
    rows = []
    for side in asked.sizes or usual:
        for name, run in {"full": full, "full, weights held": held, "axial": axial}.items():
            x = torch.randn(side, side, HEADS, DEPTH, device=asked.device, requires_grad=True)
            line: dict[str, Any] = {"side": side, "layer": name}
            line["pairs"] = axial_pairs(side, side) if name == "axial" else full_pairs(side, side)
            try:
                line["seconds"] = timed(lambda x=x, run=run: learn(run, x), asked.device, runs=3)
                line["bytes"] = peak(lambda x=x, run=run: learn(run, x), asked.device)
            except torch.OutOfMemoryError:
                line["seconds"] = line["bytes"] = None
            rows.append(line)
            print(json.dumps(line), flush=True)
    return rows


def learn(run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    """Forward and backward."""
    x.grad = None
    run(x).sum().backward()


def full(x: torch.Tensor) -> torch.Tensor:
    """All pixels look at all."""
    every = x.flatten(0, 1).transpose(0, 1)[None]
    return attend(every, every, every)


def held(x: torch.Tensor) -> torch.Tensor:
    """The same with all weights held."""
    every = x.flatten(0, 1).transpose(0, 1)[None]
    return attend_explicitly(every, every, every, mask=EVERYONE, way=PLAIN)


def axial(x: torch.Tensor) -> torch.Tensor:
    """Pixels look along their rows, then along their columns."""
    for _ in range(2):
        lines = x.transpose(1, 2)  # (line, heads, place, depth)
        x = attend(lines, lines, lines).permute(2, 0, 1, 3)
    return x


def timed(action: Callable[[], Any], device: str, *, runs: int, warm: int = 1) -> float:
    """The median time of an action after it was done once; on a CPU, that of the processor, whatever else runs."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    spent = []
    for number in range(warm + runs):
        began = clock()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        spent += [clock() - began] if number >= warm else []
    return statistics.median(spent)


def peak(action: Callable[[], Any], device: str) -> int:
    """Bytes that are held at most while it lasts, beyond those held before."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        action()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        action()
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]  # type: ignore[union-attr]
    held = highest = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    return highest


if __name__ == "__main__":
    main()
