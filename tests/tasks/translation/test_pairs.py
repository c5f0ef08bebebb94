"""Pairs: from files to packed rows; labels follow their inputs, nothing is lost, and the cache goes by content."""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import config
from regard.data.holdout import sentence
from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig
from regard.metrics.likelihood import IGNORE
from regard.tasks.translation import indexing
from regard.tasks.translation.pairs import PairBatch, Pairs, PairsConfig, Prepared, prepare

SMALL = TokenizerConfig(vocab=320)


def settings(corpus, **changes) -> PairsConfig:
    pairs = PairsConfig(
        train=(Corpus(source=str(corpus.source), target=str(corpus.target)),),
        batch_tokens=96,
        max_length=32,
        validation_share=0.05,
    )
    return replace(pairs, **changes)


@pytest.fixture
def prepared(corpus, tmp_path) -> Prepared:
    return prepare(settings(corpus), SMALL, seed=3, cache=tmp_path / "cache")


def sequences(tokens: torch.Tensor, row, pairs: int) -> list[list[int]]:
    return [tokens[row.offsets[n] : row.offsets[n + 1]].tolist() for n in range(pairs)]


def epoch(pairs: Pairs, *, fixed: bool = False) -> list[PairBatch]:
    return [pairs.batch(row, fixed=fixed) for row in range(pairs.rows)]


def entries(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()}


@pytest.mark.parametrize("fixed", [False, True])
def test_labels_are_the_decoder_input_one_step_ahead_and_end_with_eos(prepared, fixed):
    begin, end, pad = (getattr(prepared.target_tokenizer, name) for name in ("begin", "end", "pad"))
    for batch in epoch(prepared.train, fixed=fixed):
        count = len(batch.examples)
        assert int(batch.target_row.count) == int(batch.source_row.count) == count
        inputs = sequences(batch.target, batch.target_row, count)
        labels = sequences(batch.labels, batch.target_row, count)
        for read, said in zip(inputs, labels, strict=True):
            assert read[0] == begin
            assert read[1:] == said[:-1]
            assert said[-1] == end
        tail = int(batch.target_row.offsets[count])
        assert (batch.labels[tail:] == IGNORE).all()
        assert (batch.target[tail:] == pad).all()
        assert all(source[-1] == end for source in sequences(batch.source, batch.source_row, count))


def test_every_training_pair_comes_once_an_epoch_and_decodes_to_its_line(prepared, corpus):
    tokenizer = prepared.target_tokenizer
    seen = Counter()
    for batch in epoch(prepared.train):
        count = len(batch.examples)
        sources = sequences(batch.source, batch.source_row, count)
        targets = sequences(batch.labels, batch.target_row, count)
        for place, source, target in zip(prepared.train.places(batch.examples), sources, targets, strict=True):
            name, line = place.rsplit(":", 1)
            assert name == str(corpus.source)
            assert corpus.pairs[int(line) - 1] == (tokenizer.decode(source), tokenizer.decode(target))
            seen[int(line)] += 1
    assert len(seen) == len(prepared.train)
    assert set(seen.values()) == {1}


def test_fixed_rows_have_one_shape_and_the_same_content(prepared):
    for exact, fixed in zip(epoch(prepared.train), epoch(prepared.train, fixed=True), strict=True):
        assert exact.examples.equal(fixed.examples)
        assert len(fixed.source) == len(fixed.target) == len(fixed.labels) == prepared.train.tokens
        assert len(fixed.source_row.offsets) == len(fixed.target_row.offsets) == prepared.train.packing.segments + 1
        assert fixed.source[: len(exact.source)].equal(exact.source)
        assert fixed.labels[: len(exact.labels)].equal(exact.labels)
        for row in (fixed.source_row, fixed.target_row, exact.target_row):
            assert row.longest == fixed.source_row.longest
            assert int(row.lengths.max()) <= row.longest
        assert int(fixed.target_row.offsets[-1]) == prepared.train.tokens


def test_a_row_is_the_same_for_everybody_and_counts_on_across_epochs(prepared, corpus, tmp_path):
    again = prepare(settings(corpus), SMALL, seed=3, cache=tmp_path / "cache")
    for row in (0, 7, prepared.train.rows * 5 + 2):
        assert prepared.train.batch(row).source.equal(again.train.batch(row).source)
    first = [batch.examples.tolist() for batch in epoch(prepared.train)]
    second = [prepared.train.batch(row + prepared.train.rows).examples.tolist() for row in range(prepared.train.rows)]
    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second))
    other = prepare(settings(corpus), SMALL, seed=4, cache=tmp_path / "cache")
    assert first != [batch.examples.tolist() for batch in epoch(other.train)]


def test_no_held_out_sentence_is_left_in_training(prepared, corpus):
    valid = prepared.valid.texts()
    assert len(valid) == len(prepared.valid) > 1
    lines = [int(place.rsplit(":", 1)[1]) for place in prepared.train.places(range(len(prepared.train)))]
    training = {sentence(text) for line in lines for text in corpus.pairs[line - 1]}
    assert not training & {sentence(text) for pair in valid for text in pair[:2]}
    assert {(text.source, text.reference) for text in valid} < set(corpus.pairs)


def test_validation_texts_and_examples_have_the_same_numbers(prepared):
    texts = prepared.valid.texts()
    for batch in epoch(prepared.valid):
        sources = sequences(batch.source, batch.source_row, len(batch.examples))
        for example, source in zip(batch.examples.tolist(), sources, strict=True):
            assert prepared.source_tokenizer.decode(source) == texts[example].source


def test_what_is_held_out_depends_on_the_pairs_and_not_on_their_order(prepared, corpus, tmp_path):
    mixed = random.sample(corpus.pairs, len(corpus.pairs))
    for path, side in ((tmp_path / "b.fr", 0), (tmp_path / "b.en", 1)):
        path.write_text("".join(f"{pair[side]}\n" for pair in mixed), encoding="utf-8")
    other = settings(corpus, train=(Corpus(source=str(tmp_path / "b.fr"), target=str(tmp_path / "b.en")),))
    again = prepare(other, SMALL, seed=3, cache=tmp_path / "cache")
    assert sorted(again.valid.texts()) == sorted(prepared.valid.texts())
    assert again.source_tokenizer.json() == prepared.source_tokenizer.json()


def test_the_same_content_under_other_names_is_not_read_twice(prepared, corpus, tmp_path, monkeypatch):
    before = entries(tmp_path / "cache")
    copy = tmp_path / "copy.fr"
    copy.write_bytes(corpus.source.read_bytes())
    monkeypatch.setattr(indexing, "survey", None)  # whoever reads the lines again fails
    other = settings(corpus, train=(Corpus(source=str(copy), target=str(corpus.target)),))
    again = prepare(other, SMALL, seed=3, cache=tmp_path / "cache")
    assert entries(tmp_path / "cache") == before
    assert again.train.fingerprint == prepared.train.fingerprint
    assert again.train.places([0])[0].startswith(str(copy))


def test_other_content_or_settings_get_another_place_in_the_cache(prepared, corpus, tmp_path):
    base = settings(corpus)
    for change in (
        {"max_length": 20},
        {"validation_size": 2},
        {"overlong": "cut"},
        {"ratio": 3.0},
        {"duplicates": "drop"},
    ):
        prepare(replace(base, **change), SMALL, seed=3, cache=tmp_path / "cache")
    prepare(base, TokenizerConfig(vocab=330), seed=3, cache=tmp_path / "cache")
    corpus.target.write_text(corpus.target.read_text(encoding="utf-8").replace("cat", "Cat"), encoding="utf-8")
    prepare(base, SMALL, seed=3, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("pairs-*"))) == 8


def test_a_fingerprint_is_that_of_the_examples(prepared, corpus, tmp_path):
    base = settings(corpus)

    def fingerprint(**changes) -> str:
        return prepare(replace(base, **changes), SMALL, seed=4, cache=tmp_path / "cache").train.fingerprint

    half = replace(base.train[0], weight=0.5)
    alike = [{"batch_tokens": 200}, {"train": (half,)}, {"ratio": 100.0}, {"duplicates": "drop"}, {"overlong": "cut"}]
    assert {fingerprint(**change) for change in [{}, *alike]} == {prepared.train.fingerprint}
    other = [{"max_length": 20}, {"validation_size": 2}, {"ratio": 1.2}]
    with corpus.source.open("a") as source, corpus.target.open("a") as target:
        source.write("\xff\n")  # one more line that says nothing
        target.write("\n")
    assert fingerprint() == prepared.train.fingerprint
    text = corpus.target.read_text(encoding="utf-8")
    corpus.target.write_text(text.replace("cat", "bat", 1), encoding="utf-8")
    changed = {fingerprint(**change) for change in [{}, *other]}
    assert len(changed | {prepared.train.fingerprint}) == 5


def test_the_same_bytes_read_in_another_way_are_other_content(tmp_path):
    lines = [json.dumps({"source": f"un {n}", "target": f"one {n}"}) + f"\tnote {n}" for n in range(30)]
    for name in ("a.tsv", "a.jsonl"):
        (tmp_path / name).write_text("\n".join(lines))
    prepare(PairsConfig(train=(Corpus(path=str(tmp_path / "a.tsv")),)), SMALL, seed=0, cache=tmp_path / "cache")
    with pytest.raises(ValueError, match="30 invalid JSON"):
        prepare(PairsConfig(train=(Corpus(path=str(tmp_path / "a.jsonl")),)), SMALL, seed=0, cache=tmp_path / "cache")


def test_a_damaged_cache_is_rebuilt_with_the_same_content(prepared, corpus, tmp_path):
    before = prepared.train.batch(0).source.clone()
    (place,) = (tmp_path / "cache").glob("pairs-*")
    (place / "train" / "lines").unlink()
    (place / "train" / "lines").write_bytes(b"\0" * 8)
    again = prepare(settings(corpus), SMALL, seed=3, cache=tmp_path / "cache")
    assert again.train.batch(0).source.equal(before)
    assert again.train.fingerprint == prepared.train.fingerprint


def test_a_validation_corpus_is_used_whole_while_long_training_pairs_are_dropped(corpus, tmp_path):
    long = "mot " * 40
    with corpus.source.open("a", encoding="utf-8") as source, corpus.target.open("a", encoding="utf-8") as target:
        source.write(f"{long}\n")
        target.write("word\n")
    tsv = tmp_path / "valid.tsv.gz"
    tsv.write_bytes(gzip.compress(f"word\t{long}\tsomebody\none\tun\n".encode()))
    valid = (Corpus(path=str(tsv), columns=(2, 1)),)
    found = prepare(settings(corpus, valid=valid), SMALL, seed=0)
    assert len(found.train) == len(corpus.pairs)
    assert found.train.report["corpora"][0]["dropped"] == {
        "longer than 32 tokens": {"count": 1, "places": [f"{corpus.source}:181"]}
    }
    assert [text.source for text in found.valid.texts()] == [long.strip(), "un"]
    assert found.valid.report["corpora"][0]["cut"] == {"count": 1, "places": [f"{tsv}:1"]}
    (batch,) = epoch(found.valid)
    assert max(batch.source_row.lengths.tolist()) == 32
    cut = prepare(settings(corpus, valid=valid, overlong="cut"), SMALL, seed=0)
    assert len(cut.train) == len(corpus.pairs) + 1
    assert cut.train.shards.gather("source", np.array([180]))[0][-1] == cut.source_tokenizer.end


def test_several_corpora_are_mixed_by_weight_under_their_tags(corpus, tmp_path):
    lines = [json.dumps({"source": source, "target": target[::-1]}) for source, target in corpus.pairs[:40]]
    (tmp_path / "other.jsonl").write_text("\n".join(lines), encoding="utf-8")
    train = (
        Corpus(source=str(corpus.source), target=str(corpus.target), tag="en", weight=0.5),
        Corpus(path=str(tmp_path / "other.jsonl"), tag="ne", weight=2.0),
    )
    found = prepare(settings(corpus, train=train), SMALL, seed=0)
    assert set(found.source_tokenizer.tags) == {"en", "ne"}
    counts = Counter(example for batch in epoch(found.train) for example in batch.examples.tolist())
    for example, place in enumerate(found.train.places(range(len(found.train)))):
        assert counts[example] == 2 if "other" in place else counts[example] <= 1
    batch = found.train.batch(0)
    names = found.train.places(batch.examples)
    tags = batch.source[batch.source_row.offsets[:-1].long()].tolist()
    assert tags == [found.source_tokenizer.tag("ne" if "other" in name else "en") for name in names]
    assert {text.tag for text in found.valid.texts()} == {"en", "ne"}
    measured = Counter(example for batch in epoch(found.valid) for example in batch.examples.tolist())
    assert measured == Counter(range(len(found.valid)))  # weights are for training


def test_separate_tokenizers_and_those_of_a_model(corpus, prepared):
    apart = prepare(settings(corpus), replace(SMALL, joint=False), seed=0)
    assert apart.source_tokenizer.json() != apart.target_tokenizer.json()
    kept = (prepared.source_tokenizer, prepared.target_tokenizer)
    adapted = prepare(settings(corpus, validation_size=2), TokenizerConfig(kind="words"), seed=0, tokenizers=kept)
    assert (adapted.source_tokenizer, adapted.target_tokenizer) == kept
    assert prepared.source_tokenizer is prepared.target_tokenizer
    with pytest.raises(ValueError, match="unknown language tag 'en': there are none"):
        prepare(settings(corpus, train=(replace(settings(corpus).train[0], tag="en"),)), SMALL, seed=0, tokenizers=kept)


def test_a_model_with_one_language_translates_a_new_corpus_into_it(corpus):
    tagged = (replace(settings(corpus).train[0], tag="en"),)
    found = prepare(settings(corpus, train=tagged), SMALL, seed=0)
    kept = (found.source_tokenizer, found.target_tokenizer)
    again = prepare(settings(corpus), SMALL, seed=0, tokenizers=kept)
    assert [each.tag for each in again.data.train] == ["en"]
    assert again.train.fingerprint == found.train.fingerprint
    assert again.notes == ()


def test_the_language_of_a_new_corpus_is_guessed_from_its_translations_or_asked_for(corpus, tmp_path):
    there = settings(corpus).train[0]
    back = replace(there, source=there.target, target=there.source)
    found = prepare(settings(corpus, train=(replace(there, tag="en"), replace(back, tag="fr"))), SMALL, seed=0)
    kept = (found.source_tokenizer, found.target_tokenizer)
    for train, tag in ((there, "en"), (back, "fr")):
        again = prepare(settings(corpus, train=(train,), valid=(train,)), SMALL, seed=0, tokenizers=kept)
        assert {each.tag for each in (*again.data.train, *again.data.valid)} == {tag}
        assert again.notes == (f"{train.target}: translations into {tag}, guessed from the texts (--to chooses)",)
        assert again.summary[0] == again.notes[0]
    for side in ("one", "other"):
        (tmp_path / side).write_text("42\n43\n")
    numbers = replace(there, source=str(tmp_path / "one"), target=str(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"other: the model translates into en, fr.*give --to en, or data\.train\.tag"):
        prepare(settings(corpus, train=(numbers,)), SMALL, seed=0, tokenizers=kept)


def test_a_sample_for_the_tokenizer_is_chosen_by_content(corpus):
    few = replace(SMALL, sample=20)
    first = prepare(settings(corpus), few, seed=0).source_tokenizer
    assert first.json() != prepare(settings(corpus), SMALL, seed=0).source_tokenizer.json()


def test_reports_count_and_place_what_was_refused(corpus, tmp_path):
    lines = corpus.source.read_bytes().split(b"\n")
    lines[6] = b"\xff"
    corpus.source.write_bytes(b"\n".join(lines))
    found = prepare(settings(corpus), SMALL, seed=0, cache=tmp_path)
    (report,) = found.report["train"]["corpora"]
    assert report["read"] == 180
    assert report["refused"] == {"invalid UTF-8": {"count": 1, "places": [f"{corpus.source}:7"]}}
    assert report["kept"] == len(found.train) == 179 - sum(one["count"] for one in report["dropped"].values())
    assert found.report["vocab"]["source"] == found.source_tokenizer.vocab
    json.dumps(found.report)
    assert any("invalid UTF-8" in line for line in found.train.summary)
    with pytest.raises(ValueError, match=r"1 of 180 lines.*train\.fr:7.*data\.reject"):
        prepare(settings(corpus, reject=0.001), SMALL, seed=0, cache=tmp_path)


@pytest.mark.parametrize(
    ("source", "target", "complaint"),
    [
        ("", "", "is empty"),
        ("a\n", "a\nb\n", "1 line but .* 2"),
        ("\n\n", "\n\n", "2 of 2 lines"),
        ("a\n", "b\n", "no pair is left for train.*held out"),
        ("a b c d e f\n" * 9, "x\n" * 9, "no pair is left for train"),
    ],
)
def test_what_cannot_be_trained_on_is_an_error_and_leaves_no_cache(corpus, tmp_path, source, target, complaint):
    corpus.source.write_text(source)
    corpus.target.write_text(target)
    with pytest.raises(ValueError, match=complaint) as error:
        prepare(settings(corpus), SMALL, seed=0, cache=tmp_path / "cache")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").glob("pairs*"))


def test_a_corpus_of_texts_too_long_is_an_error_that_says_so(corpus, tmp_path):
    valid = (Corpus(source=str(corpus.source), target=str(corpus.target)),)
    with pytest.raises(ValueError, match=r"no pair is left for train: 180 longer than 4 tokens.*data\.max_length"):
        prepare(settings(corpus, valid=valid, max_length=4), SMALL, seed=0, cache=tmp_path / "cache")


def test_huge_texts_wait_for_no_others(prepared, tmp_path):
    tokenizers = (prepared.source_tokenizer, prepared.target_tokenizer)
    split = indexing.Split(tmp_path / "split", tokenizers, longest=32, cut=True)
    split.begin(Corpus(path="a.tsv"))
    for line in range(1, 4):
        split.add(line, "mot " * (indexing.WAITING // 8), "word")
    assert split.writer.examples == 2, "two of them are as much as is tokenised at once"
    split.flush()
    assert split.writer.examples == 3
    split.close()


def test_a_file_that_changes_while_it_is_read_is_an_error(corpus, tmp_path, monkeypatch):
    real = indexing.tokenizers

    def meddled(*arguments):
        with corpus.source.open("a") as file:
            file.write("x\n")
        return real(*arguments)

    monkeypatch.setattr(indexing, "tokenizers", meddled)
    with pytest.raises(ValueError):
        prepare(settings(corpus), SMALL, seed=0, cache=tmp_path / "cache")
    assert not entries(tmp_path / "cache")


def test_settings_are_read_from_a_plain_mapping_and_checked(corpus):
    mapping = {"train": {"source": "a.fr", "target": "a.en"}, "batch_tokens": 512}
    assert config.build(PairsConfig, mapping).train == (Corpus(source="a.fr", target="a.en"),)
    for change, complaint in [
        ({"max_length": 4096}, "max_length must not exceed batch_tokens"),
        ({"reject": 2}, "reject must be a number from 0 to 1, not 2"),
        ({"validation_size": 0}, "validation_size must be"),
        ({"train": []}, "train needs at least one corpus"),
        ({"valid": {"path": "b.tsv", "tag": "fr"}}, "some corpora have a tag"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            config.build(PairsConfig, {**mapping, **change})


def test_a_batch_moves_as_a_whole(prepared):
    batch = prepared.train.batch(0).to("meta")
    assert batch.source.is_meta
    assert batch.labels.is_meta
    assert batch.target_row.offsets.is_meta
    assert not batch.examples.is_meta
