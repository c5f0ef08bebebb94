"""Write the film reviews of aclImdb as the JSON lines that the recipes read: train, test and unsup.jsonl.gz.

    python scripts/imdb_lines.py aclImdb data/imdb

The archive has a file for each review, ID_RATING.txt in train/neg, train/pos, test/neg, test/pos and train/unsup. A
line has `id` and `text`, outside unsup `rating` and `label` (0: neg, 1: pos), in the order of label and id.
"""

import argparse
import gzip
import json
import re
from pathlib import Path

PARTS = {"train": ("train/neg", "train/pos"), "test": ("test/neg", "test/pos"), "unsup": ("train/unsup",)}
LABELS = {"neg": 0, "pos": 1}


def review(path: Path) -> dict[str, int | str]:
    """One review with what the names of its file and folder say of it."""
    if not (named := re.fullmatch(r"(\d+)_(\d+)\.txt", path.name)):
        raise SystemExit(f"{path}: not named as ID_RATING.txt: take it out of the folder")
    verdict = {"rating": int(named[2]), "label": LABELS[path.parent.name]} if path.parent.name in LABELS else {}
    try:
        return {"id": int(named[1]), **verdict, "text": path.read_bytes().decode("utf-8")}
    except UnicodeDecodeError as error:
        raise SystemExit(f"{path}: invalid UTF-8 at byte {error.start:,}: unpack the archive again") from error


def main() -> None:
    """Read, write and count each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reviews", type=Path, help="the folder aclImdb that aclImdb_v1.tar.gz unpacks to")
    parser.add_argument("folder", type=Path, help="where train.jsonl.gz, test.jsonl.gz and unsup.jsonl.gz go")
    asked = parser.parse_args()
    for place in (asked.reviews / part for parts in PARTS.values() for part in parts):
        if not any(place.glob("*.txt")):
            raise SystemExit(f"{place}: no reviews there: give the folder aclImdb that aclImdb_v1.tar.gz unpacks to")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, parts in PARTS.items():
        found = [review(path) for part in parts for path in (asked.reviews / part).glob("*.txt")]
        found.sort(key=lambda each: (each.get("label", 0), each["id"]))
        lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
        (asked.folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        print(f"{name}: {len(found):,} reviews")


if __name__ == "__main__":
    main()
