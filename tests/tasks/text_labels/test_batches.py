"""Labelled texts as rows: each once in an epoch, padded to the longest of a row, a row known by its number."""

import numpy as np
import pytest
import torch

from regard import config
from regard.metrics.likelihood import IGNORE
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_encoders.text_tokenizer import (
    TextTokenizerConfig,
    encode_truncated,
    readable_tokens,
    train_tokenizer,
)
from regard.tasks.text_labels import preparation
from regard.tasks.text_labels.files import LabelsConfig, TagsConfig
from regard.tasks.text_labels.preparation import prepare
from regard.tasks.text_labels.sentence_chunks import encode_sentences
from regard.tasks.text_labels.tagged_file import TaggedFile


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "a.tsv"
    chance = np.random.default_rng(0)
    lines = [" ".join(chance.choice(list("abcdefgh"), chance.integers(1, 40))) for _ in range(300)]
    path.write_text("".join(f"{line}\t{line[0]}\n" for line in lines))
    return LabelsConfig(train=(LabelledFile(path=str(path)),), batch_tokens=128)


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"the/D cat{n}/N sees/V a/D dog/{'N' if n % 2 else '_'}\n" for n in range(100)))
    return TagsConfig(train=(TaggedFile(path=str(path)),), batch_tokens=64)


def lined(batch):
    """The tokens of each text of a row."""
    lengths = batch.row.lengths[: len(batch.examples)].tolist()
    return batch.tokens[: sum(lengths)].split(lengths)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_an_epoch_shows_every_text_once_with_its_label_and_rows_are_known_by_their_number(texts, padded, fixed):
    found = prepare(texts, TextTokenizerConfig())
    packing = found.train.packing(128, seed=3, padded=padded)
    shape = packing if fixed else None
    seen, shapes = [], set()
    for row in range(packing.rows):
        batch, again = (found.train.batch(*packing.row(row), fixed=shape) for _ in range(2))
        assert torch.equal(batch.tokens, again.tokens)
        assert len(batch.tokens) <= 128
        if padded:
            assert len(batch.examples) * batch.row.longest <= 128
        shapes.add((len(batch.tokens), len(batch.row.offsets), batch.row.longest, batch.row.most, len(batch.labels)))
        assert (batch.tokens[int(batch.row.filled) :] == found.tokenizer.pad).all()
        assert (batch.labels[len(batch.examples) :] == IGNORE).all()
        for number, tokens, label in zip(batch.examples.tolist(), lined(batch), batch.labels.tolist(), strict=False):
            [text] = found.train.texts[number]
            assert found.tokenizer.decode(tokens.tolist()) == text
            assert found.classes[label] == text[0]
            seen.append(number)
    assert sorted(seen) == list(range(len(found.train)))
    if fixed:
        assert len(shapes) == len(packing.groups), "one shape for every bound"


def test_packed_rows_hold_more_texts_than_padded_ones(texts):
    train = prepare(texts, TextTokenizerConfig()).train
    assert train.packing(512, seed=0).rows < train.packing(512, seed=0, padded=True).rows


def test_halves_of_a_row_are_the_row(texts):
    train = prepare(texts, TextTokenizerConfig()).train
    packing = train.packing(128, seed=0)
    batch = train.batch(np.arange(5), packing.row(0)[1])
    halves = train.split_batch(batch)
    assert torch.equal(torch.cat([half.tokens for half in halves]), batch.tokens)
    assert [len(half.labels) for half in halves] == [2, 3]
    assert len(train.split_batch(train.split_batch(halves[0])[0])) == 1


def test_words_have_a_label_and_those_that_are_not_judged_none(sentences):
    found = prepare(sentences, TextTokenizerConfig())
    assert found.classes == ["D", "N", "V"]
    batch = found.train.batch(np.arange(len(found.train)))
    assert batch.labels.shape == batch.tokens.shape
    labels = batch.labels.reshape(-1, 5)
    assert (labels[:, :4] == torch.tensor([0, 1, 2, 0])).all()
    assert set(labels[:, 4].tolist()) == {1, IGNORE}
    assert found.train.count_labels(3).sum() == (batch.labels != IGNORE).sum()


def test_what_was_read_once_is_found_by_content_wherever_it_lies(texts, tmp_path, monkeypatch):
    home = tmp_path / "cache"
    first = prepare(texts, TextTokenizerConfig(), cache=home)
    moved = tmp_path / "elsewhere" / "b.tsv"
    moved.parent.mkdir()
    moved.write_bytes((tmp_path / "a.tsv").read_bytes())
    other = LabelsConfig(train=(LabelledFile(path=str(moved)),), batch_tokens=64)
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "read_examples", lambda *_: pytest.fail("read again"))
        again = prepare(other, TextTokenizerConfig(), cache=home)
        with pytest.raises(pytest.fail.Exception):
            prepare(other, TextTokenizerConfig(lowercase=True), cache=home)
    for side in ("train", "valid"):
        one, two = getattr(first, side), getattr(again, side)
        for name in ("tokens", "starts", "labels", "origins", "texts"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
        assert two.place(3) == one.place(3).replace(str(tmp_path / "a.tsv"), str(moved))
    assert (again.classes, again.tokenizer.how) == (first.classes, first.tokenizer.how)
    assert encode_truncated(again.tokenizer, ["a b c"]) == encode_truncated(first.tokenizer, ["a b c"])
    assert again.report["train"]["fingerprint"] == first.report["train"]["fingerprint"]
    assert [line.replace(str(moved), str(tmp_path / "a.tsv")) for line in again.summary] == first.summary


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_a_word_of_several_tokens_is_told_at_its_last(sentences, kind):
    found = prepare(sentences, TextTokenizerConfig(kind=kind))
    [[(words, tokens)]] = encode_sentences(found.tokenizer, [["the", "cat11", "sees"]])
    assert len(tokens) == words[-1][1] + 1
    assert [number for number, _ in words] == [0, 1, 2]
    text = "".join(found.tokenizer.pieces(tokens[: words[1][1] + 1]))
    assert text.strip() == "the cat11"


def test_long_sentences_are_cut_between_words_and_no_label_is_lost(sentences):
    whole, short = prepare(sentences, TextTokenizerConfig()), prepare(sentences, TextTokenizerConfig(max_length=2))
    assert short.train.lengths.max() == 2
    assert short.train.count_labels(3).tolist() == whole.train.count_labels(3).tolist()
    assert len(short.train) == 3 * len(whole.train)


def test_a_text_is_cleaned_cut_into_words_and_the_end_may_be_kept():
    how = TextTokenizerConfig(
        lowercase=True, ignore=r"<br\s*/?>", pattern=r"\w+(?:'\w+)*|[^\w\s]", max_length=4, keep="end", vocab=12
    )
    text = "It's GOOD.<br /><br />Really,\nreally good!"
    assert how.normal(text) == "it's good . really , really good !"
    own = train_tokenizer([how.normal(text)] * 3, how)
    assert readable_tokens(own, text) == [",", "really", "good", "!"]
    [tokens], [unknown] = encode_truncated(own, [text]), encode_truncated(own, ["<br />"])
    assert len(tokens) == 4
    assert own.unknown not in tokens
    assert unknown == [own.unknown]
    assert encode_truncated(own, ["zebra good"])[0][0] == own.unknown
    begin = own.with_text_config(TextTokenizerConfig(**{**vars(how), "keep": "begin"}))
    assert readable_tokens(begin, text) == ["it's", "good", ".", "really"]


def test_settings_of_reading_that_cannot_be_are_told_in_one_line():
    for changes, said in (({"max_length": 0}, "max_length"), ({"pattern": "("}, "pattern is no regular expression")):
        with pytest.raises(ValueError, match=said):
            config.build(TextTokenizerConfig, changes)


def test_nothing_is_kept_of_words_that_were_read():
    how = TextTokenizerConfig(kind="characters")
    own = train_tokenizer(["abc def"], how)

    def sizes() -> dict[str, int]:
        return {name: len(value) for name, value in vars(own).items() if hasattr(value, "__len__")}

    encode_sentences(own, [["word"]])  # a table of the characters it knows is made when it is first needed
    before = sizes()
    for block in range(3):
        encode_sentences(own, [[f"word{block}-{number}" for number in range(500)]])
    assert sizes() == before
