"""Labelled texts as rows: each once in an epoch, padded to the longest of a row, a row known by its number."""

import numpy as np
import pytest
import torch

from regard import config
from regard.tasks.labels.batches import IGNORE, cut, prepare
from regard.tasks.labels.files import LabelledFile, LabelsConfig, TaggedFile, TagsConfig
from regard.tasks.labels.reading import ReadingConfig, learn, read, shown


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "a.tsv"
    chance = np.random.default_rng(0)
    lines = [" ".join(chance.choice(list("abcdefgh"), chance.integers(1, 40))) for _ in range(300)]
    path.write_text("".join(f"{line}\t{line[0]}\n" for line in lines))
    return LabelsConfig(train=(LabelledFile(path=str(path)),), tokens=128)


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"the/D cat{n}/N sees/V a/D dog/{'N' if n % 2 else '_'}\n" for n in range(100)))
    return TagsConfig(train=(TaggedFile(path=str(path)),), tokens=64)


def test_an_epoch_shows_every_text_once_with_its_label_and_rows_are_known_by_their_number(texts):
    found = prepare(texts, ReadingConfig())
    packing = found.train.packing(128, seed=3)
    seen = []
    for row in range(packing.rows):
        batch = found.train.batch(packing.row(row)[0])
        again = found.train.batch(packing.row(row)[0])
        assert torch.equal(batch.tokens, again.tokens)
        assert batch.tokens.numel() <= 128
        assert batch.tokens.shape[1] == batch.lengths.max()
        for number, tokens, length, label in zip(
            batch.examples, batch.tokens, batch.lengths, batch.labels, strict=True
        ):
            example = found.train.examples[number]
            assert found.tokenizer.decode(tokens[:length].tolist()) == example.words[0]
            assert (tokens[length:] == found.tokenizer.pad).all()
            assert found.classes[label] == example.labels[0]
            seen.append(int(number))
    assert sorted(seen) == list(range(len(found.train)))
    assert [b.examples.tolist() for b in found.train.every(128)] != [
        found.train.batch(packing.row(0)[0]).examples.tolist()
    ]
    assert [n for b in found.train.every(128) for n in b.examples.tolist()] == list(range(len(found.train)))


def test_halves_of_a_row_are_the_row(texts):
    batch = prepare(texts, ReadingConfig()).train.batch(np.arange(5))
    halves = batch.halves()
    assert torch.equal(torch.cat([half.tokens for half in halves]), batch.tokens)
    assert [len(half.labels) for half in halves] == [2, 3]
    assert len(halves[0].halves()[0].halves()) == 1


def test_words_have_a_label_and_those_that_are_not_judged_none(sentences):
    found = prepare(sentences, ReadingConfig())
    assert found.classes == ["D", "N", "V"]
    batch = found.train.batch(np.arange(len(found.train)))
    assert batch.labels.shape == batch.tokens.shape
    assert (batch.labels[:, :4] == torch.tensor([0, 1, 2, 0])).all()
    assert set(batch.labels[:, 4].tolist()) == {1, IGNORE}
    assert found.train.counts(3).sum() == (batch.labels != IGNORE).sum()


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_a_word_of_several_tokens_is_told_at_its_last(sentences, kind):
    found = prepare(sentences, ReadingConfig(kind=kind))
    [[(words, tokens)]] = cut(found.tokenizer, [["the", "cat11", "sees"]])
    assert len(tokens) == words[-1][1] + 1
    assert [number for number, _ in words] == [0, 1, 2]
    text = "".join(found.tokenizer.pieces(tokens[: words[1][1] + 1]))
    assert text.strip() == "the cat11"


def test_long_sentences_are_cut_between_words_and_no_label_is_lost(sentences):
    whole, short = prepare(sentences, ReadingConfig()), prepare(sentences, ReadingConfig(longest=2))
    assert short.train.lengths.max() == 2
    assert short.train.counts(3).tolist() == whole.train.counts(3).tolist()
    assert len(short.train) == 3 * len(whole.train)


def test_a_text_is_cleaned_cut_into_words_and_the_end_may_be_kept():
    how = ReadingConfig(
        lowercase=True, ignore=r"<br\s*/?>", pattern=r"\w+(?:'\w+)*|[^\w\s]", longest=4, keep="end", vocab=12
    )
    text = "It's GOOD.<br /><br />Really,\nreally good!"
    assert how.normal(text) == "it's good . really , really good !"
    own = learn([how.normal(text)] * 3, how)
    assert shown(own, text) == [",", "really", "good", "!"]
    [tokens], [unknown] = read(own, [text]), read(own, ["<br />"])
    assert len(tokens) == 4
    assert own.unknown not in tokens
    assert unknown == [own.unknown]
    assert read(own, ["zebra good"])[0][0] == own.unknown
    begin = own.prepared(ReadingConfig(**{**vars(how), "keep": "begin"}))
    assert shown(begin, text) == ["it's", "good", ".", "really"]


def test_settings_of_reading_that_cannot_be_are_told_in_one_line():
    for changes, said in (({"longest": 0}, "longest"), ({"pattern": "("}, "pattern is no regular expression")):
        with pytest.raises(ValueError, match=said):
            config.build(ReadingConfig, changes)


def test_nothing_is_kept_of_words_that_were_read():
    how = ReadingConfig(kind="characters")
    own = learn(["abc def"], how)

    def sizes() -> dict[str, int]:
        return {name: len(value) for name, value in vars(own).items() if hasattr(value, "__len__")}

    before = sizes()
    for block in range(3):
        cut(own, [[f"word{block}-{number}" for number in range(500)]])
    assert sizes() == before
