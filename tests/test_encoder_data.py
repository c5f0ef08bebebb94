"""What the encoder learns from: nothing that is held out, in any domain, on either side, or inside a book."""

import gzip
import lzma
import runpy

import pytest

from tests.documents import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "make_encoder_data.py"))


def put(path, *lines) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def texts(path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_texts_are_there_once_and_nothing_held_out_is_among_them(tmp_path):
    pairs, out = tmp_path / "en-fr", tmp_path / "encoder"
    put(pairs / "tatoeba" / "train.tsv.gz", "Go on.\tContinue.", "Go on.\tVas-y.", "Stop here!\tArrête ici !")
    put(pairs / "tatoeba" / "valid.tsv.gz", "The key is lost.\tLa clé est perdue.")
    put(pairs / "tatoeba" / "test.tsv.gz", "He slept.\tIl dormait.\tsomebody")
    put(pairs / "games" / "test.tsv.gz", "You win.\tVous gagnez.")
    put(pairs / "common-voice" / "train.en.txt.gz", "He slept!", "You win", "It rains.", "Go on.")
    book = tmp_path / "book.txt.xz"
    long = "A sentence of a book that goes on for quite a while, as they do. " * 9
    with lzma.open(book, "wt") as file:
        file.write(f"One day\nit was cold. He slept. “It rains,”\nshe said.\n\n{long}\n")
    SCRIPT["make"](pairs, out, {"en": [book], "fr": []})
    english = texts(out / "en.txt.gz")
    assert english[:4] == ["Go on.", "Stop here!", "It rains.", 'One day it was cold. "It rains," she said.']
    assert all(len(each) < 400 for each in english)
    assert " ".join(english[4:]) == long.strip()
    assert texts(out / "fr.txt.gz") == ["Continue.", "Vas-y.", "Arrête ici !"]
    assert texts(out / "valid.fr.txt.gz") == ["La clé est perdue."]
    assert texts(out / "test.en.txt.gz") == ["He slept."], "of domains that something is learnt from"


def test_a_folder_without_pairs_and_a_line_without_a_tab_are_named(tmp_path):
    with pytest.raises(SystemExit, match=r"no DOMAIN/train\.tsv\.gz there"):
        SCRIPT["make"](tmp_path, tmp_path / "out", {"en": [], "fr": []})
    put(tmp_path / "a" / "train.tsv.gz", "one\tun", "two")
    with pytest.raises(SystemExit, match=r"train.tsv.gz:2: no tab between two texts"):
        SCRIPT["make"](tmp_path, tmp_path / "out", {"en": [], "fr": []})
    (tmp_path / "book.txt").write_bytes("Le curé dormait.".encode("latin-1"))
    with pytest.raises(SystemExit, match=r"book\.txt: no UTF-8 at byte 6.*iconv"):
        list(SCRIPT["passages"](tmp_path / "book.txt", set()))


def test_words_in_common_find_what_shares_them_and_chance_finds_nothing(tmp_path):
    controls = runpy.run_path(str(ROOT / "scripts" / "embedding_controls.py"))
    names = [f"name{n}" for n in range(80)]
    (tmp_path / "pairs.tsv").write_text("".join(f"the old {name}\tle vieux {name}\n" for name in names))
    shared, drawn = controls["scored"](tmp_path / "pairs.tsv", (1, 2), None, {})
    assert shared.details["recall_1"] == 1
    assert drawn.details["recall_1"] < 0.2
    lines = (f"{name}\t{name} {names[n // 2]}\t{n % 2}\n" for n, name in enumerate(names))
    (tmp_path / "rated.tsv").write_text("".join(lines))
    shared, drawn = controls["scored"](tmp_path / "rated.tsv", (1, 2), 3, {})
    assert abs(drawn.metrics["Spearman"]) < 0.5
