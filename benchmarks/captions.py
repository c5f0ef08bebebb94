"""Captions of Flickr8k by every writer: BLEU-1 to 4, CIDEr-D, paired tests.

    regard import vgg16/model.safetensors runs/vgg16
    REGARD_DATA=data python -m benchmarks.captions none soft --seeds 0 1 2 --from runs/vgg16
    REGARD_DATA=data python -m benchmarks.captions hard transformer decoder --seeds 0 --from runs/vgg16
    REGARD_DATA=data python -m benchmarks.captions none soft hard transformer --seeds 0       an encoder of its own
    REGARD_DATA=data python -m benchmarks.captions hard --from runs/captions/vgg16-soft-0 --encoder vgg16 --label tuned
    REGARD_DATA=data python -m benchmarks.captions soft --from runs/vgg16 --penalties 0.3 0.6 1       on dev pictures
    REGARD_DATA=data python -m benchmarks.captions --compare            paired tests, by the captions in the file
    python -m benchmarks.captions --table

Every run is `regard train recipes/flickr8k-WRITER.yaml` and `regard evaluate` on the official test pictures, in Python.
Without --from a small ViT learns together with the writer and nothing is convolved. Seconds are those of the run, with
reading, evaluations and checkpoints; the first run from an encoder also computes the regions that later ones find.
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
WRITERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "none": ("flickr8k-none", ()),
    "soft": ("flickr8k-soft", ()),
    "hard": ("flickr8k-hard", ()),
    "transformer": ("flickr8k-transformer", ()),
    "decoder": ("flickr8k-transformer", ("model.reader=0",)),
}
OWN = "vit"  # the encoder that is trained here
SHOWN = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "CIDEr-D")
BARE = "without penalty"


def main() -> None:
    """Train and score what is named, then print everything that the file holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("writers", nargs="*", choices=[*WRITERS, []], metavar="WRITER", help=", ".join(WRITERS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--from", dest="start", type=Path, help="the encoder; without it one is trained here")
    parser.add_argument("--settings", nargs="*", default=[], help="such as training.steps=10")
    parser.add_argument("--label", default="", help="what to call runs with other settings in the table")
    parser.add_argument("--encoder", help="what to call the encoder, where --from is a captioner that has it")
    parser.add_argument("--only", help="another list of test pictures than Flickr8k's")
    parser.add_argument("--penalties", nargs="*", type=float, default=[], help="length penalties to choose from")
    parser.add_argument("--runs", type=Path, default=Path("runs/captions"), help="where runs go")
    parser.add_argument("--out", type=Path, default=Path("captions.json"))
    parser.add_argument("--compare", action="store_true", help="paired tests of the runs that are there")
    parser.add_argument("--table", action="store_true", help="only print what was found")
    asked = parser.parse_args()
    encoder = asked.encoder or (OWN if asked.start is None else asked.start.name)
    for seed in asked.seeds if asked.writers and not asked.table else ():
        for writer in asked.writers:
            place = [encoder, f"{writer}{asked.label and ' ' + asked.label}", str(seed)]
            folder = asked.runs / "-".join(place).replace(" ", "-")
            if asked.penalties:
                ledger.record(asked.out, ["penalties", *place], penalties(asked, folder))
            else:
                ledger.record(asked.out, ["runs", *place], trained(asked, writer, seed, folder))
    if asked.compare:
        compare(asked)
    show(ledger.read(asked.out))


def trained(asked: argparse.Namespace, writer: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run and its scores on the test pictures."""
    recipe, settings = WRITERS[writer]
    outcome, run = ledger.trained(
        RECIPES / f"{recipe}.yaml",
        *settings,
        *asked.settings,
        seed=seed,
        out=folder,
        start=asked.start,
    )
    began = time.perf_counter()
    scores = scored(asked, outcome.folder)
    return {
        "scores": {name: round(score, 3) for name, score in scores.metrics.items()},
        "intervals": {name: [round(one.low, 3), round(one.high, 3)] for name, one in scores.intervals.items()},
        **run,
        "scored in": round(time.perf_counter() - began, 1),
        "people": scores.plain(worst=0).get("people"),
        "captions": {one.given: one.answer for one in scores.examples},
    }


def scored(asked: argparse.Namespace, folder: Path, part: str = "test", **how: Any) -> Any:
    """What a model reaches on the test pictures, with five beams."""
    data = Path(os.environ.get("REGARD_DATA", ".")) / "flickr8k"
    only = asked.only or str(data / f"Flickr_8k.{part}Images.txt")
    model = regard.load(folder)
    return model.evaluate(data / "captions.csv.gz", folder=str(data / "images"), only=only, name=folder.name, **how)


def penalties(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """BLEU-4 of a trained run on the development pictures by length penalty, with and without brevity penalty."""
    found = {}
    for penalty in asked.penalties:
        scores = scored(asked, folder, "dev", length_penalty=penalty).metrics
        found[str(penalty)] = {name: round(score, 3) for name, score in scores.items() if name.startswith("BLEU-4")}
    return found


def compare(asked: argparse.Namespace) -> None:
    """Of every encoder and seed, each writer against the one without attention, by the captions that the file holds."""
    from regard.metrics.scores import compare as compared
    from regard.tasks.captions.files import CAPTION, NAME, CaptionFile, shelve
    from regard.tasks.captions.writer import caption_scores

    data = Path(os.environ.get("REGARD_DATA", ".")) / "flickr8k"
    only = asked.only or str(data / "Flickr_8k.testImages.txt")
    test = shelve(CaptionFile(path=str(data / "captions.csv.gz"), folder=str(data / "images"), only=only))
    references = dict(zip(test.columns[NAME], test.columns[CAPTION], strict=True))
    for encoder, writers in ledger.read(asked.out).get("runs", {}).items():
        for seed in sorted({seed for seeds in writers.values() for seed in seeds}):
            own = {
                name: seeds[seed]["captions"] for name, seeds in writers.items() if "captions" in seeds.get(seed, {})
            }
            if len(own) < 2 or "none" not in own:
                continue
            names = sorted(own, key=lambda name: name != "none")
            systems = [
                caption_scores(
                    name, list(own[name]), list(own[name].values()), [references[each] for each in own[name]]
                )
                for name in names
            ]
            tests = compared(systems).plain(worst=0)["tests"]
            ledger.record(asked.out, ["tests", encoder, seed], {"against none": tests})


def show(found: dict[str, Any]) -> None:
    """A row for every encoder and writer, means over seeds; then the tests of BLEU-4 and CIDEr-D."""
    rows = []
    for encoder, writers in found.get("runs", {}).items():
        for writer, seeds in writers.items():
            each = [one["scores"] for one in seeds.values()]
            bare = [name for name in each[0] if BARE in name]
            scores = [ledger.spread((one[name] for one in each), 1) for name in (*SHOWN, *bare)]
            seconds = ledger.spread((one["seconds"] for one in seeds.values()), 0)
            rows.append(((encoder, writer, str(len(each)), *scores, seconds), bare))
    if rows:
        ledger.table(("encoder", "writer", "seeds", *SHOWN, *rows[0][1], "seconds"), [row for row, _ in rows])
    verdicts = [
        (encoder, seed, one["metric"], one["test"], one["system"], f"{one['difference']:+.2f}", f"{one['p']:.4f}")
        for encoder, seeds in found.get("tests", {}).items()
        for seed, tests in seeds.items()
        for one in tests["against none"]
        if one["p"] is not None and one["metric"] in ("BLEU-4", "CIDEr-D")
    ]
    if verdicts:
        ledger.table(("encoder", "seed", "metric", "test", "system", "against none", "p"), verdicts)


if __name__ == "__main__":
    main()
