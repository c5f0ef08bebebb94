"""Divide questions in SQuAD's JSON by article, so that something can be learnt from a test set: train and test.json.gz.

    python scripts/split_articles.py xquad.en.json.gz data/xquad

Of every four articles the last one is for testing; `--every` chooses another number.
"""

import argparse
import gzip
import json
from pathlib import Path


def main() -> None:
    """Read, divide, write and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="SQuAD's JSON, gzipped or not")
    parser.add_argument("folder", type=Path, help="where train.json.gz and test.json.gz go")
    parser.add_argument("--every", type=int, default=4, help="which articles are for testing: every so many")
    asked = parser.parse_args()
    data = asked.file.read_bytes()
    articles = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["data"]
    if not 2 <= asked.every <= len(articles):
        raise SystemExit(f"--every {asked.every}: {len(articles)} articles are divided by 2 to {len(articles)}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, last in (("train", False), ("test", True)):
        kept = [article for n, article in enumerate(articles, start=1) if (n % asked.every == 0) == last]
        count = sum(len(paragraph["qas"]) for article in kept for paragraph in article["paragraphs"])
        text = json.dumps({"data": kept}, ensure_ascii=False)
        (asked.folder / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {len(kept)} articles, {count:,} questions")


if __name__ == "__main__":
    main()
