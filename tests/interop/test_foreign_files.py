"""Whatever is read from somebody else's folder is a regular file of bounded size; all else is refused in one line."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from regard import interop
from regard.cli import run
from regard.interop import folder as folders
from regard.interop import preprocessor
from tests.interop.making import lay

FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "model.safetensors",
    "modules.json",
    "adapter_config.json",
)
REPLACED = ("vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "source.spm", "tokenizer.bin")
"""Files that stand for a tokenizer where there is no tokenizer.json."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    lay(folder)
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    place = tmp_path / "gpt"
    place.mkdir()
    for path in sound.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    return place


@pytest.fixture
def soon():
    """Fail instead of waiting for a pipe for ever."""

    def end(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def put(kind, place):
    """Put something into a folder that is no file of it."""
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(place)
    elif kind == "a folder":
        place.mkdir()
    elif kind == "a device":
        place.symlink_to("/dev/zero")
    elif kind == "a link out":
        outside = place.parent.parent / "outside"
        outside.write_bytes(b"{}")
        place.symlink_to(outside)
    elif kind == "a link to nothing":
        place.symlink_to("nowhere")
    else:
        place.symlink_to(place.name)


KINDS = {
    "a pipe": "is no regular file",
    "a folder": "is no regular file",
    "a device": "leads out of the folder",
    "a link out": "leads out of the folder: copy the file that it leads to",
    "a link to nothing": "no such file or directory",
    "a link to itself": "(symlink loop|too many levels of symbolic links)",
}


def refusal(place, read=interop.read):
    with pytest.raises(ValueError) as caught:
        read(place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*FILES, *REPLACED])
def test_what_is_no_regular_file_is_refused_in_one_line(name, kind, folder, soon):
    if name in REPLACED:
        (folder / "tokenizer.json").unlink()
    if name == "merges.txt":
        (folder / "vocab.json").write_text('{"a": 0}')
    if name == "adapter_config.json":
        base = interop.read(folder)
        put(kind, folder / name)
        said = refusal(folder, lambda place: interop.add_adapter(place, base))
    else:
        put(kind, folder / name)
        said = refusal(folder)
    assert said.startswith(f"{folder / name}: ")
    assert re.search(KINDS[kind], said), said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["1_Pooling/config.json", "config_sentence_transformers.json", "sentence_x_config.json"]
)
def test_the_files_of_a_sentence_encoder_are_held_to_the_same(name, kind, folder, soon):
    modules = [{"type": "models.Transformer", "path": ""}, {"type": "models.Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    put(kind, folder / name)
    assert refusal(folder).startswith(f"{folder / name}: ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_that_says_how_pictures_are_prepared_is_held_to_the_same(kind, tmp_path, soon):
    put(kind, tmp_path / "preprocessor_config.json")
    with pytest.raises(ValueError, match=KINDS[kind]):
        preprocessor.read_preparation(tmp_path, 3, 8)


def test_the_command_says_one_line(folder, tmp_path, soon, capsys):
    put("a pipe", folder / "tokenizer_config.json")
    capsys.readouterr()
    assert run(["import", str(folder), str(tmp_path / "out")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"regard: {folder / 'tokenizer_config.json'}: is no regular file: put the file itself there"


def test_a_cache_of_hugging_face_is_read_although_its_files_are_links(folder, tmp_path):
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "0a1b", tmp_path / "models--x" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(Path("..") / ".." / "blobs" / str(number))
    assert interop.read(snapshot).kind == "gpt2"


def test_a_link_inside_a_folder_is_followed(folder):
    (folder / "config.json").rename(folder / "the config")
    (folder / "config.json").symlink_to("the config")
    assert interop.read(folder).kind == "gpt2"


@pytest.mark.parametrize("name", ["tokenizer_config.json", "modules.json", "config.json"])
def test_a_file_that_is_too_large_is_refused(name, folder):
    (folder / name).write_bytes(b"{}" + b" " * (1 << 24))
    assert "is larger than" in refusal(folder)


def test_the_first_bytes_of_a_file_are_all_that_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert (folders.read_start(tmp_path / "a", 2), folders.read_file(tmp_path / "a", 3)) == (b"ab", b"abc")
    with pytest.raises(ValueError, match="a: is larger than 2 bytes"):
        folders.read_file(tmp_path / "a", 2)
