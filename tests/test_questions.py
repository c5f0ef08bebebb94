"""The tables of SubjQA become JSON lines of questions, and SQuAD's JSON is divided by article."""

import csv
import gzip
import json
import runpy
import sys
from pathlib import Path

import pytest

from regard.tasks.answering.files import QuestionFile, read_questions
from regard.tasks.answering.questions import AnswerSpan

SCRIPTS = Path(__file__).parent.parent / "scripts"
REVIEW = "The spice is nice , and I 'm  full.  Go there again ANSWERNOTFOUND"
END = REVIEW.index("ANSWER")


def run(name: str, monkeypatch, *words) -> None:
    monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")


def test_all_answers_to_a_question_are_in_one_line_where_they_stand(tmp_path, monkeypatch, capsys):
    rows = [
        ("How is it?", "ANSWERNOTFOUND", (END, END + 14)),
        ("How is it?", "spice is nice", (4, 17)),
        ("How is it?", "spice  is nice", (4, 17)),  # their texts have other blanks
        ("How is it?", "The full", (0, 34)),  # jumps over a part
        ("Is it cheap?", "ANSWERNOTFOUND", (END, END + 14)),
    ]
    (tmp_path / "food" / "splits").mkdir(parents=True)
    for part, more in (("test", rows), ("train", rows[-1:])):
        with (tmp_path / "food" / "splits" / f"{part}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["question", "review", "human_ans_spans", "human_ans_indices"])
            table.writerows((question, REVIEW, text, str(span)) for question, text, span in more)
            table.writerow(("Who?", f"Only in {part}. ANSWERNOTFOUND", "ANSWERNOTFOUND", "(0, 14)"))
    run("subjqa_lines.py", monkeypatch, tmp_path, tmp_path / "out")
    assert capsys.readouterr().out.splitlines() == [
        "food.test: 3 questions; 1 answers and 0 questions left out",
        "food.train: 1 questions; 0 answers and 1 questions left out",
    ]
    one, other, _ = read_questions([QuestionFile(path=str(tmp_path / "out" / "food.test.jsonl.gz"))], 0.0).questions
    assert one.answers == (AnswerSpan("spice is nice", 4), AnswerSpan("", 0))
    assert one.context == REVIEW.removesuffix("ANSWERNOTFOUND").rstrip()
    assert other.accepted_answers == [""]
    with pytest.raises(SystemExit, match="no tables there"):
        run("subjqa_lines.py", monkeypatch, tmp_path / "out", tmp_path / "more")


def test_no_article_is_on_both_sides(tmp_path, monkeypatch):
    articles = [{"title": f"{n}", "paragraphs": [{"context": f"c{n}", "qas": [{"question": "?"}]}]} for n in range(9)]
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))
    run("split_articles.py", monkeypatch, tmp_path / "a.json.gz", tmp_path / "out")
    sides = [
        json.loads(gzip.decompress((tmp_path / "out" / f"{name}.json.gz").read_bytes())) for name in ("train", "test")
    ]
    train, test = ([article["title"] for article in side["data"]] for side in sides)
    assert test == ["3", "7"]
    assert sorted(train + test) == [f"{n}" for n in range(9)]
    with pytest.raises(SystemExit, match="9 articles are divided by 2 to 9"):
        run("split_articles.py", monkeypatch, tmp_path / "a.json.gz", tmp_path / "out", "--every", 1)
