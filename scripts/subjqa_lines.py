"""Write the questions of SubjQA as the JSON lines that Regard reads: DOMAIN.train, .dev and .test.jsonl.gz.

    python scripts/subjqa_lines.py SubjQA data/subjqa

The archive has a table for every domain and part, with a row for each annotator: `question`, `review`, the answer and
its characters. A line here has all answers to one question about one review, the commonest first, an empty one where
somebody found none. The word ANSWERNOTFOUND, with which every review ends, is taken away. Left out and counted are
answers that jump over a part of the review, which are no spans, and questions about a review that is also in a part to
be measured on: those of train in dev or test, those of dev in test.
"""

import argparse
import csv
import gzip
import json
import re
from collections import Counter
from pathlib import Path

NOWHERE = "ANSWERNOTFOUND"
INDICES = re.compile(r"\((\d+), (\d+)\)")
LONGEST = 1 << 24  # characters of a cell
PARTS = ("test", "dev", "train")  # reviews of one are in none that comes after it


def answer(row: dict[str, str], context: str) -> tuple[str, int] | None:
    """What an annotator answered, as it stands in the review, and where; None if that is no span."""
    if row["human_ans_spans"] == NOWHERE:
        return "", 0
    found = INDICES.fullmatch(row["human_ans_indices"])
    first, last = (int(number) for number in found.groups()) if found else (0, 0)
    written = context[first:last]
    same = "".join(written.split()) == "".join(row["human_ans_spans"].split())  # their texts have other blanks
    blank = len(written) - len(written.lstrip())
    return (written.strip(), first + blank) if same and written.strip() else None


def questions(path: Path) -> tuple[list[dict[str, object]], int]:
    """The questions of a table with all their answers, and how many answers are no spans."""
    found, broken = dict[tuple[str, str], Counter[tuple[str, int]]](), 0
    with gzip.open(path, "rt", encoding="utf-8", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
        for row in csv.DictReader(file):
            context = row["review"].removesuffix(NOWHERE).rstrip()
            told = answer(row, context)
            broken += told is None
            if told is not None:
                found.setdefault((row["question"], context), Counter())[told] += 1
    lines = list[dict[str, object]]()
    for (question, context), counts in found.items():
        ranked = sorted(counts, key=lambda one: (-counts[one], not one[0], one[1]))
        answers = {"text": [text for text, _ in ranked], "answer_start": [start for _, start in ranked]}
        lines.append({"question": question, "context": context, "answers": answers})
    return lines, broken


def main() -> None:
    """Read, write and count each table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, help="the folder SubjQA of the repository, or one with DOMAIN.PART.csv.gz")
    parser.add_argument("folder", type=Path, help="where DOMAIN.PART.jsonl.gz go")
    asked = parser.parse_args()
    csv.field_size_limit(LONGEST)
    paths = sorted([*asked.tables.glob("*/splits/*.csv"), *asked.tables.glob("*.csv.gz")])
    if not paths:
        raise SystemExit(f"{asked.tables}: no tables there: give the folder SubjQA that has DOMAIN/splits/PART.csv")
    asked.folder.mkdir(parents=True, exist_ok=True)
    named = [
        (f"{path.parents[1].name}.{path.stem}" if path.suffix == ".csv" else path.name.removesuffix(".csv.gz"), path)
        for path in paths
    ]
    met = dict[object, str]()
    for name, path in sorted(named, key=lambda each: PARTS.index(each[0].rpartition(".")[2])):
        every, broken = questions(path)
        part = name.rpartition(".")[2]
        lines = [line for line in every if met.get(line["context"], part) == part]
        met |= {line["context"]: part for line in lines}
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines)
        (asked.folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(
            f"{name}: {len(lines):,} questions; {broken:,} answers and {len(every) - len(lines):,} questions left out"
        )


if __name__ == "__main__":
    main()
