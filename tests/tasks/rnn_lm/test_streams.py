"""Running text becomes one stream; rows are pure functions of their number and go on from one another."""

import gzip
import json

import numpy as np
import pytest

from regard import config
from regard.data.readers import TextFile
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.rnn_lm.streams import Lanes, Stream, StreamConfig, prepare, read

CHARACTERS = UnitsConfig()


def files(*paths) -> tuple[TextFile, ...]:
    return tuple(TextFile(path=str(path)) for path in paths)


def stream(count: int) -> Stream:
    return Stream(np.arange(10, 10 + count, dtype=np.int32), count, count, before=2)


def test_a_row_is_a_pure_function_of_its_number_and_the_next_goes_on_from_it():
    lanes = Lanes(stream(103), lanes=4, window=7)
    assert (lanes.length, lanes.rows) == (25, 4)
    rows = [lanes.row(number) for number in range(lanes.rows)]
    again = lanes.row(2 + 5 * lanes.rows)
    assert np.array_equal(again.inputs, rows[2].inputs)
    assert np.array_equal(again.labels, rows[2].labels)
    labels = np.concatenate([row.labels for row in rows], 1)
    inputs = np.concatenate([row.inputs for row in rows], 1)
    assert np.array_equal(labels.ravel(), np.arange(10, 110))  # each token once, lane after lane
    assert np.array_equal(inputs[:, 1:], labels[:, :-1])
    assert inputs[:, 0].tolist() == [2, *labels[:-1, -1]]


def test_a_text_shorter_than_a_window_is_one_row():
    lanes = Lanes(stream(3), lanes=1, window=100)
    assert lanes.rows == 1
    assert lanes.row(0).labels.tolist() == [[10, 11, 12]]


def test_the_last_characters_are_held_out_even_within_a_line(tmp_path):
    text = "first line\nsecond line\n\nfourth\n"
    (tmp_path / "text.txt").write_text(text)
    texts = prepare(StreamConfig(train=files(tmp_path / "text.txt"), validation_share=0.5), CHARACTERS)
    cut = int(len(text) * 0.5)
    assert texts.tokenizer.decode_lines(texts.train.tokens.tolist()) == text[:cut]
    assert texts.valid.characters == len(text) - cut == len(texts.valid.tokens)
    assert "h" not in texts.tokenizer.decode_lines(texts.valid.tokens.tolist())  # never seen in what is learnt from
    assert texts.valid.unknown == 3
    assert "3 are <unk>" in texts.summary[-1]


def test_files_are_read_as_one_and_measured_on_apart(tmp_path):
    (tmp_path / "a.txt").write_bytes("un\u2028deux\r\ntrois".encode())
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(b"quatre\n")
    (tmp_path / "valid.txt").write_text("cinq\n")
    names = [str(tmp_path / name) for name in ("a.txt", "b.txt.gz", "valid.txt")]
    texts = prepare(StreamConfig(train=files(*names[:2]), valid=files(names[2])), UnitsConfig(kind="words"))
    assert texts.train.characters == len("un\u2028deux\ntrois\nquatre\n")
    assert texts.valid.words == 2
    assert read(names[2], texts.tokenizer).tokens.tolist() == texts.valid.tokens.tolist()


def test_bad_lines_are_counted_with_their_places_and_too_many_stop(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"good\n" * 50 + b"\xff\xfe\n" + b"nul\0\n" + b"good\n" * 48)
    texts = prepare(StreamConfig(train=files(path), reject=0.5), CHARACTERS)
    assert any("text.txt:51" in line and "invalid UTF-8" in line for line in texts.summary)
    assert any("text.txt:52" in line for line in texts.summary)
    with pytest.raises(ValueError, match=r"2 of 100 lines .*text\.txt:51.*data\.reject"):
        prepare(StreamConfig(train=files(path)), CHARACTERS)


def test_a_text_may_stand_in_the_recipe_and_be_measured_on_itself():
    texts = prepare(StreamConfig(text="masse", validation_share=0.0), CHARACTERS)
    assert texts.train.tokens.tolist() == texts.valid.tokens.tolist()
    assert texts.tokenizer.decode_lines(texts.train.tokens.tolist()) == "masse\n"


def test_units_that_are_known_are_used_as_they_are():
    first = prepare(StreamConfig(text="masse", validation_share=0.0), CHARACTERS)
    second = prepare(StreamConfig(text="messe", validation_share=0.0), CHARACTERS, first.tokenizer)
    assert second.tokenizer.json() == first.tokenizer.json()
    assert second.tokenizer.decode_lines(second.train.tokens.tolist()) == "messe\n"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "either train"),
        ({"text": "a", "batch_size": 0}, "batch_size must be a whole number from 1"),
        ({"text": "a", "validation_share": 1.0}, "validation_share must be a number of at least 0 and below 1"),
        ({"train": files("no-such-file.txt")}, "no file no-such-file.txt"),
        ({"text": "", "validation_share": 0.9}, "has 1 characters, of which none is left"),
        ({"text": "\n\n", "validation_share": 0.0}, "no characters that occur 1 times"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(settings, said):
    with pytest.raises(ValueError, match=said) as error:
        prepare(config.build(StreamConfig, settings), CHARACTERS)
    assert "\n" not in str(error.value)


def test_texts_of_json_lines_are_read_line_by_line_and_bad_ones_told_with_their_place(tmp_path):
    lines = [json.dumps({"body": {"text": text}}) for text in ("un\ndeux", "trois")]
    (tmp_path / "a.jsonl").write_text("\n".join([lines[0], "{", lines[1]]) + "\n")
    file = TextFile(path=str(tmp_path / "a.jsonl"), field="body.text")
    texts = prepare(StreamConfig(train=(file,), validation_share=0.0, reject=0.5), CHARACTERS)
    assert texts.tokenizer.decode_lines(texts.train.tokens.tolist()) == "un\ndeux\ntrois\n"
    with pytest.raises(ValueError, match=r"1 invalid JSON \(.*a\.jsonl:2\)"):
        prepare(StreamConfig(train=(file,), validation_share=0.0), CHARACTERS)
    with pytest.raises(ValueError, match="without a text named text"):
        prepare(StreamConfig(train=files(tmp_path / "a.jsonl")), CHARACTERS)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt is empty"):
        prepare(StreamConfig(train=files(tmp_path / "empty.txt")), CHARACTERS)
