"""Shares of test files that were trained on, estimated from a bounded sample of digests."""

import json

import pytest

from regard.data.training_sample import KEPT, TrainingSample


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def line(number, what="training"):
    return f"This is sentence {number} of the {what} text."


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_share_of_a_file_is_estimated_from_a_sample_of_bounded_size(share, tmp_path):
    train = write(tmp_path / "train.txt", map(line, range(6 * KEPT)))
    sample = TrainingSample.parse(json.loads(json.dumps(TrainingSample.of([train], "lines").plain())))
    assert len(sample.keys) == KEPT
    known = [line(6 * number) for number in range(round(share * 4000))]
    test = write(tmp_path / "test.txt", [*known, *(line(n, "other") for n in range(4000 - len(known)))])
    found = sample.compare(test)
    assert found.total == 4000
    assert 0 < found.compared < 1000
    assert found.shared / found.compared == pytest.approx(share, abs=0.06)
    assert share in (0.0, 1.0) or found.describe().startswith("about 2")


def test_the_sample_of_several_files_does_not_depend_on_their_order_or_on_how_they_are_parted(tmp_path):
    lines = [line(number) for number in range(2 * KEPT)]
    one, two = write(tmp_path / "a.txt", lines[: KEPT // 2]), write(tmp_path / "b.txt", lines[KEPT // 2 :])
    whole = TrainingSample.of([write(tmp_path / "c.txt", lines)], "lines")
    after = TrainingSample.of([two], "lines", TrainingSample.of([one], "lines"))
    assert whole.keys.tolist() == after.keys.tolist() == TrainingSample.of([two, one], "lines").keys.tolist()


def test_tagged_sentences_are_compared_as_sentences_not_word_by_word(tmp_path):
    train = write(tmp_path / "train.conll", ["the\tDET", "cat\tNOUN", "", "a\tDET", "dog\tNOUN", ""])
    test = write(tmp_path / "test.conll", ["the\tDET", "dog\tNOUN", "", "the\tDET", "cat\tNOUN"])
    found = TrainingSample.of([train], "sentences").compare(test)
    assert (found.shared, found.compared, found.total) == (1, 2, 2)
    assert found.describe() == "1 of its 2 sentences"


def test_questions_in_one_document_of_json_are_compared_one_by_one(tmp_path):
    def squad(name, numbers):
        questions = [{"question": f"What is the number {n}?", "id": f"a{n}"} for n in numbers]
        (tmp_path / name).write_text(json.dumps({"data": [{"title": "Numbers", "qas": questions}]}, indent=1))
        return str(tmp_path / name)

    found = TrainingSample.of([squad("train.json", range(100))], "lines").compare(squad("test.json", range(50, 150)))
    assert (found.shared, found.total) == (50, 100)


@pytest.mark.parametrize("damaged", [None, {}, {"unit": "lines", "digests": "!"}, {"unit": "x", "digests": ""}, [1]])
def test_a_record_that_is_none_is_passed_over(damaged):
    assert TrainingSample.parse(damaged) is None
