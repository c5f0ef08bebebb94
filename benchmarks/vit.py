"""Training speed of ViT-B/16 on one GPU: from JPEGs through `regard train`, on tensors in memory, beside its peers.

    python -m benchmarks.vit --out vit.json
    python -m benchmarks.vit --toy                     a small one, on any machine

Pictures of 224 x 224, 256 in a batch, bfloat16, AdamW, gradients clipped. `jpegs` is `regard train` on a folder of JPEG
files, with its crops, flips, log and guard; the figure is the median of what it writes down, without the first windows,
in which it compiles. `tensors` is Regard's loop on the same pictures as an array, unvaried. The peers are compiled and
get normalised pixels that lie on the GPU already: transformers, timm and, as `plain`, Regard's model in their loop.
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
from PIL import Image
from torch import nn
from torch.nn import functional as F

import regard
from benchmarks import ledger

CLASSES = 1000
FULL: dict[str, int] = {"size": 224, "patch": 16, "width": 768, "heads": 12, "hidden": 3072, "depth": 12}
UNVARIED: dict[str, Any] = {"shift": 0.0, "flip": False, "operations": 0, "cutmix": 0.0}  # each named: none is chosen
TOY: dict[str, int] = {"size": 32, "patch": 8, "width": 32, "heads": 2, "hidden": 64, "depth": 2}


def main() -> None:
    """Measure every system that is named, print a line each and the ratios in the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="*", default=["jpegs", "tensors", "transformers", "timm", "plain"])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=160, help="of a training that is measured")
    parser.add_argument("--pictures", type=int, default=4096)
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("vit.json"))
    asked = parser.parse_args()
    sizes = TOY if asked.toy else FULL
    systems: dict[str, Callable[[], dict[str, Any]]] = {
        "jpegs": lambda: ours(asked, sizes, "jpegs"),
        "tensors": lambda: ours(asked, sizes, "tensors"),
        "transformers": lambda: peer(asked, sizes, transformers(sizes)),
        "timm": lambda: peer(asked, sizes, timm(sizes)),
        "plain": lambda: peer(asked, sizes, plain(sizes)),
    }
    for name in asked.systems:
        ledger.attempted(asked.out, [name], systems[name])
    show(ledger.read(asked.out))


def ours(asked: argparse.Namespace, sizes: dict[str, int], source: str) -> dict[str, Any]:
    """Regard, as people use it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = jpegs(folder / "jpegs", asked.pictures, sizes["size"])
        varied: dict[str, Any] = {"scale": 0.35, "flip": True}
        if source == "tensors":
            path, varied = arrays(path, folder / "pictures.npz", sizes["size"]), {}
        settings: dict[str, Any] = {
            "task": "pictures",
            "data": {"train": {"path": str(path)}, "size": sizes["size"], "channels": 3, "batch_size": asked.batch},
            "model": {"name": "vit", **sizes},
            "augment": UNVARIED | varied,
            "optim": {"name": "adamw", "learning_rate": 1e-4, "weight_decay": 0.05},
            "training": {
                "steps": asked.steps,
                "log_every": 20,
                "eval_every": 10**6,
                "save_every": 10**6,
                "tensorboard": False,
            },
        }
        settings["training"]["compile"] = "auto" if asked.toy else "on"
        began = time.perf_counter()
        regard.train(settings, out=folder / "run", quiet=True)
        seconds = time.perf_counter() - began
        lines = (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    speeds = [record["pictures_per_second"] for line in lines if "pictures_per_second" in (record := json.loads(line))]
    median = statistics.median(speeds[len(speeds) // 2 :])
    return {"images/s": round(median, 1), "seconds": round(seconds, 1), "windows": [round(each) for each in speeds]}


def jpegs(folder: Path, count: int, size: int) -> Path:
    """Smooth random pictures in ten classes, as files."""
    chance = np.random.default_rng(0)
    for number in range(count):
        place = folder / f"{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(chance.integers(0, 256, (12, 12, 3), np.uint8))
        coarse.resize((size, size), Image.Resampling.BICUBIC).save(place / f"{number:06}.jpg", quality=90)
    return folder


def arrays(folder: Path, path: Path, size: int) -> Path:
    """The same pictures as one array."""
    files = sorted(folder.rglob("*.jpg"))
    pictures = np.empty((len(files), size, size, 3), np.uint8)
    for number, file in enumerate(files):
        pictures[number] = np.asarray(Image.open(file))
    np.savez(path, pictures=pictures, labels=np.array([int(file.parent.name) for file in files]))
    return path


def transformers(sizes: dict[str, int]) -> nn.Module:
    """Hugging Face's."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=sizes["size"],
        patch_size=sizes["patch"],
        hidden_size=sizes["width"],
        num_attention_heads=sizes["heads"],
        intermediate_size=sizes["hidden"],
        num_hidden_layers=sizes["depth"],
        num_labels=CLASSES,
        attn_implementation="sdpa",
    )

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = ViTForImageClassification(config)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.model(pixel_values=pixels).logits

    return Logits()


def timm(sizes: dict[str, int]) -> nn.Module:
    """timm's."""
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=sizes["size"],
        patch_size=sizes["patch"],
        embed_dim=sizes["width"],
        num_heads=sizes["heads"],
        mlp_ratio=sizes["hidden"] / sizes["width"],
        depth=sizes["depth"],
        num_classes=CLASSES,
    )


def plain(sizes: dict[str, int]) -> nn.Module:
    """Regard's, without Regard's loop."""
    from regard.models.vit import ViT, ViTConfig

    return ViT(ViTConfig(**sizes, classes=CLASSES))


def peer(asked: argparse.Namespace, sizes: dict[str, int], model: nn.Module) -> dict[str, Any]:
    """Pictures a second of a compiled model in a plain loop, of pixels that lie on the device."""
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    model = model.to(place).train()
    run = model if asked.toy else torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=place.type == "cuda")
    pixels = torch.randn(asked.batch, 3, sizes["size"], sizes["size"], device=place)
    labels = torch.randint(0, CLASSES, (asked.batch,), device=place)

    def step() -> None:
        with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
            loss = F.cross_entropy(run(pixels).float(), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    began = time.perf_counter()
    for _ in range(10):
        step()
    waited(place)
    warm, rates = time.perf_counter() - began, []
    for _ in range(3):
        some, began = max(1, asked.steps // 8), time.perf_counter()
        for _ in range(some):
            step()
        waited(place)
        rates.append(some * asked.batch / (time.perf_counter() - began))
    memory = torch.cuda.max_memory_allocated() / 2**30 if place.type == "cuda" else 0.0
    del model, optimizer
    return {
        "images/s": round(statistics.median(rates), 1),
        "compiled in": round(warm, 1),
        "peak, GiB": round(memory, 1),
    }


def waited(place: torch.device) -> None:
    """All that was asked of the device is done."""
    if place.type == "cuda":
        torch.cuda.synchronize()


def show(found: dict[str, Any]) -> None:
    """Speeds, and how many times those of the others Regard's is."""
    own = found.get("jpegs", {}).get("images/s")
    rows = []
    for name, one in found.items():
        speed = one.get("images/s")
        ratio = f"{own / speed:.3f}" if own and speed else ""
        rows.append((name, one.get("failed", speed), ratio))
    ledger.table(("system", "images/s", "jpegs / this"), rows)


if __name__ == "__main__":
    main()
