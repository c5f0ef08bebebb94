"""Pictures with captions, for whoever wants to describe them."""

from pathlib import Path

import pytest

from tests.data.images.drawing import fill


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A few pictures of three colours and a table with two captions for each."""
    root = fill(tmp_path_factory.mktemp("photos"), 6)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    said = [(name, f"{word} {Path(name).parent} wall .") for name in names for word in ("A", "There is a")]
    (root / "captions.csv").write_text("image,caption\n" + "".join(f"{name},{text}\n" for name, text in said))
    return root


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache for every test."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
