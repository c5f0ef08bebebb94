"""Tests run where the packages that only tests need are missing, except where they were promised."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import packages

ROOT = Path(__file__).parent.parent
BARE = f"""
import sys
sys.prefix = "elsewhere"  # than in .venv, which promises all packages
sys.modules.update(dict.fromkeys({sorted(packages.packages_of_tests() - {"pytest"})}))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_only_packages_of_the_test_extra_may_be_missing(monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.delenv("CI", raising=False)
    assert all(map(packages.may_be_missing, ("beartype", "hypothesis", "importlinter", "xdist", "playwright")))
    assert not any(map(packages.may_be_missing, ("torch", "regard", "numpy", "")))


def test_in_ci_and_in_the_virtual_environment_nothing_may_be_missing(monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(packages.ROOT / ".venv"))
    monkeypatch.delenv("CI", raising=False)
    assert not packages.may_be_missing("beartype")
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setenv("CI", "true")
    assert not packages.may_be_missing("beartype")
    monkeypatch.setitem(sys.modules, "beartype", None)
    with pytest.raises(ModuleNotFoundError):
        packages.import_optional("beartype")


def test_a_bare_machine_runs_what_it_can_and_says_what_it_skips(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    files = [f"tests/{name}.py" for name in ("test_checking", "attention/test_masks", "metrics/test_auc")]
    bare = [sys.executable, "-c", BARE, "-rs", "-p", "no:cacheprovider", *files]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # xdist is one of the plugins, and missing
    done = subprocess.run(bare, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tensor shapes are not checked: beartype is not installed" in done.stdout
    for name in ("beartype", "hypothesis"):
        assert f"{name} is not installed" in done.stdout
    assert " passed" in done.stdout
