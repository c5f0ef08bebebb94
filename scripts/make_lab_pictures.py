"""Draw the pictures of docs/commands/lab.md by the commands that the page names.

python scripts/make_lab_pictures.py
python scripts/make_lab_pictures.py norms beams
"""

import sys
from pathlib import Path

from PIL import Image

from regard.cli import run

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
COMMANDS = {
    "attention-words": "attention thinking-machines",
    "attention-big-dog": "attention big-dog",
    "attention-order": "attention permutation",
    "attention-columns": "attention columns",
    "attention-masks": "attention masks",
    "attention-root": "attention root",
    "positions": "positions sinusoidal",
    "positions-all": "positions",
    "norms": "norms",
    "gates": "gradients gates",
    "scale": "gradients scale",
    "trained": "gradients trained",
    "clipping": "gradients clipping",
    "unrolled": "gradients unrolled",
    "forcing": "forcing",
    "beams": "beams",
    "pooling": "pooling",
    "neighbours": "graph",
}
COLOURS = 128


def main() -> None:
    """Draw those that are named, else all."""
    for name in sys.argv[1:] or COMMANDS:
        path = PICTURES / f"{name}.png"
        if run(["lab", *COMMANDS[name].split(), "-o", str(path)]) != 0:
            raise SystemExit(1)
        shrink(path)


def shrink(path: Path) -> None:
    """Write a picture with fewer colours, which takes less room."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
