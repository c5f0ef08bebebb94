"""Damage anywhere in a checkpoint is found every time: the one before is used and that is said, or the reason is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard import checkpoint, cli, recipe
from regard.checkpoint import CheckpointError
from regard.training import run as runs
from tests.conftest import Corpus
from tests.faults.nursery import Quick, differing, regression, weights
from tests.test_recipe import tiny

SETTINGS = {"model": {"width": 5}}
FORMAT_1 = Path(__file__).parent.parent / "checkpoints" / "format-1"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug during these tests, so they need not wait for the disk."""
    monkeypatch.setattr(checkpoint, "disk", Quick())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints of steps 2, 4 and 6, for everybody to copy."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    regression(folder, print, steps=6, save_every=2, eval_every=3)
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@st.composite
def damages(draw: st.DrawFn, directory: Path) -> tuple[str, bytes | None]:
    """A file of a checkpoint, and what it holds after some accident; None when it is gone."""
    path = draw(st.sampled_from(sorted(directory.iterdir())))
    good, kind = (
        path.read_bytes(),
        draw(st.sampled_from(["flipped", "truncated", "extended", "missing", "overwritten"])),
    )
    place = draw(st.integers(0, len(good) - 1))
    if kind == "missing":
        return path.name, None
    if kind == "truncated":
        return path.name, good[:place]
    if kind == "extended":
        return path.name, good[:place] + draw(st.binary(min_size=1, max_size=9)) + good[place:]
    bad = bytes([good[place] ^ 1 << draw(st.integers(0, 7))]) if kind == "flipped" else bytes(512)
    return path.name, good[:place] + bad + good[place + len(bad) :]


def harm(directory: Path, damage: tuple[str, bytes | None]) -> None:
    name, data = damage
    (directory / name).unlink()
    if data is not None:
        (directory / name).write_bytes(data)


def found_everywhere(trained: Path, damage: tuple[str, bytes | None]) -> None:
    """Damage the newest checkpoint of a copy: by name it is refused, and going on starts from the one before."""
    folder = trained.with_name("copy")
    shutil.copytree(trained, folder)
    try:
        newest = runs.Run(folder).directory(6)
        if damage[1] == (newest / damage[0]).read_bytes():
            return  # zeros over zeros
        harm(newest, damage)
        with pytest.raises(CheckpointError, match="step-6: ") as caught:
            checkpoint.read(newest)
        assert "\n" not in str(caught.value)
        run = runs.start(folder, settings=SETTINGS, resume=True)
        assert run.latest is not None
        assert run.latest.step == 4
        assert run.damaged == 1
        assert any(str(caught.value) in note and "damaged-step-6" in note for note in run.notes)
        assert [path.name for path in sorted((folder / "checkpoints").iterdir())] == [
            "damaged-step-6",
            "step-2",
            "step-4",
        ]
    finally:
        shutil.rmtree(folder)


@settings(max_examples=60)
@given(st.data())
def test_damage_anywhere_is_found_put_aside_and_said(trained: Path, data: st.DataObject) -> None:
    found_everywhere(trained, data.draw(damages(trained / "checkpoints" / "step-6")))


@pytest.mark.faults
@settings(max_examples=1500)
@given(st.data())
def test_damage_anywhere_is_found_put_aside_and_said_a_thousand_times(trained: Path, data: st.DataObject) -> None:
    found_everywhere(trained, data.draw(damages(trained / "checkpoints" / "step-6")))


def test_a_run_goes_on_around_damage_and_ends_the_same(trained: Path, copied: Path) -> None:
    path = copied / "checkpoints" / "step-6" / "training.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    (copied / "checkpoints" / "step-4" / "config.yaml").unlink()
    regression(copied, print, steps=6, save_every=2, eval_every=3)
    assert differing(weights(copied), weights(trained)) == []
    lines = (copied / "train.log").read_text()
    assert "skipped, and renamed to damaged-step-6: " in lines
    assert "training.safetensors is damaged" in lines
    assert "skipped, and renamed to damaged-step-4: " in lines
    assert "resuming from step 2" in lines
    records = [json.loads(line) for line in (copied / "metrics.jsonl").read_text().splitlines()]
    assert [record["damaged"] for record in records if "damaged" in record] == [2]


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_a_damaged_best_is_put_aside_and_the_run_goes_on(name: str, copied: Path) -> None:
    (copied / "best" / name).unlink()
    regression(copied, print, steps=9, save_every=2, eval_every=3)
    assert checkpoint.read(copied / "best").step in (7, 8, 9)
    assert (copied / "damaged-best").is_dir()
    assert f"damaged-best: {copied / 'best'}: " in (copied / "train.log").read_text()


def test_a_best_that_was_damaged_before_the_first_save_is_put_aside_too(copied: Path) -> None:
    shutil.rmtree(copied / "checkpoints")
    (copied / "best" / "manifest.json").unlink()
    run = runs.start(copied, settings=SETTINGS, resume=True)
    assert run.latest is None
    assert run.damaged == 1
    assert not run.best.exists()


def test_when_all_is_damaged_nothing_starts_from_0_in_silence(copied: Path) -> None:
    for step in (2, 4, 6):
        (copied / "checkpoints" / f"step-{step}" / "training.json").write_text("{}")
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    for _ in range(2):  # the first refusal must not pave the way for the second
        with pytest.raises(CheckpointError, match=r"no checkpoint is left that can be trusted.*--overwrite.*step-6: "):
            runs.start(copied, settings=SETTINGS, resume=True)
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before
    run = runs.start(copied, settings=SETTINGS, overwrite=True)
    assert run.latest is None


def test_a_swapped_tokenizer_is_refused_by_everybody(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swapped = Path(shutil.copytree(FORMAT_1, tmp_path / "model"))
    text = (swapped / "tokenizer.json").read_text(encoding="utf-8")
    tokens = sorted(json.loads(text)["model"]["vocab"].items(), key=lambda entry: entry[1])[-2:]
    (one, first), (other, second) = tokens
    changed = text.replace(f'"{one}":{first}', f'"{one}":{second}').replace(f'"{other}":{second}', f'"{other}":{first}')
    assert changed != text
    assert json.loads(changed)["model"]["vocab"][one] == second
    (swapped / "tokenizer.json").write_text(changed, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is damaged"):
        regard.load(swapped)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is damaged"):
        recipe.train(tiny(corpus), out=tmp_path / "run", start=swapped, quiet=True)
    assert cli.run(["translate", str(swapped), "Le chat dort."]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_tokenizer_swapped_in_a_run_is_not_gone_on_with(corpus: Corpus, tmp_path: Path) -> None:
    first = tiny(corpus, "training.steps=2", "training.save_every=1")
    recipe.train(first, out=tmp_path / "run", quiet=True)
    recipe.train(tiny(corpus, "training.steps=1", "tokenizer.vocab=300"), out=tmp_path / "other", quiet=True)
    shutil.copy(tmp_path / "other" / "best" / "tokenizer.json", tmp_path / "run" / "checkpoints" / "step-2")
    outcome = recipe.train(first, out=tmp_path / "run", resume=True, quiet=True)
    assert outcome.result.step == 2
    log = (tmp_path / "run" / "train.log").read_text()
    assert "tokenizer.json is damaged" in log
    assert "resuming from step 1" in log
