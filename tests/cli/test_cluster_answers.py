"""Parts of a long file, as a worker of a cluster writes them, but in this process; and what is refused."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from regard import recipe
from regard.cli import run
from regard.cli.answers import AnswerForm, AnswerRequest
from regard.cli.cluster_answers import _open_folder, answer_texts, read_texts
from regard.cli.grammar import fill_ray_address
from regard.cli.translated_lines import AnswerCounts, answer_form
from regard.cli.translated_parts import read_counts, translate_texts, write_counts
from regard.cluster.parts import Part, PartFolder, PartReader, PartWork, PartWorker

pytestmark = pytest.mark.unchecked
SMALL = Path(__file__).parent.parent / "checkpoints" / "format-1"


def test_an_address_is_what_looks_like_one():
    assert fill_ray_address(["serve", "--ray", "en-fr"]) == ["serve", "--ray=local", "en-fr"]
    assert fill_ray_address(["serve", "en-fr", "--ray"]) == ["serve", "en-fr", "--ray=local"]
    for address in ("auto", "local", "10.0.0.1:6379", "ray://head:10001"):
        assert fill_ray_address(["serve", "--ray", address]) == ["serve", "--ray", address]
    assert fill_ray_address(["translate", "--", "--ray"]) == ["translate", "--", "--ray"]
    assert fill_ray_address([]) == []


def test_a_reader_begins_anew_only_for_a_step_back():
    opened = []

    def texts():
        opened.append(1)
        return iter([str(number) for number in range(7)])

    reader = PartReader(texts, 2)
    assert [reader.read(number) for number in (0, 2, 3)] == [["0", "1"], ["4", "5"], ["6"]]
    assert len(opened) == 1
    assert reader.read(1) == ["2", "3"]
    assert len(opened) == 2


def test_a_part_appears_whole_and_after_its_notes(tmp_path):
    folder = PartFolder(tmp_path, ".txt")
    folder.write(1, Part(["é", "b"], messages=["a line is odd"]))
    assert folder.part(1).read_bytes() == "é\nb\n".encode()
    assert folder.missing(3) == [0, 2]
    assert folder.read_notes().messages == ["a line is odd"]
    (tmp_path / ".draft-part-000000.txt.1").write_text("half")
    folder.drop_drafts()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes-000001.json", "part-000001.txt"]


def test_a_folder_goes_on_with_the_same_request_only(tmp_path):
    folder = PartFolder(tmp_path / "out", ".txt")
    assert _open_folder(folder, "digest", 2) == [0, 1]
    folder.write(0, Part(["a"]))
    assert _open_folder(folder, "digest", 2) == [1]
    with pytest.raises(ValueError, match="out holds the answers to another request: name a new folder"):
        _open_folder(folder, "another", 2)


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "fr.txt.gz"
    texts = ["Le roi dort.", "", "12", "Le chat mange bien.", "La reine lit."]
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    return path


@pytest.mark.parametrize("settings", [{"sample": True}, {"nbest": 2, "beams": 4}])
def test_parts_are_the_lines_of_one_machine(lines, tmp_path, settings, monkeypatch):
    """With blocks as large as parts; each line keeps its number and its seed."""
    monkeypatch.setattr("regard.cli.translate.BLOCK_SIZE", 2)
    output, flags = tmp_path / "one.txt", [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    words = [word for flag in flags for word in ("-s", flag)]
    assert run(["translate", str(SMALL), "-i", str(lines), "-o", str(output), "--device", "cpu", *words]) == 0
    load = partial(recipe.load, SMALL, device="cpu", task="translation")
    request = AnswerRequest([], lines, tmp_path, None, False, SMALL)
    form = answer_form(load(), request, settings)
    work = PartWork(load, partial(read_texts, request), partial(translate_texts, form, False, None, settings), 2)
    folder = PartFolder(tmp_path, ".txt")
    assert PartWorker(work, folder, str(Path.cwd()))({"part": [2, 0, 1]}) == {"error": ["", "", ""]}
    assert b"".join(folder.part(number).read_bytes() for number in range(3)) == output.read_bytes()
    assert folder.read_notes().counts["copied"] == 1


def test_a_worker_says_what_went_wrong(lines, tmp_path):
    request = AnswerRequest([], lines, tmp_path, None, True, SMALL)
    answer = partial(answer_texts, AnswerForm(), True, {"beams": 0})
    work = PartWork(partial(recipe.load, SMALL, device="cpu"), partial(read_texts, request), answer, 2)
    outcome = PartWorker(work, PartFolder(tmp_path, ".jsonl"), str(Path.cwd()))({"part": [0]})
    assert "beams" in outcome["error"][0]
    assert not list(tmp_path.glob("part-*"))


def test_counts_keep_their_names():
    counts = AnswerCounts(copied=2, unfinished=1)
    counts.unknown_languages["de"] = 3
    assert read_counts(write_counts(counts)) == counts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Bonjour", "--ray", "-o", "out"], "--ray answers a file in parts"),
        (["-i", "FILE", "-o", "taken", "--ray"], "taken holds other files: name a new folder"),
        (["-i", "FILE", "-o", "out.csv", "--ray"], "parts are lines of text or of JSON"),
        (["-i", "FILE", "-o", "out", "--ray", "--html"], "--ray translates lines"),
        (["-i", "none.txt", "-o", "out", "--ray"], "none.txt: no such file"),
        (["-i", "FILE", "-o", "out", "--ray=here"], "here is no address of Ray"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_before_it_is_started(lines, tmp_path, monkeypatch, capsys, words, message):
    pytest.importorskip("ray", reason="ray is not installed (pip install -e '.[ray]')")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("mine")
    assert run(["translate", str(SMALL), *(str(lines) if word == "FILE" else word for word in words)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replicas", "2"], "--replicas 2 is for a cluster: add --ray"),
        (["--ray", "--replicas", "4:1"], "--replicas 4:1: give a number"),
        (["--ray", "--jobs", "jobs"], "--jobs is for one server"),
    ],
)
def test_what_replicas_cannot_do_is_refused(words, message, capsys):
    pytest.importorskip("ray", reason="ray is not installed (pip install -e '.[ray]')")
    assert run(["serve", str(SMALL), *words]) == 1
    assert message in capsys.readouterr().err
