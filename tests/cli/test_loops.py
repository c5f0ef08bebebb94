"""A link that leads to itself, given as any file or folder, is answered with one line."""

import pytest

from regard.cli import run

COMMANDS = [
    ["train", "--source", "loop", "--target", "other.txt"],
    ["train", "--source", "loop", "--target", "loop"],
    ["train", "loop"],
    ["train", "--text", "loop"],
    ["train", "--pictures", "loop"],
    ["train", "--captions", "loop"],
    ["train", "--tables", "loop", "--labels", "loop"],
    ["train", "--edges", "loop", "--nodes", "loop"],
    ["train", "--text", "other.txt", "--from", "loop"],
    ["train", "--text", "other.txt", "--out", "loop"],
    ["train", "--resume", "--out", "loop"],
    ["translate", "-i", "loop"],
    ["translate", "loop", "a"],
    ["import", "loop", "out"],
    ["import", "other", "loop"],
    ["export", "loop", "out"],
    ["runs", "loop"],
    ["data", "check", "loop"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_link_to_itself_is_one_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "other.txt").write_text("one line\n" * 30, encoding="utf-8")
    status = run(command)
    stderr = capsys.readouterr().err.strip().splitlines()
    assert status in (0, 1, 2)
    assert status == 0 or len([line for line in stderr if line.startswith("regard: ")]) == 1, stderr
    assert not any("Traceback" in line for line in stderr)
