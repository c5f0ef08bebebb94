"""What the English-French models learn from shares no sentence with what they are measured on, in any source."""

import gzip
import json
import os
import random
import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.desk import SAMPLE
from tests.documents import ROOT

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "scripts"))
    CORPUS = runpy.run_path(str(ROOT / "scripts" / "make_corpus.py"))
    SPLIT = runpy.run_path(str(ROOT / "scripts" / "split_pairs.py"))
DATA = Path(os.environ.get("REGARD_DATA", "data"))
TATOEBA = [tuple(line.split("\t")) for line in gzip.decompress(SAMPLE.read_bytes()).decode("utf-8").splitlines()]
TATOEBA += [(f"So to say {n}", line[0]) for n, line in enumerate(TATOEBA[:100])]  # French that is English elsewhere
EUROPARL = [(f"Motion {n} was carried.", f"La motion {n} est adoptée.") for n in range(60)]
HELD = [line[:2] for part in ("valid", "test") for line in SPLIT["split"](TATOEBA, valid=20, test=20)[part]]


def laid(folder: Path, *, seed: int | None = None) -> tuple[Path, Path]:
    """Sources that share sentences in every way: a held-out one elsewhere, across sides, through a third pair."""
    (english, french), (other, _), (_, third) = HELD[0], HELD[1], HELD[25]
    tables = {
        "europarl-direct": [*EUROPARL, (english.upper(), "Autre chose"), ("Carried away", french + " !")],
        "python-docs-fr": [(f"See page {n}", f"Voir la page {n}") for n in range(60)]
        + [("Another thing", "Autre chose")],
        "libreoffice-help": [(third, "Encore une"), ("motion 3 was carried", "Voir la page 7."), ("Cell", "Cellule")],
        "wesnoth": [(f"Knight {n}!", f"Chevalier {n}\xa0!") for n in range(30)] + [("See page 8", "Page 8")],
    }
    lines = {folder / "others" / f"{name}.tsv.gz": ["\t".join(pair) for pair in own] for name, own in tables.items()}
    lines[folder / "fra.txt.gz"] = ["\t".join(line) for line in TATOEBA]
    spoken = [f"  {other}", "A sentence of nobody else", *(pair[0] for pair in EUROPARL), "Knight 5", "Knight 6"]
    lines[folder / "others" / "common-voice-en.txt.gz"] = spoken
    lines[folder / "others" / "common-voice-fr.txt.gz"] = [pair[1] for pair in (*HELD[:3], *EUROPARL)]
    (folder / "others").mkdir(parents=True)
    for path, own in lines.items():
        if seed is not None:
            random.Random(seed).shuffle(own)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in own).encode()))
    return folder / "fra.txt.gz", folder / "others"


def unpacked(folder: Path) -> dict[str, list[list[str]]]:
    """The columns of every file of a folder."""
    return {
        path.relative_to(folder).as_posix(): [
            line.split("\t") for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
        ]
        for path in sorted(folder.rglob("*.gz"))
    }


def bare(text: str) -> str:
    """A text without case, spaces and punctuation."""
    return re.sub(r"\W+", "", text.casefold()) or text


def apart(files: dict[str, list[list[str]]]) -> bool:
    """Whether no side of a line that is measured on is a side of one that is learnt from."""
    sides: dict[bool, set[str]] = {True: set(), False: set()}
    for name, lines in files.items():
        sides["/train" in name].update(bare(text) for line in lines for text in line[:2])
    return sides[True].isdisjoint(sides[False])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that are made of the small sources."""
    place = tmp_path_factory.mktemp("corpora")
    CORPUS["make"](*laid(place / "sources"), place / "en-fr")
    return place / "en-fr"


def test_no_held_out_sentence_is_in_any_training_file_on_either_side(made):
    files = unpacked(made)
    assert apart(files)
    assert all(files[f"{name}/{part}.tsv.gz"] for name in ("europarl", "documentation") for part in ("valid", "test"))
    assert len(files["europarl/train.tsv.gz"]) >= 40, "what is trained on was thrown away"
    assert ["A sentence of nobody else"] in files["common-voice/train.en.txt.gz"]
    assert not CORPUS["check"](made)


def test_what_tatoeba_holds_out_is_what_it_was_alone(made):
    files = unpacked(made)
    count = len(SPLIT["groups"](TATOEBA)) // CORPUS["MOST"]
    alone = SPLIT["split"](TATOEBA, valid=count, test=count)
    for part in ("valid", "test"):
        assert [tuple(line) for line in files[f"tatoeba/{part}.tsv.gz"]] == alone[part]
    assert {tuple(map(bare, line[:2])) for line in files["tatoeba/train.tsv.gz"]} <= {
        tuple(map(bare, line[:2])) for line in alone["train"]
    }


def test_sources_that_may_not_be_learnt_from_are_measured_on_alone(made):
    assert [path.name for path in (made / "games").iterdir()] == ["test.tsv.gz"]
    for source in CORPUS["SOURCES"]:
        assert source.given != bool(re.search(r"GPL|-SA", source.licence)), source.name
    assert not {one.domain for one in CORPUS["SOURCES"] if one.given} & {
        one.domain for one in CORPUS["SOURCES"] if not one.given
    }


def test_pairs_written_to_measure_on_are_learnt_from_nowhere(tmp_path, monkeypatch):
    (tmp_path / "everyday.tsv").write_text("MOTION 7 was carried\tAdoptée !\nElsewhere\tvoir la page 9\n", "utf-8")
    laid(tmp_path / "sources")
    paths = [tmp_path / "sources" / "fra.txt.gz", tmp_path / "sources" / "others", tmp_path / "en-fr"]
    monkeypatch.setattr(sys, "argv", ["make_corpus.py", *map(str, paths), "--test", str(tmp_path / "everyday.tsv")])
    CORPUS["main"]()
    files = unpacked(tmp_path / "en-fr")
    assert files["everyday/test.tsv.gz"] == [["MOTION 7 was carried", "Adoptée !"], ["Elsewhere", "voir la page 9"]]
    assert apart(files)
    assert "everyday/test" in json.loads((tmp_path / "en-fr" / "manifest.json").read_text())["held"]


def test_the_order_of_the_lines_changes_no_byte(made, tmp_path):
    CORPUS["make"](*laid(tmp_path / "sources", seed=1), tmp_path / "en-fr")
    names = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(tmp_path / "en-fr") for path in (tmp_path / "en-fr").rglob("*.*"))
    assert all((made / name).read_bytes() == (tmp_path / "en-fr" / name).read_bytes() for name in names)


@pytest.mark.parametrize("place", ["europarl/train.tsv.gz", "made/europarl.fr.tsv.gz"])
def test_a_held_out_sentence_that_comes_in_later_is_found(place, tmp_path, monkeypatch, capsys):
    out = tmp_path / "en-fr"
    CORPUS["make"](*laid(tmp_path / "sources"), out)
    held = unpacked(out)["europarl/test.tsv.gz"][0]
    (out / "made").mkdir()
    with gzip.open(out / place, "ab") as file:
        file.write(f"Well, well\t«{held[1].upper()}»\n".encode())
    monkeypatch.setattr(sys, "argv", ["make_corpus.py", "--check", str(out)])
    with pytest.raises(SystemExit, match="faults"):
        CORPUS["main"]()
    told = capsys.readouterr().out
    assert f"{out / place}:" in told
    assert "is held out in europarl/test" in told
    assert ("is not as it was written" in told) == (place in json.loads((out / "manifest.json").read_text())["files"])


def test_french_has_one_typography():
    assert CORPUS["tidy"]("C’est «\xa0bon\xa0»\u202f! Ah bon? «Oui»; à 10:30…", "fr") == (
        "C'est « bon » ! Ah bon ? «Oui» ; à 10:30..."
    )
    assert CORPUS["tidy"]("Really? It’s 10:30", "en") == "Really? It's 10:30"


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA / "parallel-en-fr").is_dir() or not (DATA / "tatoeba-eng-fra").is_dir(),
    reason="tatoeba-eng-fra and parallel-en-fr are not under REGARD_DATA",
)
def test_the_real_files_are_cut_as_ever(tmp_path):
    table = DATA / "tatoeba-eng-fra" / "fra.txt.gz"
    CORPUS["make"](table, DATA / "parallel-en-fr", tmp_path)
    files = unpacked(tmp_path)
    assert apart(files)
    lines = [tuple(line.split("\t")) for line in gzip.decompress(table.read_bytes()).decode("utf-8").splitlines()]
    alone = SPLIT["split"](lines, valid=1000, test=2000)
    for part in ("valid", "test"):
        assert [tuple(line) for line in files[f"tatoeba/{part}.tsv.gz"]] == alone[part]
    counts = {name: len(found) for name, found in files.items() if "/train" in name}
    assert counts == {
        "common-voice/train.en.txt.gz": 64_593,
        "common-voice/train.fr.txt.gz": 79_256,
        "documentation/train.tsv.gz": 42_368,
        "europarl/train.tsv.gz": 131_968,
        "lexicon/train.tsv.gz": 2_959,
        "libreoffice/train.tsv.gz": 28_544,
        "stories/train.tsv.gz": 2_281,
        "tatoeba/train.tsv.gz": 173_215,
    }
