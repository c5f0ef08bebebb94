"""Write a model that comes with Regard: a trained checkpoint with its weights as int8, and a card about it.

    python scripts/ship_model.py runs/translator cards/en-fr.md regard/pretrained/en-fr --most 20 \\
        -s decoding.copy=all -s decoding.keep=true
    python scripts/ship_model.py runs/encoder cards/encoder.md regard/pretrained/encoder --most 14
    python scripts/ship_model.py runs/stories cards/stories.md regard/pretrained/stories --most 12

The first argument is a run folder or a checkpoint of whatever task. The card begins with what `regard models` lists:

    ---
    language: [en, fr]
    license: Apache-2.0
    commands: [translate]
    score: BLEU 53.5 to French and 60.6 to English, on 2,000 held-out pairs of Tatoeba
    sources: [Tatoeba (CC-BY 2.0 FR)]
    ---

The same checkpoint and card give the same bytes, on any machine. Where a card counts bytes or scores of the 8-bit
weights, write it after a first run and run again.
"""

import argparse
from pathlib import Path

from regard import checkpoint, config, recipe
from regard.quantize import shrink
from regard.shipped import parse_card

CARD = "README.md"


def ship(folder: Path, card: Path, out: Path, *, settings: list[str], most: float) -> float:
    """Read, shrink, write; the megabytes that were written."""
    found = recipe.open_model(folder)
    text = card.read_text(encoding="utf-8")
    told = parse_card(text, name=str(card))
    if missing := [name for name, value in config.plain(told).items() if not value]:
        raise ValueError(f"{card}: says nothing of its {missing[0]} between the dashes at its top")
    weights = shrink({name: tensor.float() for name, tensor in found.tensors().items()})
    size = sum(tensor.nbytes for tensor in weights.values()) / 1e6
    if size > most:
        raise ValueError(f"{folder}: {size:.1f} MB of weights, more than the {most:g} MB that --most allows")
    kept = [name for name in found.files if name != CARD and not name.endswith((".safetensors", ".index.json"))]
    checkpoint.write(
        out,
        {
            **{name: found.data(name) for name in kept},
            "config.yaml": config.override(found.config, settings),
            CARD: text,
            checkpoint.WEIGHTS: weights,
        },
        facts={"versions": found.manifest["facts"].get("versions", {}), "made_of": found.manifest["sha256"]},
    )
    recipe.load(out, device="cpu")
    return sum(path.stat().st_size for path in out.iterdir()) / 1e6


def main() -> None:
    """Ship what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "card", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--most", type=float, default=20.0, metavar="MB", help="refuse more megabytes of weights")
    parser.add_argument("-s", "--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    asked = parser.parse_args()
    try:
        size = ship(asked.folder, asked.card, asked.out, settings=asked.set, most=asked.most)
    except ValueError as error:
        parser.exit(1, f"ship_model: {error}\n")
    print(f"{asked.out}: {size:.2f} MB")


if __name__ == "__main__":
    main()
