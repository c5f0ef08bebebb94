"""The file that several benchmark processes share."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import ledger

RECIPES = Path(__file__).parent.parent / "recipes"


def put(path: Path, seed: int) -> None:
    ledger.record(path, ["vit", str(seed)], {"accuracy": float(seed)})


def test_writers_add_to_one_file_at_once_and_lose_nothing(tmp_path):
    path = tmp_path / "found.json"
    ledger.record(path, ["resnet", "0"], {"accuracy": 1.0})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, [path] * 12, range(12)))
    found = ledger.read(path)
    assert found["resnet"] == {"0": {"accuracy": 1.0}}
    assert found["vit"] == {str(seed): {"accuracy": float(seed)} for seed in range(12)}


def test_a_measurement_that_fails_says_why(tmp_path):
    path = tmp_path / "found.json"
    ledger.attempted(path, ["peer"], lambda: {"images/s": 1 / 0})
    assert ledger.read(path)["peer"]["failed"].startswith("ZeroDivisionError")


def test_a_mean_has_its_deviation_where_there_are_several():
    assert ledger.spread([91.0, 93.0]) == "92.00 ± 1.41"
    assert ledger.spread([91.0]) == "91.00"


def test_a_run_that_diverged_is_no_result(tmp_path):
    rough = ("optim.learning_rate=1e30", "training.steps=200", "training.threads=1")
    with pytest.raises(SystemExit, match="run: diverged"):
        ledger.trained(RECIPES / "pendulum.yaml", *rough, seed=0, out=tmp_path / "run", start=None)
