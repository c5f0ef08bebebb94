"""The kernel for packed rows of short sequences gives what the plain path gives: outputs and gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")


def test_interpreted_it_equals_the_plain_path() -> None:
    """Triton runs its kernels in numpy if it was told so before it was imported."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "tests.attention.rows_cases"]
    root = Path(__file__).parent.parent.parent.parent
    done = subprocess.run(words, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_on_a_gpu_it_equals_the_plain_path(seed: int, dtype: torch.dtype) -> None:
    from tests.attention.rows_cases import differences

    assert max(differences(seed, "cuda", dtype)) < (2e-2 if dtype == torch.bfloat16 else 3e-3)
