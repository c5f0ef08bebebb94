"""Dropout is torch's, but for the kernel that draws its bits where a step is compiled for a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.models.dropout import Dropout


def test_off_a_gpu_it_is_torchs_own() -> None:
    x, ours, theirs = torch.ones(50, 8), Dropout(0.3), nn.Dropout(0.3)
    torch.manual_seed(1)
    kept = ours(x)
    torch.manual_seed(1)
    assert kept.equal(theirs(x))
    assert ours.eval()(x).equal(x)


@pytest.mark.unchecked
def test_interpreted_kernels_of_training_steps_do_what_torch_does() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parent.parent.parent
    words = [sys.executable, "-m", "tests.models.kernel_cases"]
    done = subprocess.run(words, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
