"""Every model the laws of decoding are held against."""

import pytest
import torch

from tests.decoding.steppers import CASES, Case


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    """One model with a few examples."""
    torch.manual_seed(0)
    return CASES[request.param]()
