"""`regard serve` as a process of its own: what it says, how it stops, what it refuses."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from regard.cli import run

pytestmark = pytest.mark.unchecked
ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "checkpoints" / "format-1"


def start(log: Path, *words: str) -> tuple[subprocess.Popen, str]:
    """A server that is ready, and where it listens; what it says goes into a file."""
    command = [sys.executable, "-m", "regard", "serve", *words, "--port", "0", "--device", "cpu"]
    with log.open("wb") as file:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    while (found := re.search(r"ready: (\S+)", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    return process, found[1]


def test_a_signal_lets_what_runs_finish(tmp_path):
    """S15: running work is finished, exit status 0, nothing left behind."""
    process, url = start(tmp_path / "log", str(SMALL), "-s", "drain_seconds=0", "-s", "deadline=600")
    answers = []
    asked = {"inputs": ["Le roi dort. " * 40], "options": {"beams": 8, "split": False}}

    def ask() -> None:
        answers.append(httpx.post(f"{url}/v1/translate", json=asked, timeout=600, trust_env=False))

    try:
        client = threading.Thread(target=ask)
        client.start()
        while (
            'regard_rows{model="format-1"} 1' not in httpx.get(f"{url}/metrics", timeout=600, trust_env=False).text
            and not answers
        ):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        client.join(600)
        assert [answer.status_code for answer in answers] == [200]
        assert process.wait(600) == 0
        assert "stopping: what runs is finished first" in (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()


def test_what_would_be_served_is_said_and_what_cannot_be_is_refused(tmp_path, capsys):
    """S11: a checkpoint that holds more than it says, or is damaged, is refused with its reason."""
    assert run(["serve", "--check", str(SMALL), "--device", "cpu"]) == 0
    assert re.match(r"format-1: translate, a translator of [\d,]+ parameters\n", capsys.readouterr().out)
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
