"""What `regard serve` says before it serves, and what it refuses to serve."""

import re

import pytest

from regard.cli import run
from tests.serve.process import SMALL

pytestmark = pytest.mark.unchecked


def test_what_would_be_served_is_said_and_what_cannot_be_is_refused(tmp_path, capsys):
    """S11: a checkpoint that holds more than it says, or is damaged, is refused with its reason."""
    assert run(["serve", "--check", str(SMALL), "--device", "cpu"]) == 0
    assert re.match(r"format-1: translate, a translator of [\d,]+ parameters\n", capsys.readouterr().out)
    assert run(["serve", "--check", "--watch", str(SMALL), "--device", "cpu, cpu"]) == 0
    assert capsys.readouterr().out.count("\n") == 1, "copies on several devices are one model"
    best = SMALL
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in best.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    weights = bytearray((broken / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (broken / "model.safetensors").write_bytes(bytes(weights))
    for words, reason in (
        ([str(broken)], "model.safetensors"),
        ([str(tmp_path / "nowhere")], "no model at"),
        ([str(SMALL), str(SMALL)], "two models are called format-1"),
        ([str(SMALL), "--host", "0.0.0.0"], "can be reached from elsewhere"),
        ([str(SMALL), "-s", "quue=3"], "did you mean queue"),
        ([str(SMALL), "--key-file", str(tmp_path / "none.txt")], "none.txt: no such file"),
    ):
        assert run(["serve", "--check", "--device", "cpu", *words]) == 1
        error = capsys.readouterr().err
        assert reason in error
        assert error.count("\n") == 1
    assert run(["serve", "--limits"]) == 0
    assert "queue = 64\n  Requests that wait" in capsys.readouterr().out
