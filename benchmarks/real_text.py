"""Real text of many kinds through the translator in the box, both ways, in one process, to see whether any breaks it.

    python -m benchmarks.real_text FOLDER [--device cuda] [--out FILE] [--against FILE]

Every .txt file in the folder is a kind of text, one text a line. Answers go to FILE as JSON lines; --against counts
those that differ from the answers of another run, such as one on another device.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import regard

LONGEST = 400  # characters of a text


def main() -> None:
    """Translate every file into French and into English, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lines", type=int, default=3500, help="most lines of a file")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    translator = regard.load(device=arguments.device)
    answers, files = [], sorted(arguments.folder.glob("*.txt"))
    for path in files:
        lines = [line[:LONGEST] for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        for to in ("fr", "en"):
            answers += translate_lines(translator, path.stem, lines[: arguments.lines], to)
    print(f"{len(answers):,} answers to lines of {len(files)} files")
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in answers), "utf-8")
    if arguments.against:
        compare_answers(answers, arguments.against)


def translate_lines(translator: Any, kind: str, lines: list[str], to: str) -> list[dict[str, Any]]:
    """Translate the lines in one call; print how fast it was, and how many answers ran to their limit."""
    began = time.perf_counter()
    answers = translator.answers(lines, to=to)
    seconds = time.perf_counter() - began
    unfinished = sum(answer.unfinished for answer in answers)
    empty = sum(not answer.text.strip() for answer in answers)
    print(
        f"{kind} to {to}: {len(lines):,} lines, {len(lines) / seconds:,.1f}/s, "
        f"{unfinished} sentences at their limit, {empty} empty answers",
        flush=True,
    )
    return [
        {"kind": kind, "to": to, "source": line, "answer": answer.text, "unfinished": answer.unfinished}
        for line, answer in zip(lines, answers, strict=True)
    ]


def compare_answers(answers: list[dict[str, Any]], path: Path) -> None:
    """Print how many answers differ from those of another run, kind by kind, and the first few of them."""
    others = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    theirs = {(each["kind"], each["to"], each["source"]): each["answer"] for each in others}
    counts: Counter[str] = Counter()
    shown = 0
    for each in answers:
        key = each["kind"], each["to"], each["source"]
        if key not in theirs:
            continue
        name = f"{each['kind']} to {each['to']}"
        counts[name] += 0
        if theirs[key] != each["answer"]:
            counts[name] += 1
            shown += 1
            if shown <= 10:
                print(f"  {each['source']}\n    {each['answer']}\n    {theirs[key]}")
    for name, differing in counts.items():
        print(f"{name}: {differing} answers differ")


if __name__ == "__main__":
    main()
