"""Checkpoints made to do harm: `regard serve` refuses each with its reason, and nothing in them runs (S11)."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard import checkpoint
from regard.cli import run
from tests.serve.process import SMALL

pytestmark = pytest.mark.unchecked
WEIGHTS = "model.safetensors"


class Payload:
    """Leaves a mark on the disk when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A place that only code of a checkpoint would make."""
    return tmp_path / "it-ran"


@pytest.fixture
def rewrite(tmp_path: Path) -> Callable[..., Path]:
    """Write the small checkpoint with other contents of some files; its manifest is in order."""
    sound = checkpoint.read(SMALL)

    def write(**changes: bytes) -> Path:
        contents = {name: sound.data(name) for name in sound.files} | {
            name.replace("_", "."): content for name, content in changes.items()
        }
        folder = tmp_path / "hostile"
        checkpoint.write(folder, contents, facts=sound.manifest["facts"])
        return folder

    return write


def refusal(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line with which the folder is refused."""
    capsys.readouterr()
    assert run(["serve", "--check", str(folder), "--device", "cpu"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    assert "Traceback" not in error
    return error


def pickled_weights(mark: Path) -> bytes:
    """What torch.save writes, with an object that runs code when it is loaded."""
    buffer = io.BytesIO()
    torch.save({"weights": Payload(mark)}, buffer)
    return buffer.getvalue()


def zip_bomb() -> bytes:
    """An archive of ten kilobytes that holds ten megabytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", b"\0" * 10_000_000)
    return buffer.getvalue()


def header_of(entries: dict) -> bytes:
    """A file of safetensors with these tensors and no data."""
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


HOSTILE_WEIGHTS = {
    "a pickle": pickled_weights,
    "a bare pickle": lambda mark: pickle.dumps(Payload(mark)),
    "a zip bomb": lambda mark: zip_bomb(),
    "a header of 2^60 bytes": lambda mark: struct.pack("<Q", 2**60) + b"{}",
    "a header of 90 MB": lambda mark: struct.pack("<Q", 90_000_000) + b" " * 1000,
    "a tensor of 2^80 numbers": lambda mark: header_of(
        {"x": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 2**62]}}
    ),
    "a tensor before the file": lambda mark: header_of({"x": {"dtype": "F32", "shape": [1], "data_offsets": [-8, -4]}}),
    "nothing": lambda mark: b"",
}


@pytest.mark.parametrize("kind", HOSTILE_WEIGHTS)
def test_hostile_weights_are_refused_and_nothing_runs(kind, rewrite, mark, capsys):
    folder = rewrite(**{WEIGHTS.replace(".", "_"): HOSTILE_WEIGHTS[kind](mark)})
    assert "hostile: cannot be read, " in refusal(folder, capsys)
    assert not mark.exists()


def test_the_payload_would_run_where_pickles_are_loaded(mark):
    """So that the tests above could fail."""
    pickle.loads(pickle.dumps(Payload(mark)))
    assert mark.exists()


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("x: !!python/object/apply:os.mkdir ['{mark}']", "config.yaml"),
        ("x: &a [1]\ny: [*a, *a]", "config.yaml"),
    ],
)
def test_hostile_settings_are_refused_and_nothing_runs(tag, reason, rewrite, mark, capsys):
    folder = rewrite(config_yaml=tag.format(mark=mark).encode())
    assert reason in refusal(folder, capsys)
    assert not mark.exists()


def test_a_model_far_larger_than_its_weights_is_never_built(rewrite, capsys):
    text = checkpoint.read(SMALL).data("config.yaml").decode()
    for width, reason in (("262144", "a model of about"), ("1e12", "model.width")):
        changed = re.sub(r"(?m)^(\s+width:) \d+$", rf"\1 {width}", text)
        assert changed != text
        folder = rewrite(config_yaml=changed.encode())
        assert reason in refusal(folder, capsys)
        shutil.rmtree(folder)


def test_a_tokenizer_that_is_none_is_refused(rewrite, capsys):
    for content in (b"{}", b"[" * 100_000, b'{"model": {"type": "BPE", "vocab": {"a": 1e999}}}', b"\xff\xfe"):
        folder = rewrite(tokenizer_json=content)
        assert "tokenizer" in refusal(folder, capsys)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["../escaped", "/etc/passwd", "a/../../b", "model.safetensors\0x"])
def test_a_manifest_that_names_files_elsewhere_is_refused(name, rewrite, capsys):
    folder = rewrite()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = manifest["files"].pop("README.md")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    refusal(folder, capsys)


def test_code_and_templates_beside_the_weights_are_never_looked_at(rewrite, mark, tmp_path, capsys):
    """A model of the hub with auto_map is refused; in a folder of Regard such files are only strangers."""
    code = f"import os\nos.mkdir({str(mark)!r})\n"
    strangers = {
        "config.json": json.dumps({"model_type": "x", "auto_map": {"AutoModel": "modeling.Model"}}),
        "modeling.py": code,
        "sitecustomize.py": code,
        "tokenizer_config.json": json.dumps({"chat_template": "{{ cycler.__init__.__globals__.os.mkdir('x') }}"}),
    }
    hub = tmp_path / "hub"
    hub.mkdir()
    for folder in (hub, rewrite()):
        for name, text in strangers.items():
            (folder / name).write_text(text)
        (folder / "pytorch_model.bin").write_bytes(pickled_weights(mark))
    assert "holds no model" in refusal(hub, capsys)
    run(["serve", "--check", str(tmp_path / "hostile"), "--device", "cpu"])
    assert not mark.exists()
    assert not (Path.cwd() / "x").exists()
