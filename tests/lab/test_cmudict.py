"""The pronouncing dictionary: all its shapes are read alike, and no word is in two parts."""

import gzip

import pytest

from regard.lab import cmudict

SHAPES = {
    "cmudict.dict": "a AH0\na(2) EY1\nd'artagnan D AH0 R T AE1 NG Y AH0 N # foreign french\n3d TH R IY2 D IY2\n",
    "cmudict-0.7b": ";;; # remarks\nA  AH0\nA(1)  EY1\nD'ARTAGNAN  D AH0 R T AE1 NG Y AH0 N\n3D  TH R IY2 D IY2\n",
    "nltk": "A 1 AH0\nA 2 EY1\nD'ARTAGNAN 1 D AH0 R T AE1 NG Y AH0 N\n3D 1 TH R IY2 D IY2\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_the_file_gives_the_same_words(name, tmp_path):
    (tmp_path / name).write_text(SHAPES[name])
    found = cmudict.read(str(tmp_path / name))
    assert found.words == {"a": ["AH", "EY"], "d'artagnan": ["D AH R T AE NG Y AH N"]}
    assert found.passed_over == 1
    assert cmudict.read(str(tmp_path / name), stress=True).words["a"] == ["AH0", "EY1"]


def test_pronunciations_that_differ_by_stress_alone_are_one_without_it(tmp_path):
    (tmp_path / "x").write_text("abstract AE1 B S T R AE2 K T\nabstract(2) AE2 B S T R AE1 K T\n")
    assert cmudict.read(str(tmp_path / "x")).words == {"abstract": ["AE B S T R AE K T"]}


def test_words_that_are_not_utf8_are_left_out_and_spoil_nothing(tmp_path):
    (tmp_path / "x").write_bytes("DÉJÀ  D EY2 ZH AA1\nA  AH0\n".encode("latin-1"))
    found = cmudict.read(str(tmp_path / "x"))
    assert (list(found.words), found.passed_over) == (["a"], 1)


def test_no_word_is_in_two_parts_and_the_shares_are_those_promised(tmp_path):
    words = {f"{a}{b}{c}": ["B AH", "B AA"] for a in "abcdefghij" for b in "klmnopqrst" for c in "abcdefghijklmnopqrst"}
    counts = cmudict.write(cmudict.Dictionary(words, 0), tmp_path)
    parts = {
        name: [
            line.split("\t")[0]
            for line in gzip.decompress((tmp_path / f"{name}.tsv.gz").read_bytes()).decode().splitlines()
        ]
        for name in counts
    }
    assert {name: len(own) for name, own in parts.items()} == {name: lines for name, (_, lines) in counts.items()}
    sets = [set(own) for own in parts.values()]
    assert sum(map(len, sets)) == len(words) == len(set.union(*sets))
    assert counts["test"][0] / len(words) == pytest.approx(0.10, abs=0.02)
    assert counts["valid"][0] / len(words) == pytest.approx(0.02, abs=0.01)


def test_the_same_words_give_the_same_bytes(tmp_path):
    dictionary = cmudict.Dictionary({"a": ["AH"], "be": ["B IY"], "see": ["S IY"]}, 0)
    for name in ("one", "other"):
        cmudict.write(dictionary, tmp_path / name)
    assert (tmp_path / "one" / "train.tsv.gz").read_bytes() == (tmp_path / "other" / "train.tsv.gz").read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "x:1: 'hello' is not a word and its sounds"),
        ("a AH0\nhello world\n", "x:2"),
        ("\n", "has no words"),
        ("<html> <body>\n", "x:1"),
    ],
)
def test_a_file_that_is_no_dictionary_is_refused_by_its_place(text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text(text)
    with pytest.raises(ValueError, match=said):
        cmudict.read("x")
