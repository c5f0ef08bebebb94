"""The kernel for packed rows of short sequences gives what the plain path gives: outputs and gradients."""

from __future__ import annotations

import pytest
import torch

from tests import interpreted

pytest.importorskip("triton", reason="Triton is not installed")


def test_interpreted_it_equals_the_plain_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Triton runs its kernels in numpy if it was told so before it was imported."""
    assert interpreted.said("attention.rows_cases", tmp_path_factory) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_on_a_gpu_it_equals_the_plain_path(seed: int, dtype: torch.dtype) -> None:
    from tests.attention.rows_cases import differences

    assert max(differences(seed, "cuda", dtype)) < (2e-2 if dtype == torch.bfloat16 else 3e-3)
