"""Say how much of each file a translator reads: the training data of a recipe, weighted by a temperature over domains.

    python scripts/mix_pairs.py FOLDER                                          (the entries of data.train)
    python scripts/mix_pairs.py FOLDER RECIPE --parts real copies > OTHER.yaml  (a recipe that differs in its data)

FOLDER is one that `scripts/make_corpus.py`, `make_pairs.py` and `make_copies.py` filled. The parts: `real` pairs;
`distilled` ones, translations of training sentences read towards what was made; `back`, sentences without a
translation of anybody's read towards the real side, behind a sign that says so; `copies`, what is not translated.

A domain with a share p of the real text would be drawn with a probability proportional to p at temperature 1 and as
often as any other at infinity; at T it is p ** (1/T). As the largest domain is seen once in an epoch, one that is n
times smaller has the weight n ** (1 - 1/T), but at most MOST.
"""

import argparse
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from regard import config

PARTS = ("real", "distilled", "back", "copies")
WAYS = {"fr": [1, 2], "en": [2, 1]}
MOST = 4.0
PLAIN = "common-voice"  # sentences that came without a translation
MADE = "≈"  # in front of a made source, of which a model need not learn to read everything
COPIES = {"copies": 0.5, "same": 0.5}


def weights(sizes: Mapping[str, float], temperature: float) -> dict[str, float]:
    """How often each domain is seen in an epoch."""
    largest = max(sizes.values())
    return {
        name: round(min(MOST, (largest / size) ** (1 - 1 / temperature)), 2) for name, size in sorted(sizes.items())
    }


def entries(
    folder: Path, weight: Mapping[str, float], parts: Sequence[str], *, sign: str = MADE
) -> Iterator[dict[str, Any]]:
    """The entries of data.train."""

    def entry(name: str, tag: str, weight: float, prefix: str = "") -> dict[str, Any]:
        found = {"path": f"{folder.as_posix()}/{name}.tsv.gz", "columns": WAYS[tag], "tag": tag}
        return found | ({"weight": weight} if weight != 1 else {}) | ({"prefix": prefix} if prefix else {})

    for name, own in weight.items() if "real" in parts else ():
        yield from (entry(f"{name}/train", tag, own) for tag in WAYS)
    for name, own in {**weight, PLAIN: 1.0}.items() if "distilled" in parts else ():
        yield from (entry(f"made/{name}.{tag}", tag, own) for tag in WAYS)
    if "back" in parts:
        yield from (entry(f"made/{PLAIN}.{other}", tag, 1.0, sign) for tag, other in (("fr", "en"), ("en", "fr")))
    if "copies" in parts:
        yield from (entry("made/copies", tag, COPIES["copies"]) for tag in WAYS)
        yield from (entry(f"made/same.{tag}", tag, COPIES["same"]) for tag in WAYS)


def main() -> None:
    """Weigh, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("recipe", type=Path, nargs="?")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", nargs="+", metavar="DOMAIN", help="domains to read; else all")
    parser.add_argument("--temperature", type=float, default=2.0)
    asked = parser.parse_args()
    paths = {path.parent.name: path for path in asked.folder.glob("*/train.tsv.gz")}
    wanted = asked.only or sorted(paths)
    if not wanted or not set(wanted) <= set(paths):
        raise SystemExit(f"{asked.folder} has training pairs of {', '.join(sorted(paths)) or 'nothing'} only")
    sizes = {}
    for name in wanted:
        lines = gzip.decompress(paths[name].read_bytes()).decode("utf-8").split("\n")
        sizes[name] = sum(len(text) for line in lines for text in line.split("\t")[:2])
    found = list(entries(asked.folder, weights(sizes, asked.temperature), asked.parts))
    if asked.only and PLAIN not in asked.only:
        found = [entry for entry in found if PLAIN not in entry["path"]]
    if asked.recipe is None:
        flow: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": 200}
        print("".join(f"    - {yaml.safe_dump(entry, **flow)}" for entry in found), end="")
    else:
        recipe = config.read(asked.recipe)
        recipe["data"]["train"] = found
        print(config.dump(recipe), end="")


if __name__ == "__main__":
    main()
