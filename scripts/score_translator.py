"""Score an English-French translator on every held-out file, both ways, as one table.

    python scripts/score_translator.py MODEL [MODEL ...] data/en-fr
    python scripts/score_translator.py runs/translator data/en-fr --part valid -s length_penalty=1.2

Each figure is that of `regard evaluate MODEL DOMAIN/test.tsv.gz --to fr` and `--columns 2 1 --to en`; domains that have
a file `far` get a second line. Prints Markdown; `--json FILE` keeps every figure with its interval and signature.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import regard
from regard import config

WAYS = {"fr": (1, 2), "en": (2, 1)}
FIRST = ("tatoeba", "europarl", "documentation", "libreoffice")  # then those that are left, by name
METRICS = ("BLEU", "chrF")


def tests(folder: Path, part: str) -> list[Path]:
    """The files to measure on, those with a bar first."""
    wanted = [path for name in dict.fromkeys((part, "far" if part == "test" else part)) for path in found(folder, name)]
    if not wanted:
        raise SystemExit(f"no {part}.tsv.gz lies under {folder}: write one with scripts/make_corpus.py")
    order = {name: number for number, name in enumerate(FIRST)}
    return sorted(
        wanted, key=lambda path: (order.get(path.parent.name, len(order)), path.parent.name, path.stem[0] == "f")
    )


def found(folder: Path, part: str) -> list[Path]:
    """The files of this name, one for each domain."""
    return list(folder.glob(f"*/{part}.tsv.gz"))


def row(name: str, scores: dict[str, Any], count: int) -> str:
    """A line of the table."""
    cells = [f"{scores[to].metrics[metric]:.1f}" for to in WAYS for metric in METRICS]
    return f"| {name} | {count:,} | {' | '.join(cells)} |"


def told(scores: Any) -> dict[str, Any]:
    """Scores, half the width of their 95 % intervals and how they were computed, as JSON."""
    spread = {name: own.half for name, own in scores.intervals.items()}
    return {"scores": scores.metrics, "half_intervals": spread, "signatures": list(scores.notes)}


def main() -> None:
    """Translate, score, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="models, then the folder with the test files")
    parser.add_argument("--part", choices=("test", "valid"), default="test")
    parser.add_argument("--only", nargs="+", metavar="DOMAIN", help="domains to measure on; else all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("-s", "--setting", action="append", default=[], metavar="NAME=VALUE", help="of the search")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    *models, folder = asked.paths
    settings = {"beams": 5, "tokens": 65_536, **config.override({}, asked.setting)}
    kept: dict[str, dict[str, Any]] = {}
    for model in models:
        translator = regard.load(model, device=asked.device)
        print(f"\n| {translator.name} on | pairs | BLEU to French | chrF | BLEU to English | chrF |\n|{' --- |' * 6}")
        for path in tests(Path(folder), asked.part):
            if asked.only and path.parent.name not in asked.only:
                continue
            scores = {to: translator.evaluate(path, columns=ways, to=to, **settings) for to, ways in WAYS.items()}
            name = path.parent.name + (", far" if path.name.startswith("far") else "")
            print(row(name, scores, len(scores["fr"].examples)), flush=True)
            kept.setdefault(model, {})[name] = {to: told(one) for to, one in scores.items()}
    if asked.json is not None:
        asked.json.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
