"""Checking data: every number against counting by hand, and what it says is left out is what training leaves out."""

import json
import re
import statistics
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import dedup
from regard.data.holdout import sentence
from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig
from regard.tasks.translation.check import check
from regard.tasks.translation.findings import Lengths, Report
from regard.tasks.translation.pairs import PairsConfig, prepare

SMALL = TokenizerConfig(vocab=320)
texts = st.sampled_from(["a", "A!", "b", "un chat", "un chat noir", "x" * 40, "deux chiens blancs", "c"])
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=40)


def written(path: Path, pairs) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def times(pair: tuple[str, str]) -> float:
    return max(map(len, pair)) / min(map(len, pair))


def lines(places: list[str]) -> list[int]:
    return [int(place.rpartition(":")[2]) for place in places]


@given(pairs, pairs, st.integers(1, 50))
def test_every_count_is_what_counting_by_hand_gives(tmp_path, train, valid, held):
    corpora = {"train": (Corpus(path=written(tmp_path / "a.tsv", train)),)}
    corpora["valid"] = (Corpus(path=written(tmp_path / "b.tsv", valid)),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup, "ROWS", held)  # on disk as in memory
        report = check(PairsConfig(**corpora), cache=tmp_path / "cache")
    numbered = list(enumerate(train, start=1))
    repeated = [line for line, pair in numbered if pair in train[: line - 1]]
    firsts = {source: next(target for one, target in train if one == source) for source, _ in train}
    several = [next((n for n, pair in numbered if pair[0] == one and pair[1] != firsts[one]), 0) for one in firsts]
    several = sorted(line for line in several if line)
    copies = [line for line, (source, target) in numbered if source == target]
    for finding, expected in ((report.repeated, repeated), (report.several, several), (report.copies, copies)):
        assert finding.count == len(expected)
        assert lines(finding.places) == expected[:5]
    assert report.over == {bound: sum(times(pair) > bound for pair in train) for bound in (2, 3, 5, 9)}
    worst = sorted((-times(pair), line) for line, pair in numbered if times(pair) > 2)[:5]
    assert [(-ratio, line) for ratio, line in worst] == [(ratio, lines([at])[0]) for ratio, at in report.extreme]
    met = {sentence(text) for pair in train for text in pair} & {sentence(text) for pair in valid for text in pair}
    for name, group in (("train", train), ("valid", valid)):
        shared = [line for line, pair in enumerate(group, start=1) if met & {sentence(text) for text in pair}]
        assert report.overlap[name].count == len(shared)
        assert lines(report.overlap[name].places) == shared[:5]
    assert report.lengths["target"]["characters"].counts == Counter(len(target) for _, target in train)
    assert report.lengths["source"]["words"].counts == Counter(len(source.split()) for source, _ in train)
    assert report.pairs == report.kept["train"] == len(train)
    assert report.kept["valid"] == len(valid)


@given(st.lists(st.integers(0, 50), min_size=1), st.floats(0.01, 1))
def test_lengths_in_few_numbers_are_those_of_the_list(lengths, share):
    found = Lengths(Counter(lengths))
    told = found.plain()
    assert (told["least"], told["most"]) == (min(lengths), max(lengths))
    assert told["mean"] == pytest.approx(statistics.mean(lengths), abs=0.01)
    assert told["median"] == statistics.median_low(lengths)
    assert sum(length <= found.at(share) for length in lengths) >= share * len(lengths)
    assert sum(length < found.at(share) for length in lengths) < share * len(lengths)


@settings(max_examples=12)
@given(
    pairs.filter(lambda pairs: len(set(pairs)) > 5),
    st.sampled_from([None, 1.5, 6.0]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from(["drop", "cut"]),
    st.booleans(),
)
def test_what_it_says_is_left_out_is_what_training_leaves_out(tmp_path, pairs, ratio, duplicates, overlong, named):
    path = written(tmp_path / "a.tsv", pairs)
    valid = (Corpus(path=written(tmp_path / "b.tsv", pairs[:3])),) if named else None
    filters = {"ratio": ratio, "duplicates": duplicates, "overlong": overlong}
    config = PairsConfig(train=(Corpus(path=path),), valid=valid, max_length=12, validation_share=0.1, **filters)
    report = check(config, SMALL, cache=tmp_path / "cache")
    if report.problems:
        with pytest.raises(ValueError, match=re.escape(report.problems[0])):
            prepare(config, SMALL, seed=0, cache=tmp_path / "cache")
        return
    prepared = prepare(config, SMALL, seed=0, cache=tmp_path / "cache").report
    (trained,) = prepared["train"]["corpora"]
    assert report.kept == {"train": prepared["train"]["pairs"], "valid": prepared["valid"]["pairs"]}
    told = {reason: {"count": found.count, "places": found.places} for reason, found in report.dropped.items()}
    assert told == trained["dropped"]
    assert {"count": report.cut.count, "places": report.cut.places} == trained["cut"]
    tokens = report.lengths["source"]["tokens"].counts
    if overlong == "drop":
        kept = {length: count for length, count in tokens.items() if length <= 12}
        assert sum(length * count for length, count in kept.items()) >= trained["tokens"]["source"]
    assert tokens.total() == trained["kept"] + trained["dropped"].get("longer than 12 tokens", {"count": 0})["count"]


def test_bad_lines_are_told_by_reason_with_their_places(tmp_path):
    (tmp_path / "a.fr").write_bytes(b"un\n\xff\ntrois\n\n" + b"x\n" * 6)
    (tmp_path / "a.en").write_bytes(b"one\ntwo\nth\0ree\nfour\n" + b"y\n" * 6)
    source, target = str(tmp_path / "a.fr"), str(tmp_path / "a.en")
    config = PairsConfig(train=(Corpus(source=source, target=target),), reject=0.5)
    report = check(config, cache=tmp_path)
    (corpus,) = report.corpora
    assert (corpus["read"], corpus["good"]) == (10, 7)
    assert corpus["refused"] == {
        "invalid UTF-8": {"count": 1, "places": [f"{source}:2"]},
        "with a NUL character": {"count": 1, "places": [f"{target}:3"]},
        "empty on one side": {"count": 1, "places": [f"{source}:4"]},
    }
    strict = check(PairsConfig(train=config.train), cache=tmp_path)
    assert strict.verdict.startswith("cannot be trained on: 3 of 10 lines")
    assert strict.repeated.count == 5, "what was seen is told all the same"


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("", "", "is empty"),
        ("a\nb\n", "a\n", "has 2 lines but .* has 1"),
        ("\n\n", "\n\n", "2 of 2 lines"),
        ("a\n", "b\n", "no pair is left for train"),
        ("a\n" * 5, "bbbbb\n" * 5, "no pair is left for train: 5 over 4 times as long on one side .*raise data.ratio"),
    ],
)
def test_what_would_stop_a_training_is_told(tmp_path, source, target, problem):
    (tmp_path / "a.fr").write_text(source)
    (tmp_path / "a.en").write_text(target)
    corpus = Corpus(source=str(tmp_path / "a.fr"), target=str(tmp_path / "a.en"))
    report = check(PairsConfig(train=(corpus,), ratio=4.0), cache=tmp_path)
    assert report.lines()[-1] == ("verdict", report.verdict)
    assert re.search(problem, report.verdict)
    json.dumps(report.plain())


def test_tags_are_counted_and_the_same_pair_under_another_tag_is_no_repeat(tmp_path):
    path = written(tmp_path / "a.tsv", [("chat", "cat"), ("cat", "cat"), ("chat", "cat")])
    train = (Corpus(path=path, tag="en"), Corpus(path=path, columns=(2, 1), tag="fr"))
    report = check(PairsConfig(train=train, valid=(Corpus(path=path, tag="en"),)), cache=tmp_path)
    assert report.tags == {"en": {"train": 3, "valid": 3}, "fr": {"train": 3, "valid": 0}}
    assert report.repeated.places == [f"{path}:3", f"{path}:3"]
    assert report.several.places == [f"{path}:2"]  # cat is chat or cat in French; into English nothing is in doubt
    assert ("tag fr", "3 train, 0 valid") in report.lines()


def test_the_report_is_plain_data_and_a_table_of_short_names(tmp_path):
    path = written(
        tmp_path / "a.tsv", [("un chat", "a cat")] * 3 + [("deux", "two very long words")] * 2 + [("x", "y")]
    )
    report = check(
        PairsConfig(train=(Corpus(path=path),), duplicates="drop", validation_size=1), SMALL, cache=tmp_path / "cache"
    )
    plain = json.loads(json.dumps(report.plain()))
    assert plain["repeated"] == {"count": 3, "share": 0.5, "places": [f"{path}:2", f"{path}:3", f"{path}:5"]}
    assert plain["dropped"]["repeating an earlier pair"]["count"] == 3
    assert plain["lengths"]["source"]["tokens"]["least"] >= 2
    assert plain["kept"] == {"train": 2, "valid": 1}
    table = dict(report.lines())
    assert all(len(name) <= 28 for name in table)
    assert table["repeated pairs"] == f"3: {path}:2, 3, 5"
    assert table["verdict"] == "can be trained on: 2 pairs for training, 1 for validation"


def test_the_tokenizer_of_a_check_is_the_one_training_uses(corpus, tmp_path):
    config = PairsConfig(train=(Corpus(source=str(corpus.source), target=str(corpus.target)),))
    check(config, SMALL, cache=tmp_path / "cache")
    (before,) = (tmp_path / "cache").iterdir()
    prepare(config, SMALL, seed=0, cache=tmp_path / "cache")
    assert len([path for path in (tmp_path / "cache").iterdir() if path.name.startswith("tokenizers")]) == 1
    assert before.exists()


def test_a_missing_file_is_an_error_and_not_a_report(tmp_path):
    with pytest.raises(ValueError, match="no file"):
        check(PairsConfig(train=(Corpus(path=str(tmp_path / "none.tsv")),)), cache=tmp_path)
    assert Report().pairs == 0
