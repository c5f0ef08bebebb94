"""Memory: what preparing took is given back, and a GPT is measured in less than its training takes."""

import json
import os
import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).parent / "weighing.py"
ROOT = CHILD.parent.parent.parent.parent
# What a GPT of a text of a million lines has, over a text of fewer; rows are short, which pieces of a row are not.
LARGE = ["model.width=512", "model.heads=8", "model.hidden=2048", "model.depth=8", "data.batch_size=4"]

linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")


def weigh(folder: Path, *words: str) -> dict[str, float]:
    """What a process of its own says."""
    place = {"PYTHONPATH": os.environ.get("PYTHONPATH") or str(ROOT), "REGARD_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, str(CHILD), *words], capture_output=True, text=True, env={**os.environ, **place}, timeout=3600
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@linux
def test_a_gpt_is_measured_a_few_tokens_at_a_time(tmp_path):
    assert weigh(tmp_path, "measure")["grown"] < 200


@linux
def test_the_pieces_of_a_row_take_the_memory_of_a_few(tmp_path):
    assert weigh(tmp_path, "learn")["grown"] < 60


def write_text(place: Path, lines: int) -> str:
    """A file of lines of twelve words of 20,000."""
    random_ = random.Random(0)
    words = ["".join(random_.choices(string.ascii_lowercase, k=random_.randint(2, 9))) for _ in range(20_000)]
    place.write_text("\n".join(" ".join(random_.choices(words, k=12)) for _ in range(lines)))
    return str(place)


@linux
def test_memory_that_preparing_a_text_took_is_given_back(tmp_path):
    assert weigh(tmp_path, "prepare", write_text(tmp_path / "text.txt", 60_000))["freed"] < 25


@linux
@pytest.mark.faults
def test_training_and_measuring_a_gpt_take_little_more_than_its_weights_gradients_and_averages(tmp_path):
    text = write_text(tmp_path / "text.txt", 40_000)
    steps = [
        "training.steps=2",
        "training.eval_every=1",
        "training.save_every=1",
        "training.device=cpu",
        "data.validation_share=0.02",
    ]
    told = weigh(tmp_path, "train", text, str(tmp_path / "run"), *LARGE, *steps)
    print(told)
    weights, gradients, averages = (count * 4 * told["weights"] / 2**20 for count in (1, 1, 2))
    assert told["grown"] < weights + gradients + averages + 750
