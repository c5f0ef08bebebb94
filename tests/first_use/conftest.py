"""What first-use tests share: a tiny model of every task, and a desk with every kind of file."""

from pathlib import Path

import pytest

from tests.conftest import unchecked
from tests.first_use import models, sweep


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, Path]:
    """Run folders of tiny models by task; nobody writes into them, and all workers share them."""
    with unchecked():
        return models.share(models.shared_folder(tmp_path_factory.getbasetemp()) / "tiny-models")


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, Path]) -> Path:
    """A folder with one file of every kind, beside the tiny models."""
    shared = models.shared_folder(tmp_path_factory.getbasetemp()) / "tiny-models"
    return sweep.lay_desk(tmp_path_factory.mktemp("sweep"), shared)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns and no data folder, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("REGARD_DATA", raising=False)
