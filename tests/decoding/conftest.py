"""Every model the laws of decoding are held against."""

import pytest

from tests.decoding.steppers import CASES, Case


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, seeds: None) -> Case:
    """One model with a few examples."""
    return CASES[request.param]()
