"""What Python hands to a model is checked: one sentence says what is wrong with it, in the words of Python."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.config.file_kinds import FILE_KINDS
from regard.config.python_names import name_as_in_python, python_call
from regard.config.schema import json_schema
from regard.tasks import FACES, TASKS, USES
from regard.tasks.inputs import (
    LABEL,
    NODE,
    PAIR,
    PICTURE,
    QUESTION,
    ROW,
    SENTENCE,
    TEXT,
    check_input,
    describe_inputs,
    list_inputs,
)

PIXELS = np.zeros((4, 4), np.uint8)


@pytest.mark.parametrize(
    ("kind", "given", "listed"),
    [
        (TEXT, "a", ["a"]),
        (TEXT, ["a", "b"], ["a", "b"]),
        (TEXT, ("a", "b"), ["a", "b"]),
        (TEXT, (text for text in "ab"), ["a", "b"]),
        (TEXT, np.array(["a", "b"]), ["a", "b"]),
        (TEXT, [], []),
        (LABEL, "red", ["red"]),
        (SENTENCE, "a b", ["a b"]),
        (SENTENCE, ["a b", ["c", "d"]], ["a b", ["c", "d"]]),
        (PAIR, ("a", "b"), [("a", "b")]),
        (PAIR, [("a", "b"), ["c", "d"]], [("a", "b"), ["c", "d"]]),
        (QUESTION, ("a", "b", "c"), [("a", "b", "c")]),
        (PICTURE, Path("a.png"), [Path("a.png")]),
        (NODE, 3, [3]),
        (NODE, ["n0", 3], ["n0", 3]),
        (ROW, {"a": 1}, [{"a": 1}]),
    ],
)
def test_one_input_or_several_become_a_list(kind, given, listed):
    assert list_inputs(given, kind, verb="use") == listed


def test_an_array_is_one_picture_and_a_stack_of_them_several():
    assert len(list_inputs(PIXELS, PICTURE, verb="classify")) == 1
    assert len(list_inputs(np.zeros((3, 4, 4, 3), np.uint8), PICTURE, verb="classify")) == 3


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (TEXT, None, "use takes a text or a list of texts, not None"),
        (TEXT, {"a": 1}, "use takes a text or a list of texts, not dict {'a': 1}"),
        (TEXT, {"a"}, "use takes a text or a list of texts, not set {'a'}"),
        (TEXT, b"abc", "use takes a text or a list of texts, not bytes b'abc'"),
        (TEXT, 3, "use takes a text or a list of texts, not int 3"),
        (TEXT, ["a", None], "use: number 2 of 2 is None: give a text"),
        (TEXT, [("a", "b")], "use: number 1 of 1 is tuple ('a', 'b'): give a text"),
        (TEXT, [list(range(99))], "use: number 1 of 1 is list: give a text"),
        (TEXT, Path("a.txt"), "use takes a text or a list of texts, not PosixPath"),
        (PAIR, ["a", "b"], "use: number 1 of 2 is str 'a': give a pair of texts"),
        (PAIR, [("a", "b", "c")], "use: number 1 of 1 is tuple ('a', 'b', 'c'): give a pair of texts"),
        (NODE, [True], "use: number 1 of 1 is bool True: give the name of a node"),
        (ROW, [3], "use: number 1 of 1 is int 3: give a row by the names of its columns"),
    ],
)
def test_what_is_no_input_is_named(kind, given, said):
    with pytest.raises(ValueError) as caught:
        list_inputs(given, kind, verb="use")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_no_picture_and_no_folder(name):
    for given in (name, ["a.png", name]):
        with pytest.raises(ValueError, match="classify takes a picture file or array, not an empty name"):
            list_inputs(given, PICTURE, verb="classify")
    with pytest.raises(ValueError, match="look takes a picture file or array, not an empty name"):
        check_input(name, PICTURE, verb="look")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: regard.load(5), "a model is given by its folder or its name, not int 5"),
        (lambda: regard.load({"a": 1}), r"folder or its name, not dict \{'a': 1\}"),
        (lambda: regard.load([]), "an ensemble of no models: give the folders of its models"),
        (lambda: regard.load(""), "folder or its name, not an empty text"),
        (lambda: regard.load("en-fr", device=5), "device 5 is unknown, use auto or one of"),
        (lambda: regard.load("en-fr", task=5), "task takes the name of a task or several, not int 5"),
        (lambda: regard.load("en-fr", task=[]), r"task takes the name of a task or several, not list \[\]"),
        (lambda: regard.prompt(5, "sentiment"), "a model is given by its folder or its name, not int 5"),
        (lambda: regard.prompt("stories", 5), "a template is given by its name or a file, not int 5"),
        (lambda: regard.train("t.csv", start=5), "a model is given by its folder or its name, not int 5"),
        (lambda: regard.train("t.csv", out=5), "the folder of a run is given by its name, not int 5"),
        (lambda: regard.train("t.csv", valid=5), "valid takes the name of a file or a list of names of files, not int"),
        (lambda: regard.train("t.csv", 5), r"a setting is a text such as training\.epochs=20, not 5"),
        (lambda: regard.train(""), "an empty name of a file"),
    ],
)
@pytest.mark.unchecked
def test_what_names_nothing_is_said_in_a_sentence(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{n},{n * n}\n" for n in range(20)))
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.unchecked
def test_a_file_to_evaluate_on_has_a_name_and_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("must not be read\n")
    model = regard.load("stories", device="cpu")
    for given in ("", None):
        with pytest.raises(ValueError, match="evaluate takes the names of files, not "):
            model.evaluate(given)
    with pytest.raises(ValueError, match=r"no file nofile\.csv here"):
        model.evaluate("nofile.csv")


@pytest.mark.parametrize("how", [{}, {"split": False}, {"keep": False}, {"forbid": ["\ud800"]}])
def test_a_text_that_no_file_can_hold_is_refused_in_the_same_words_by_every_verb(how):
    text = "good" if "forbid" in how else "\ud800"
    with pytest.raises(ValueError, match="a text holds a lone surrogate, which no file can: decode it as UTF-8 first"):
        regard.load("en-fr", device="cpu").translate([text], to="fr", **how)


def test_one_input_is_one():
    assert check_input("a", TEXT, verb="look") == "a"
    with pytest.raises(ValueError, match=r"look takes a text, not list \['a'\]"):
        check_input(["a"], TEXT, verb="look")


def test_what_is_no_file_cannot_be_trained_on():
    for nothing in ([], {}, ()):
        with pytest.raises(ValueError, match="nothing to train on: give a recipe file with data, or files"):
            regard.train(nothing)
    with pytest.raises(ValueError, match=r"train takes files or a recipe, not \('Great', 'pos'\): write rows into"):
        regard.train([("Great", "pos")])
    for strange in (None, 3, b"a.csv"):
        with pytest.raises(ValueError, match=f"train takes files or a recipe, not {type(strange).__name__}"):
            regard.train(strange)
    with pytest.raises(ValueError, match="nothing to train on"):
        regard.train({"task": "masked-lm"})


def test_what_a_model_reads_is_described_as_json():
    described = describe_inputs(regard.load("en-fr", device="cpu"))
    assert json.loads(json.dumps(described)) == described
    assert (described["kind"], described["title"], described["schema"]) == ("text", "a text", {"type": "string"})
    assert not described["files"]
    assert not described["reads_whole_files"]


def test_a_prompt_is_an_input_and_no_option_of_an_answer():
    writer = regard.load("stories", device="cpu")
    assert "prompt" not in json_schema(writer.Options)["properties"]
    for ask in (writer.answer, lambda texts, **options: next(writer.exchange(texts, **options))):
        with pytest.raises(ValueError, match="prompt: every input is a prompt itself, leave it out"):
            ask(["Once"], prompt="Twice", length=2)


def test_messages_of_a_python_call_name_its_arguments(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ValueError, match=r'is a folder: say what its files hold with kind="text" or kind="pictures"'):
        regard.train(tmp_path / "photos")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "numbers.csv").write_text("a,b,y\n" + "".join(f"{n},{n % 5},{n + n % 5}\n" for n in range(60)))
    ways = r"resume it with resume=True, name another folder with out=\.\.\., or replace it with overwrite=True"
    with pytest.raises(ValueError, match=ways):
        regard.train(tmp_path / "numbers.csv", out=tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("leave out --from, or give another", "leave out start=..., or give another"),
        ("name it with --captions, --text or in a recipe", 'name it with kind="captions", kind="text" or in a recipe'),
        ("--valid and --to go with files", "valid=... and to=... go with files"),
        ("a--out b ---out --outer --resume-it --unknown", "a--out b ---out --outer --resume-it --unknown"),
    ],
)
def test_options_of_the_command_line_are_arguments_in_python(told, said):
    assert name_as_in_python(told) == said
    with pytest.raises(ValueError) as caught, python_call():
        raise ValueError(told)
    assert str(caught.value) == said


def test_every_kind_of_files_is_known_by_its_name_in_python():
    assert set(FILE_KINDS) == {entry.takes for entry in TASKS.values() if entry.takes is not None}


def test_the_verb_of_another_kind_of_model_says_what_it_needs():
    translator = regard.load("en-fr")
    with pytest.raises(AttributeError, match=r"en-fr is a translator; classify needs a classifier \(try translate\)"):
        translator.classify("a")
    with pytest.raises(AttributeError, match="'Translator' object has no attribute 'clasify'"):
        translator.clasify("a")
    assert not hasattr(translator, "write")
    for face in FACES.values():
        assert not hasattr(object.__new__(face), "nothing"), "also before it has a name"


def test_what_models_do_is_known_without_importing_them():
    assert {name: (face.verb, face.kind) for name, face in FACES.items()} == USES
    assert [*USES] == [*TASKS, "few-shot"]
    code = "import sys, regard.tasks as t; print('torch' in sys.modules, t.USES['translation'], 'gan' in t.TASKS)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False ('translate', 'a translator') True\n"


def test_other_names_of_the_target_language_lead_to_ours():
    with pytest.raises(ValueError, match="unknown setting lang: name the language to translate into by to"):
        regard.load("en-fr").translate("Hello", lang="fr")
