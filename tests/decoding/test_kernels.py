"""The kernels of the fast path, run in numpy by Triton's interpreter, find what the plain search finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")


@pytest.mark.unchecked
@pytest.mark.parametrize("cases", ["kernel_cases", "draw_cases"])
def test_interpreted_searches_and_draws_are_those_of_the_plain_path(cases: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parent.parent.parent
    words = [sys.executable, "-m", f"tests.decoding.{cases}"]
    done = subprocess.run(words, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
