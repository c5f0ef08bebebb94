"""Learning rates over time."""

import pytest

from regard.training.optim import OptimConfig, rate_at
from regard.training.schedules import SCHEDULES, cosine, inverse_root, linear


@pytest.mark.parametrize(("width", "warmup"), [(512, 4000), (1024, 4000), (128, 400)])
@pytest.mark.parametrize("step", [1, 2, 399, 400, 401, 4000, 4001, 100_000])
def test_the_rate_is_that_of_the_paper(width: int, warmup: int, step: int) -> None:
    config = OptimConfig(learning_rate=(width * warmup) ** -0.5, warmup=warmup, schedule="inverse_root")
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert rate_at(config, step, 100_000) == pytest.approx(paper, rel=1e-12)


def test_the_base_model_peaks_at_seven_ten_thousandths() -> None:
    config = OptimConfig(learning_rate=(512 * 4000) ** -0.5, warmup=4000)
    assert rate_at(config, 4000, 100_000) == pytest.approx(6.99e-4, abs=1e-6)
    assert rate_at(config, 16_000, 100_000) == pytest.approx(6.99e-4 / 2, abs=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 10])
def test_every_schedule_rises_to_its_peak_at_the_end_of_the_warm_up(name: str, warmup: int) -> None:
    factors = [SCHEDULES[name](step, warmup=warmup, steps=50) for step in range(1, 51)]
    assert max(factors) <= 1
    assert factors[max(warmup, 1) - 1] == pytest.approx(1, abs=0.03)
    assert all(factor > 0 for factor in factors), "the last update would be wasted"
    assert factors[:warmup] == pytest.approx([step / max(1, warmup) for step in range(1, warmup + 1)])


def test_linear_and_cosine_fall_to_nothing_just_after_the_last_step() -> None:
    for schedule in (linear, cosine):
        assert schedule(51, warmup=10, steps=50) == pytest.approx(0, abs=1e-12)
    assert linear(30, warmup=9, steps=50) == pytest.approx(0.5)
    assert cosine(30, warmup=9, steps=50) == pytest.approx(0.5)


def test_inverse_root_without_warm_up_starts_at_its_peak() -> None:
    assert [inverse_root(step, warmup=0, steps=9) for step in (1, 4)] == [1, 0.5]
