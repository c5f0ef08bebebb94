"""Write the model that comes with Regard: a trained checkpoint with its weights as int8, and a card about it.

    python scripts/ship_model.py FOLDER CARD.md regard/pretrained/en-fr

FOLDER holds `config.yaml`, `tokenizer.json`, `model.safetensors` and `metrics.json`, as a checkpoint directory does.
"""

import argparse
from pathlib import Path

import safetensors.torch

from regard import checkpoint, config
from regard.quantize import shrink


def main() -> None:
    """Read, shrink, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "card", "out"):
        parser.add_argument(name, type=Path)
    asked = parser.parse_args()
    weights = safetensors.torch.load_file(asked.folder / "model.safetensors")
    checkpoint.write(
        asked.out,
        {
            "config.yaml": config.read(asked.folder / "config.yaml"),
            "tokenizer.json": (asked.folder / "tokenizer.json").read_text(encoding="utf-8"),
            "metrics.json": (asked.folder / "metrics.json").read_bytes(),
            "README.md": asked.card.read_text(encoding="utf-8"),
            checkpoint.WEIGHTS: shrink({name: tensor.float() for name, tensor in weights.items()}),
        },
    )
    size = sum(path.stat().st_size for path in asked.out.iterdir())
    print(f"{asked.out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
