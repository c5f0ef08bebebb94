"""Pairs that models and scripts make: what is kept, where it goes, how much of it is read, and what it is worth."""

import gzip
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from regard import config
from regard.data.holdout import sentence
from regard.tasks.translation import scoring
from tests.desk import SAMPLE
from tests.documents import ROOT

pytestmark = pytest.mark.unchecked  # whole answers of a model, whose parts are checked elsewhere
MODEL = ROOT / "regard" / "pretrained" / "en-fr"
LINES = [line.split("\t") for line in gzip.decompress(SAMPLE.read_bytes()).decode("utf-8").splitlines()]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "scripts"))
    PAIRS, COPIES, MIX, SCORE = (
        runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))
        for name in ("make_pairs", "make_copies", "mix_pairs", "score_translator")
    )
Made = PAIRS["Made"]


def typed(script: dict, monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    """Run a script with these words behind its name."""
    monkeypatch.setattr(sys, "argv", ["script.py", *map(str, words)])
    script["main"]()


def put(path: Path, *lines: str) -> None:
    """Write a gzipped file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def got(path: Path) -> list[list[str]]:
    """The columns of a gzipped file."""
    return [line.split("\t") for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("text", "said", "reason"),
    [
        ("The house is red.", "La maison est rouge.", None),
        ("The house is red.", "the house, is red", "copies"),
        ("The house is red.", "", "copies"),
        ("The house is red.", "It is the one that we have.", "of the wrong language"),
        ("The house is red.", "La maison est rouge et elle est à nous depuis des années.", "of unlikely length"),
        ("It goes on and on and on and on.", "et ça va et ça va et ça va et ça va", "that repeat themselves"),
        ("Good night.", "Bonne nuit !", "held out"),
        ("See you soon.", "À tantôt.", "held out"),
    ],
)
def test_a_translation_is_left_out_for_a_reason(text, said, reason):
    held = {sentence("bonne nuit"), sentence("See you soon!")}
    assert PAIRS["against"](Made(text, said, -0.1, "model"), "fr", held) == reason


def test_the_surest_are_kept_and_what_is_there_already_is_not():
    found = [Made(f"Text {n}", f"Texte {n} à moi", -n / 10, "one") for n in range(10)]
    found += [Made("Text 3", "Texte 3 à moi", -0.1, "two")]
    known = {("Text 0", "Texte 0 à moi")}
    kept = list(PAIRS["chosen"](found, "fr", known=known, held=set(), keep=0.5, sure=None))
    assert [pair[0] for pair in kept] == [f"Text {n}" for n in (1, 2, 3, 4)]
    assert {pair[2] for pair in kept} == {"one"}
    other = [Made(made.said, f"The {made.text}", made.sure, "one") for made in found[:10]]
    back = PAIRS["chosen"](other, "en", known=set(), held=set(), keep=1.0, sure=-0.2)
    assert [pair[:2] for pair in back] == [(f"The Text {n}", f"Texte {n} à moi") for n in range(3)]


def test_sentences_are_translated_each_way_into_a_file_of_its_own(tmp_path, monkeypatch):
    put(
        tmp_path / "talk" / "train.tsv.gz",
        "Where is the station?\tOù est donc la gare ?\tsomebody",
        "I am cold.\tJ'ai froid.",
    )
    put(tmp_path / "talk" / "test.tsv.gz", "I'm cold.\tJ’AI FROID")
    put(tmp_path / "voice" / "train.fr.txt.gz", "Où est la gare ?")
    typed(PAIRS, monkeypatch, tmp_path, MODEL, "--keep", 1, "--device", "cpu", "--beams", 2)
    made = {path.name: got(path) for path in (tmp_path / "made").iterdir()}
    assert set(made) == {"talk.fr.tsv.gz", "talk.en.tsv.gz", "voice.en.tsv.gz"}
    [[said, *rest]] = made["voice.en.tsv.gz"]
    assert said.startswith("Where")
    assert rest == ["Où est la gare ?", "en-fr"]
    assert [line[0] for line in made["talk.fr.tsv.gz"]] == ["Where is the station?"], "a held-out sentence was made"
    assert all("froid" not in line[1] for line in made["talk.en.tsv.gz"])


def test_what_is_exchanged_stands_on_both_sides_and_nothing_else_changes():
    assert COPIES["shared"]("Tom met Mary in 2013.", "Tom a rencontré Mary en 2013.") == ["2013", "Mary", "Tom"]
    assert not COPIES["shared"]("It is the book of Alice, page 7.", "C'est le livre d'Alice, page 7.")
    found = 0
    for line in LINES:
        pair = COPIES["changed"](*line[:2])
        if pair is not None:
            new = [set(after.split()) - set(before.split()) for before, after in zip(line, pair, strict=False)]
            bare = [{word.strip("?!.,;:") for word in side} - {""} for side in new]
            assert bare[0] == bare[1] != set(), pair
            found += 1
    assert found > 10


def test_texts_in_the_target_language_come_back_as_they_are(tmp_path, monkeypatch):
    put(tmp_path / "talk" / "train.tsv.gz", *("\t".join(line) for line in LINES[20:]))
    put(tmp_path / "talk" / "valid.tsv.gz", *("\t".join(line) for line in LINES[:20]))
    typed(COPIES, monkeypatch, tmp_path, "--copies", 15, "--same", 5)
    for side, language in enumerate(("en", "fr")):
        same = got(tmp_path / "made" / f"same.{language}.tsv.gz")
        assert len(same) == 5
        assert all(one == other and one in {line[side] for line in LINES[20:]} for one, other in same)
    first = (tmp_path / "made" / "copies.tsv.gz").read_bytes()
    typed(COPIES, monkeypatch, tmp_path, "--copies", 15, "--same", 5)
    assert (tmp_path / "made" / "copies.tsv.gz").read_bytes() == first


def test_a_temperature_of_one_leaves_domains_as_they_are_and_a_high_one_evens_them_out():
    sizes = {"large": 900.0, "middle": 400.0, "tiny": 1.0}
    assert MIX["weights"](sizes, 1) == {"large": 1.0, "middle": 1.0, "tiny": 1.0}
    assert MIX["weights"](sizes, 2) == {"large": 1.0, "middle": 1.5, "tiny": 4.0}
    assert MIX["weights"](sizes, 1e9)["middle"] == 2.25


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [("translator", ("real", "distilled", "back", "copies")), ("translator-teacher", ("real", "copies"))],
)
def test_the_recipes_read_what_the_script_says(recipe, parts):
    own = config.read(ROOT / "recipes" / f"{recipe}.yaml")["data"]["train"]
    domains = {one["path"].split("/")[2]: one.get("weight", 1) for one in own if one["path"].endswith("/train.tsv.gz")}
    assert own == list(MIX["entries"](Path("data/en-fr"), domains, parts))
    assert set(domains) == {"documentation", "europarl", "lexicon", "libreoffice", "stories", "tatoeba"}


def test_each_part_of_the_data_can_be_left_out_of_a_recipe(tmp_path, monkeypatch, capsys):
    for name in ("talk", "news"):
        put(tmp_path / name / "train.tsv.gz", "Good evening\tBonsoir")
    recipe = ROOT / "recipes" / "translator.yaml"
    seen = {}
    for part in MIX["PARTS"]:
        capsys.readouterr()
        typed(MIX, monkeypatch, tmp_path, recipe, "--parts", *(one for one in MIX["PARTS"] if one != part))
        found = config.parse(capsys.readouterr().out)
        assert {**found, "data": None} == {**config.read(recipe), "data": None}
        seen[part] = {(Path(one["path"]).name, one["tag"], one.get("prefix")) for one in found["data"]["train"]}
    assert not any(name == "train.tsv.gz" for name, *_ in seen["real"])
    assert ("talk.fr.tsv.gz", "fr", None) in seen["back"] - seen["distilled"]
    assert ("common-voice.en.tsv.gz", "fr", "≈") in seen["distilled"] - seen["back"]
    assert ("same.fr.tsv.gz", "fr", None) in seen["real"] - seen["copies"]
    capsys.readouterr()
    typed(MIX, monkeypatch, tmp_path, "--only", "talk")
    assert not re.search("news|common-voice", capsys.readouterr().out)


def test_the_table_has_the_scores_that_evaluating_gives(tmp_path, monkeypatch, capsys):
    import regard

    put(tmp_path / "talk" / "test.tsv.gz", *("\t".join(line) for line in LINES[:2]))
    typed(SCORE, monkeypatch, MODEL, tmp_path, "--device", "cpu", "--json", tmp_path / "scores.json")
    model = regard.load(MODEL, device="cpu")
    files = str(tmp_path / "talk" / "test.tsv.gz")
    there = scoring.score(model, scoring.pairs(files), to="fr").metrics
    back = scoring.score(model, scoring.pairs(files, columns=(2, 1)), to="en").metrics
    figures = [f"{scores[name]:.1f}" for scores in (there, back) for name in ("BLEU", "chrF")]
    assert f"| talk | 2 | {' | '.join(figures)} |" in capsys.readouterr().out
    assert json.loads((tmp_path / "scores.json").read_text())[str(MODEL)]["talk"]["en"]["scores"] == back
