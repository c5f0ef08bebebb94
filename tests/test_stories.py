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
    """Says what it is told to, each sentence once."""

    def __init__(self, **said):
        self.said, self.asked = said, []

    def translate(self, texts, to):
        assert to == "fr"
        assert len(set(texts)) == len(texts)
        self.asked += texts
        return [self.said[text.split()[-1].strip(".")] for text in texts]


STORIES = {
    "fits": ({}, True),
    "not in French": ({"park": "Mary saw cats in the park with the dog and she was happy to be there."}, False),
    "a paragraph too many": ({"park": "Mary a vu des chats\ndans le parc."}, False),
    "short": ({"park": "Mary."}, False),
    "cut off": ({"park": "Mary a vu des chats dans le parc"}, False),
    "nobody is there": ({"park": "Elle a vu des chats dans le parc."}, False),
}


@pytest.mark.parametrize("case", STORIES)
def test_a_translation_is_kept_if_it_is_whole_french_and_everybody_is_there(script, case):
    said, kept = STORIES[case]
    story = " ".join(f"Then {n} times, Lily and her friend saw cats in the park." for n in range(8))
    fine = "Mary a vu des chats dans le parc."
    translator = Translator(**{"park": fine, **said})
    [found] = script["translated"](translator, [story])
    assert translator.asked[0] == "Then 0 times, Mary and her friend saw cats in the park."
    assert found == (" ".join([fine.replace("Mary", "Lily")] * 8) if kept else None)


def test_people_are_told_from_words_and_women_from_men_by_what_is_said_of_them(script):
    story = 'One day, Timmy took his ball. Then Lily and her mom, Mommy, saw Tim. "No," she told Lily. He saw Spot.'
    assert script["names"](story) == {"Timmy": False, "Lily": True, "Tim": False, "Spot": False}


def test_everybody_has_a_usual_name_while_a_sentence_is_translated_and_their_own_again_afterwards(script):
    people = {"Lily": True, "Mia": True, "Tim": False, "Tom": False, "Amy": True}
    text, called = script["disguised"]("Lily's mom saw Tim, Tom and Mia; Lily ran. Timely!", people)
    assert text == "Mary's mom saw John, Tom and Julie; Mary ran. Timely!"
    assert called == {"Mary": "Lily", "John": "Tim", "Tom": "Tom", "Julie": "Mia"}
    assert (
        script["revealed"]("La mère de Mary a vu John, Tom et Julie.", called)
        == "La mère de Lily a vu Tim, Tom et Mia."
    )
    assert script["revealed"]("La mère de Mary a vu John et Tom.", called) is None
    assert script["disguised"]("Amy ran.", people) == ("Mary ran.", {"Mary": "Amy"})
    said = "Parce que Mary le dit, le chat de Mary veut que Mary vienne."
    assert script["revealed"](said, {"Mary": "Amy"}) == "Parce qu'Amy le dit, le chat d'Amy veut qu'Amy vienne."
    assert script["disguised"]("He ran.", people) == ("He ran.", {})


def test_the_shipped_translator_gives_stories_in_french(script):
    story = f"{STORY} One day, a girl named Lily was very proud of her cat. The end."
    [said] = script["translated"](regard.load("en-fr", device="cpu"), [story])
    assert guess(said, ["en", "fr"]) == "fr"
    assert said.count(".") == story.count(".")
    assert said.count("Lily") == story.count("Lily")
    assert "fière" in said, "Lily is a girl"


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
