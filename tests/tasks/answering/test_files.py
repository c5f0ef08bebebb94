"""Questions are read from SQuAD's JSON and from JSON lines; what is wrong is said with its place and a remedy."""

import gzip
import json

import pytest

from regard.tasks.answering.files import QuestionFile, read_questions, split_questions, warn_of_shared_contexts
from regard.tasks.answering.questions import AnswerSpan

CONTEXT = "Ann e\u0301tait à  Paris. 👩‍👧 Bob was in Rome."
GOOD = {
    "question": "Where?",
    "context": CONTEXT,
    "answers": {"text": ["Paris"], "answer_start": [CONTEXT.index("Paris")]},
}


def written(path, *records, whole=False):
    text = json.dumps(records[0]) if whole else "".join(f"{json.dumps(each)}\n" for each in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return [QuestionFile(path=str(path))]


def squad(*paragraphs):
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": list(paragraphs)}]}


def asked(*answers, question="Where?", **more):
    told = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "1", "question": question, "answers": told, **more}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_squad_in_one_line_or_many_gzipped_or_not(tmp_path, name, indent):
    rome = CONTEXT.index("Rome")
    one = {"context": CONTEXT, "qas": [asked(("Rome", rome), ("in Rome", rome - 3)), asked(is_impossible=True)]}
    text = json.dumps(squad(one, {"context": "Lyon.", "qas": [asked(("Lyon", 0))]}), indent=indent).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    found = read_questions([QuestionFile(path=str(tmp_path / name))], 0.0)
    assert [question.accepted_answers for question in found.questions] == [["Rome", "in Rome"], [""], ["Lyon"]]
    assert [one.context for one in found.questions] == [CONTEXT, CONTEXT, "Lyon."]
    assert found.questions[0].training_answer == AnswerSpan("Rome", rome)
    assert found.questions[2].place == f"{tmp_path / name}, article 1, paragraph 2, question 1"


def test_json_lines_have_answers_in_any_of_the_usual_forms(tmp_path):
    place = CONTEXT.index("Paris")
    forms = [
        {"answers": {"text": ["Paris"], "answer_start": [place]}},
        {"answers": [{"text": "Paris", "answer_start": place}]},
        {"answer": "Paris", "start": place},
        {"answer": "Paris"},  # which stands there once
    ]
    none = [{"answers": {"text": [], "answer_start": []}}, {"answers": []}, {"answer": None}, {"is_impossible": True}]
    records = [{"question": "Where?", "context": CONTEXT, **each} for each in (*forms, *none)]
    found = read_questions(written(tmp_path / "a.jsonl", *records), 0.0).questions
    assert [one.answers for one in found] == [(AnswerSpan("Paris", place),)] * 4 + [()] * 4
    assert [one.place for one in found] == [f"{tmp_path / 'a.jsonl'}:{n}" for n in range(1, 9)]
    same = read_questions(written(tmp_path / "a.json", *records), 0.0).questions  # lines in a file named .json
    assert [one[:3] for one in same] == [one[:3] for one in found]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": None}, r"a\.jsonl:2: without a text named question \(there is context, answers\)"),
        ({"context": 3}, r"a\.jsonl:2: without a text named context \(it is 3\)"),
        ({"question": " \t"}, r"a\.jsonl:2: an empty question: ask something"),
        ({"context": ""}, r"a\.jsonl:2: an empty context: give the text"),
        ({"question": "\ud800"}, r"a\.jsonl:2: with a lone surrogate in its question"),
        (
            {"answers": [{"text": "Paris", "answer_start": 3}]},
            r"the answer 'Paris' does not stand at character 3, where ' éta' stands: it stands at 14",
        ),
        (
            {"answers": [{"text": "Rome", "answer_start": len(CONTEXT[: CONTEXT.index("Rome")].encode())}]},
            r"outside its context of \d+ characters: it stands at 36, offsets are counted in characters, not in bytes",
        ),
        ({"answers": [{"text": "Oslo", "answer_start": 0}]}, r"where 'Ann ' stands: it is nowhere in the context"),
        ({"answers": [{"text": "Paris", "answer_start": -1}]}, r"does not stand at character -1, outside"),
        ({"answers": [{"text": "Paris", "answer_start": "7"}]}, r"begins at \"7\": give a whole number"),
        ({"answers": [{"text": " ", "answer_start": 3}]}, "an answer of blanks alone"),
        ({"answers": [{"answer_start": 3}]}, "an answer without a text"),
        ({"answers": {"text": ["a"], "answer_start": []}}, "other numbers of text and answer_start"),
        ({"answers": "Paris"}, "give a list of text and answer_start"),
        ({"is_impossible": True}, r"is_impossible, and yet the answer 'Paris'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_a_remedy(tmp_path, change, said):
    bad = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    files = written(tmp_path / "a.jsonl", GOOD, bad)
    with pytest.raises(ValueError, match=said) as error:
        read_questions(files, 0.0)
    assert "\n" not in str(error.value)
    assert "1 of 2 questions of" in str(error.value)
    kept = read_questions(files, 0.5)
    assert len(kept.questions) == 1
    assert any("refused" in line for line in kept.summary)


@pytest.mark.parametrize(
    "answers", [{"answer": "Rome"}, {"answers": [{"text": "Rome"}]}, {"answers": {"text": ["Rome"]}}]
)
def test_an_answer_that_stands_several_times_is_refused_or_taken_where_it_stands_first(tmp_path, answers):
    record = {"question": "Where?", "context": f"{CONTEXT} Rome again, in Rome.", **answers}
    files = written(tmp_path / "a.jsonl", GOOD, record)
    said = r"3 times in its context: say where, in answer_start; mend them or set data.first_occurrence=true to take"
    with pytest.raises(ValueError, match=said):
        read_questions(files, 0.0)
    found = read_questions(files, 0.0, first_occurrence=True)
    assert found.questions[1].answers == (AnswerSpan("Rome", CONTEXT.index("Rome")),)
    assert found.questions[0] == read_questions(files[:1], 0.5).questions[0]
    assert found.summary[1:] == ["  1 with an answer that its context has several times: the first of them is taken"]


def test_answers_that_nobody_gave_are_missed_in_training_only(tmp_path):
    files = written(tmp_path / "a.jsonl", {"question": "Where?", "context": CONTEXT})
    with pytest.raises(ValueError, match="without answers: name them in answers"):
        read_questions(files, 0.0)
    assert read_questions(files, 0.0, with_answers=False).questions[0].answers is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"data": [', r"a\.json:1: invalid JSON .*: mend it, or fetch it again"),
        ("a.json", '{"data": 3}', r"a\.json: data is no list: give an object"),
        (
            "a.json",
            '{"data": [{"paragraphs": [{"context": "a", "qas": []}]}]}',
            "has no question in it: give an object",
        ),
        ("a.json", '{"data": [{"paragraphs": [{"qas": [{"question": "b", "answers": []}]}]}]}', "an empty context"),
        ("a.jsonl", "nothing\n", r"a\.jsonl:1: invalid JSON"),
        ("a.jsonl", "[3]\n", r"a\.jsonl:1, record 1: no question but 3: give an object"),
        ("a.jsonl", "\n", "has no question in it"),
    ],
)
def test_files_that_hold_no_questions(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read_questions([QuestionFile(path=str(tmp_path / name))], 0.0)


def test_questions_about_one_context_are_never_on_both_sides(tmp_path):
    records = [{"question": f"{n}?", "context": f"Context number {n % 20}.", "answers": []} for n in range(60)]
    found = read_questions(written(tmp_path / "a.jsonl", *records), 0.0)
    train, valid = split_questions(found, 0.2)
    assert len(valid.questions) == 12
    assert not {one.context for one in train.questions} & {one.context for one in valid.questions}
    assert warn_of_shared_contexts(train, valid) == []
    [said] = warn_of_shared_contexts(found, valid)
    assert said.startswith("12 of the questions measured on are about contexts that are also trained on (")
    with pytest.raises(ValueError, match=r"1 context cannot be divided.*name a validation file"):
        split_questions(read_questions(written(tmp_path / "b.jsonl", records[0]), 0.0), 0.1)
