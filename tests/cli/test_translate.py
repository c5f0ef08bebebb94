"""Where a translation runs when nobody says it: little text is not worth waking a GPU."""

import json
from pathlib import Path

import pytest

from regard.cli import run
from regard.cli.translate import LITTLE, place
from regard.shipped import models

MODEL = models()["en-fr"].path
ROOM = int(LITTLE / ((MODEL / "model.safetensors").stat().st_size / 1e6))


@pytest.mark.parametrize("lines", [["Where is the station?"], [], ["word"] * (ROOM // 5), ["x" * (ROOM - 1)]])
def test_little_text_is_left_to_the_cpu(lines: list[str]) -> None:
    device, back = place("auto", MODEL, iter(lines))
    assert (device, list(back)) == ("cpu", lines)


@pytest.mark.parametrize("lines", [["word"] * (ROOM // 5 + 1), ["x" * ROOM, "y"], ["x" * 10 * ROOM]])
def test_much_text_goes_where_there_is_a_gpu_and_no_line_is_lost(lines: list[str]) -> None:
    device, back = place("auto", MODEL, iter(lines))
    assert (device, list(back)) == ("auto", lines)


def test_a_large_model_is_soon_worth_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    with (tmp_path / "best" / "model.safetensors").open("wb") as file:
        file.truncate(5_000_000_000)  # holds nothing, and takes no room
    assert place("auto", tmp_path, iter(["A sentence."]))[0] == "auto"
    assert place("cpu", tmp_path, iter(["A sentence."] * 1000))[0] == "cpu"
    assert place("cuda", None, iter(["A."]))[0] == "cuda"


def test_what_is_left_and_what_is_foreign_is_said_once_at_the_end(tmp_path, capsys):
    (tmp_path / "in.txt").write_text(
        "Where is the station?\nJe ne sais pas où elle est.\nMerci beaucoup pour votre aide.\n"
        "Ich weiß nicht, wo der Bahnhof ist.\n",
        encoding="utf-8",
    )
    words = ["translate", "-i", str(tmp_path / "in.txt"), "--to", "fr", "--device", "cpu", "--beams", "1"]
    assert run([*words, "--json"]) == 0
    said = capsys.readouterr()
    told = [json.loads(line) for line in said.out.splitlines()]
    assert [one.get("kept") for one in told] == [None, 1, 1, None]
    assert [one.get("foreign") for one in told] == [None, None, None, "de"]
    assert said.err.splitlines() == [
        "regard: 2 sentences are already in the target language (fr) and left as written",
        "regard: 1 line: the text looks like German; en-fr knows English and French only, so do not trust the answer",
    ]
