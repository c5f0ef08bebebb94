"""Long files on a Ray cluster: the same bytes as from one machine, whoever is killed meanwhile."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import (
    ENVIRONMENT,
    PATIENCE,
    SMALL,
    descendants,
    named,
    running,
    wait_for,
    wait_until_gone,
)

pytest.importorskip("ray", reason="ray is not installed (pip install -e '.[ray]')")
pytestmark = [pytest.mark.cluster, pytest.mark.unchecked]
WORKER = "MapWorker"
LINES = 2000  # of 256 in a part


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("source") / "big.txt.gz"
    subjects, verbs = ("Le roi", "Le chat", "La reine", "Mon ami", "Le vieux chien"), ("dort", "mange", "lit", "chante")
    lines = [f"{subjects[n % 5]} {verbs[n % 4]} {'bien ' * (n % 7)}." if n % 11 else "" for n in range(LINES)]
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


@pytest.fixture(scope="module")
def expected(source) -> bytes:
    """What one machine writes."""
    output = source.parent / "one.jsonl"
    command = [sys.executable, "-m", "regard", "translate", str(SMALL), "-i", str(source), "-o", str(output)]
    done = subprocess.run([*command, "--device", "cpu"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output.read_bytes()


def words(source: Path, folder: Path) -> list[str]:
    """The command that is tested."""
    return ["translate", str(SMALL), "--ray", "-i", str(source), "-o", str(folder), "--json", "--device", "cpu"]


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.jsonl"))


def whole(folder: Path) -> bytes:
    assert not list(folder.glob(".draft-*"))
    return b"".join(part.read_bytes() for part in parts(folder))


def test_a_worker_that_is_killed_is_replaced(source, expected, tmp_path):
    folder, log = tmp_path / "out", tmp_path / "log"
    with running(log, *words(source, folder)) as process:
        [worker, *_] = wait_for(lambda: named(process, WORKER), process, log)
        wait_for(lambda: parts(folder), process, log)
        worker.kill()
        assert process.wait(PATIENCE) == 0, log.read_text()
    assert whole(folder) == expected
    assert f"{LINES:,} lines in 8 parts, whole in their order" in log.read_text()


def test_a_command_that_is_killed_goes_on_with_the_parts_that_are_there(source, expected, tmp_path):
    folder, log = tmp_path / "out", tmp_path / "log"
    with running(log, *words(source, folder)) as process:
        wait_for(lambda: parts(folder), process, log)
        family = descendants(process)
        process.kill()
        wait_until_gone(family)
    finished = {part: part.stat().st_ino for part in parts(folder)}
    assert 0 < len(finished) < 8, "it was killed in the middle"
    with running(log, *words(source, folder)) as process:
        assert process.wait(PATIENCE) == 0, log.read_text()
    assert f"continuing {folder}: {len(finished)} of 8 parts are there" in log.read_text()
    assert {part: part.stat().st_ino for part in finished} == finished
    assert whole(folder) == expected


def test_an_embedder_answers_in_parts_too(tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("A dog sleeps.\nUn chien dort.\n")
    one = [sys.executable, "-m", "regard", "embed", "encoder", "-i", str(texts), "--device", "cpu"]
    alone = subprocess.run(one, env=ENVIRONMENT, capture_output=True)
    folder, log = tmp_path / "out", tmp_path / "log"
    with running(log, "embed", "encoder", "--ray", "-i", str(texts), "-o", str(folder), "--device", "cpu") as process:
        assert process.wait(PATIENCE) == 0, log.read_text()
    assert whole(folder) == alone.stdout != b""


def test_an_error_in_a_worker_is_one_line(tmp_path):
    """The model is checked here, but a worker meets a text of too many tokens."""
    texts, folder, log = tmp_path / "texts.txt", tmp_path / "out", tmp_path / "log"
    texts.write_text("Le roi dort.\n" + "roi" * 5000 + "\n")
    arguments = ["translate", str(SMALL), "--ray", "-i", str(texts), "-o", str(folder), "-s", "split=false"]
    with running(log, *arguments, "--device", "cpu") as process:
        assert process.wait(PATIENCE) == 1, log.read_text()
    assert "Traceback" not in log.read_text()
    assert "tokens" in log.read_text().splitlines()[-1]
    assert not parts(folder)
