"""Stories for a small model: what is left out, what is held out, and one file of several parts."""

import gzip
import json
import runpy
import sys
from pathlib import Path

import pytest

import regard
from regard.data.languages import guess

SCRIPT = Path(__file__).parent.parent / "scripts" / "make_stories.py"
STORY = " ".join(f"Lily saw {n} cats in the park." for n in range(8))


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize(
    ("story", "kept"),
    [
        (STORY, True),
        (f'{STORY} She said, "I am happy!"', True),
        (STORY.removesuffix("."), False),
        ("Lily saw a cat. The end.", False),
        (f"{STORY} The end. The end. The end.", False),
        (STORY.replace("3", "\x03"), False),
        (STORY.replace("3", "�"), False),
    ],
    ids=["whole", "ends with a quote", "cut off", "short", "in circles", "control", "broken"],
)
def test_a_story_is_kept_if_it_is_whole(script, story, kept):
    assert script["whole"](story) == kept


class Translator:
    """Says what it is told to."""

    def __init__(self, *said):
        self.said = list(said)

    def translate(self, texts, to, copy):
        assert (to, copy, len(texts)) == ("fr", "all", len(self.said))
        return self.said


def test_translations_that_are_none_are_left_out(script):
    french = " ".join(f"Lily a vu {n} chats dans le parc." for n in range(8))
    said = [french, STORY, french.replace(" ", "\n", 1), french[:50] + ".", french.removesuffix(".")]
    assert list(script["translated"](Translator(*said), [STORY] * len(said))) == [french, None, None, None, None]


def test_a_translation_that_lost_a_name_is_left_out(script):
    story = STORY.replace("Lily", "A dog named Lucky", 1)
    french = " ".join(f"Lily a vu {n} chats dans le parc." for n in range(8))
    said = [french.replace("Lily", name, 1) for name in ("Un chien nommé Lucky", "Un chien nommé Chanceux")]
    assert list(script["translated"](Translator(*said), [story] * 2)) == [said[0], None]


def test_the_shipped_translator_gives_stories_in_french(script):
    [said] = script["translated"](regard.load("en-fr", device="cpu"), [STORY])
    assert guess(said, ["en", "fr"]) == "fr"
    assert said.count(".") == STORY.count(".")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], "name the model that writes"),
        (["a", "b", "--join"], "the folder alone"),
        (["a", "b", "c", "--part", "x"], "--part x"),
    ],
)
def test_what_is_missing_is_said(words, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_stories.py", *words])
    with pytest.raises(SystemExit):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert said in capsys.readouterr().err


def test_one_story_in_fifty_is_held_out_whatever_stands_beside_it(script):
    sides = [script["side"](f"{STORY} {n}") for n in range(2000)]
    assert 20 <= sides.count("valid") <= 60
    assert sides == [script["side"](f"{STORY} {n}") for n in range(2000)]


def test_parts_are_joined_and_a_story_is_there_once(tmp_path, monkeypatch, capsys):
    for part, texts in enumerate((["a", "b"], ["b", "é"]), 1):
        for name in ("train.en", "train.fr", "valid.en", "valid.fr"):
            lines = "".join(json.dumps({"text": f"{name} {text}"}) + "\n" for text in texts)
            (tmp_path / f"{name}.{part}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    monkeypatch.setattr(sys, "argv", ["make_stories.py", str(tmp_path), "--join"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    joined = tmp_path / "valid.fr.jsonl.gz"
    found = [json.loads(line)["text"] for line in gzip.decompress(joined.read_bytes()).splitlines()]
    assert found == ["valid.fr a", "valid.fr b", "valid.fr é"]
    assert capsys.readouterr().out.count("3 stories") == 4
