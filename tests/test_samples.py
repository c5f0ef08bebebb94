"""The pairs that ship with Regard are what their attribution says they are."""

import gzip
import re
import runpy
import unicodedata
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image

from regard.data.holdout import sentence

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "regard" / "samples"
PARTS = {"train": 15_115, "valid": 300, "test": 500}
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "make_sample.py"))
Pair, select, split, words, write = (SCRIPT[name] for name in ("Pair", "select", "split", "words", "write"))


def pairs(part: str) -> list:
    """The pairs of one part."""
    text = gzip.decompress((SAMPLES / f"tatoeba-fra-eng.{part}.tsv.gz").read_bytes()).decode("utf-8")
    assert text.endswith("\n")
    return [Pair(*line.split("\t")) for line in text.split("\n")[:-1]]


@pytest.mark.parametrize("part", PARTS)
def test_every_line_is_a_short_pair_with_its_attribution(part):
    lines = pairs(part)
    assert len(lines) == PARTS[part]
    for english, french, attribution in lines:
        assert 1 <= len(english.split()) <= 5
        assert french.strip()
        assert attribution.startswith("CC-BY 2.0 (France) Attribution: tatoeba.org #")
        assert attribution.count("#") == 2


@pytest.mark.parametrize("part", PARTS)
def test_the_text_is_nfc_without_control_characters(part):
    for pair in pairs(part):
        assert all(unicodedata.is_normalized("NFC", field) for field in pair)
        assert not any(unicodedata.category(character) == "Cc" for field in pair for character in field)


def test_no_part_repeats_a_sentence_of_another_in_either_language():
    for one, other in combinations(PARTS, 2):
        for side in ("english", "french"):
            mine, theirs = ({words(getattr(pair, side)) for pair in pairs(part)} for part in (one, other))
            assert not mine & theirs, (one, other, side)


def test_an_english_sentence_has_one_translation():
    sentences = [words(pair.english) for part in PARTS for pair in pairs(part)]
    assert len(set(sentences)) == len(sentences)


def test_the_counts_in_the_attribution_are_those_of_the_files():
    text = (SAMPLES / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for part, count in PARTS.items():
        assert f"| `tatoeba-fra-eng.{part}.tsv.gz` | {count:,} |" in text


def test_the_photographs_are_small_and_attributed():
    text = (SAMPLES / "ATTRIBUTION.md").read_text(encoding="utf-8")
    paths = sorted((SAMPLES / "photographs").iterdir())
    assert [path.name for path in paths] == ["cat.jpg", "cup.jpg", "rocket.jpg"]
    for path in paths:
        assert f"`{path.name}`" in text
        with Image.open(path) as picture:
            assert min(picture.size) == 256
            assert not picture.getexif()
        assert path.stat().st_size < 40_000


def test_the_whole_sample_is_small():
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 1_000_000


def test_choosing_again_from_what_was_chosen_changes_nothing():
    everything = [pair for part in PARTS for pair in pairs(part)]
    again = select(reversed(everything), common=10_000)
    assert set(again) == set(everything)
    assert split(again, {"test": 500, "valid": 300}) == {part: pairs(part) for part in ("train", "test", "valid")}


def test_linked_sentences_travel_together():
    chain = [
        Pair("A b.", "X y.", "#"),
        Pair("C d.", "x Y!", "#"),
        Pair("C, d?", "Z w.", "#"),
        Pair("E f.", "V u.", "#"),
    ]
    parts = split(chain, {"test": 2})
    assert parts == {"train": sorted(chain[:3], key=SCRIPT["digest"]), "test": [chain[3]]}


def test_a_long_or_rare_sentence_is_left_out():
    common = [Pair("Go on.", "Va donc.", "#"), Pair("Go on, go.", "Va, va donc.", "#")]
    long, rare = Pair("Go on go on go on.", "Va donc.", "#"), Pair("Go zebra.", "Va donc.", "#")
    assert set(select([*common, long, rare], common=2)) == set(common)


def test_the_same_pairs_give_the_same_file(tmp_path):
    write(tmp_path / "one.gz", pairs("test"))
    write(tmp_path / "two.gz", pairs("test"))
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()) == gzip.decompress(
        (SAMPLES / "tatoeba-fra-eng.test.tsv.gz").read_bytes()
    )


def test_the_everyday_sentences_are_two_hundred_of_our_own():
    lines = (SAMPLES / "everyday.tsv").read_text(encoding="utf-8").splitlines()
    both = [tuple(line.split("\t")) for line in lines]
    assert len(both) == len({sentence(english) for english, _ in both}) == len({sentence(french) for _, french in both})
    assert len(both) == 200
    known = {sentence(text) for part in PARTS for pair in pairs(part) for text in (pair.english, pair.french)}
    for english, french in both:
        assert 4 <= len(english.split()) <= 20
        assert 4 <= len(re.findall(r"[\w'-]+", french)) <= 20
        assert not known & {sentence(english), sentence(french)}
        assert not re.search(r"[^\u202f][?!;]|[^\u00a0]:|[’“”]", french), "French sets these signs apart"
        assert all(unicodedata.is_normalized("NFC", text) for text in (english, french))
