"""Dropout is torch's, but for the kernel that draws its bits where a step is compiled for a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.models.parts.dropout import Dropout
from tests import interpreted


def test_off_a_gpu_it_is_torchs_own() -> None:
    x, ours, theirs = torch.ones(50, 8), Dropout(0.3), nn.Dropout(0.3)
    torch.manual_seed(1)
    kept = ours(x)
    torch.manual_seed(1)
    assert kept.equal(theirs(x))
    assert ours.eval()(x).equal(x)


def test_interpreted_kernels_of_training_steps_do_what_torch_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    assert interpreted.said("models.kernel_cases", tmp_path_factory) is None
