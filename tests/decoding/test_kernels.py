"""The kernels of the fast path, run in numpy by Triton's interpreter, find what the plain search finds."""

from __future__ import annotations

import pytest

from tests import interpreted

pytest.importorskip("triton", reason="Triton is not installed")


@pytest.mark.parametrize("cases", ["kernel_cases", "draw_cases"])
def test_interpreted_searches_and_draws_are_those_of_the_plain_path(
    cases: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert interpreted.said(f"decoding.{cases}", tmp_path_factory) is None
