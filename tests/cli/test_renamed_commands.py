"""Options that became commands of their own: their old names still run them."""

import pytest

from regard.cli import PANELS, run
from regard.cli.renamed_commands import MOVED, follow_moved


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("explain runs/a --judge photos --device cpu", "judge runs/a --device cpu photos"),
        ("explain runs/a --judge=photos --against runs/b", "judge runs/a --against runs/b photos"),
        ("explain --judge one runs/a --judge two", "judge runs/a one two"),
        ("explain runs/a --probe photos --json", "probe runs/a --json photos"),
        ("explain runs/a --probe", "probe runs/a"),
        ("generate runs/a --label bag --count 3 -o a.png", "draw runs/a --label bag --count 3 -o a.png"),
        ("generate runs/a photo.png --keep=upper", "draw runs/a photo.png --keep=upper"),
        ("explain runs/a -- --judge", "explain runs/a -- --judge"),
        ("explain runs/a photo.png", "explain runs/a photo.png"),
        ("translate runs/a --judge photos", "translate runs/a --judge photos"),
        ("", ""),
    ],
)
def test_an_option_that_was_moved_is_the_command_it_became(old, new):
    assert follow_moved(old.split()) == new.split()


def test_every_option_was_moved_to_a_command():
    commands = {name for panel in PANELS.values() for name in panel}
    assert set(MOVED) <= commands
    assert {command for options in MOVED.values() for command in options.values()} <= commands


@pytest.mark.parametrize("verb", ["judge", "probe"])
def test_a_model_without_maps_is_refused_by_either_name(verb, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    messages = []
    for words in ([verb, "en-fr", tmp_path / "photos"], ["explain", "en-fr", f"--{verb}", tmp_path / "photos"]):
        assert run([*map(str, words), "--device", "cpu"]) == 1
        messages.append(capsys.readouterr().err)
    assert set(messages) == {f"regard: regard {verb} is for classifiers of pictures: en-fr is a translator\n"}


def test_an_option_of_judge_is_named_by_it(capsys):
    assert run(["explain", "en-fr", "a text", "--against", "en-fr"]) == 2
    assert capsys.readouterr().err == (
        "regard: explain --against is now: regard judge MODEL PICTURES --against OTHER\n"
    )
