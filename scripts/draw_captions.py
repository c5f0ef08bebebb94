"""Draw what captioners write about a photograph, word by word, each word above where its model looked before it.

    python scripts/draw_captions.py photo.jpg docs/pictures/captions.png "soft attention=runs/flickr8k-soft"

Several models, NAME=RUN each, become rows. One with hard attention that writes by the weighted mean is shown as it
looks when it takes the likeliest region.
"""

import argparse
from pathlib import Path

import regard
from regard.attention.hard import HardHead
from regard.interpret.draw import plots


def main() -> None:
    """Write about the photograph, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("photo", type=Path)
    parser.add_argument("out", type=Path, help="the picture to write, such as captions.png")
    parser.add_argument("models", nargs="+", metavar="NAME=RUN")
    given = parser.parse_args()
    traces = {}
    for one in given.models:
        name, _, run = one.rpartition("=")
        model = regard.load(run, device="cpu")
        for part in model.model.modules():
            if isinstance(part, HardHead):
                part.expected = False
        traces[name or run] = model.look(given.photo)
        print(f"{name or run}: {traces[name or run].facts['answer']}")
    plots.save(plots.captions(traces), given.out)


if __name__ == "__main__":
    main()
