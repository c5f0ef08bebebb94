"""The pages about serving are true: the limits are those of the code, every example runs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from regard.cli import app
from regard.serve.limits import describe_limits
from tests.documents import ROOT, blocks
from tests.packages import require
from tests.serve.process import PATIENCE, ServerProcess

pytestmark = pytest.mark.unchecked
ADDRESS = "http://127.0.0.1:8000"
PAGE = ROOT / "docs" / "serve.md"
LINES = [line for block in blocks(PAGE, "console") for line in block.lines if line.startswith("curl ")]


def test_the_page_has_every_limit_with_its_default_and_meaning():
    page = PAGE.read_text(encoding="utf-8")
    rows = [f"| `{name}` | {default} | {help} |" for name, default, help in describe_limits()]
    assert "\n".join(rows) in page


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\W+", "-", line[27:60]))
def test_every_curl_line_is_answered(served, line):
    words = ["--silent", "--show-error", "--fail", "--noproxy", "*", *shlex.split(relocate(line, served))[1:]]
    done = subprocess.run(["curl", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "error" not in done.stdout
    if line == LINES[0]:
        assert done.stdout == re.search(r"The first answers `(\{.+\})`", PAGE.read_text(encoding="utf-8"))[1]


def relocate(text: str, server: ServerProcess) -> str:
    """Return an example with the address of a server of the tests."""
    return text.replace(ADDRESS, server.url)


def examples() -> list[tuple[str, str | None]]:
    """Return every Python example of the page with what it prints, where the page shows that."""
    shown = blocks(PAGE, "py", "text")
    following = [*shown[1:], None]
    return [
        (block.text, after.text if after is not None and after.language == "text" else None)
        for block, after in zip(shown, following, strict=True)
        if block.language == "py"
    ]


@pytest.mark.parametrize(("code", "output"), examples(), ids=lambda text: (text or "")[:40].split("\n")[0])
def test_every_example_in_python_prints_what_the_page_shows(served, path_of_regard, code, output):
    for module in re.findall(r"^from (\w+) import", code, re.MULTILINE):
        require(module)
    path = f"{path_of_regard}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "PATH": path}
    program = [sys.executable, "-c", relocate(code, served)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if output is not None:
        assert done.stdout == output


@pytest.fixture(scope="module")
def path_of_regard(tmp_path_factory) -> Path:
    """A folder with a `regard` that is the one under test, wherever it is installed."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "regard"
    script.write_text(f"""#!/bin/sh\nPYTHONPATH='{ROOT}' OMP_NUM_THREADS=1 exec '{sys.executable}' -m regard "$@"\n""")
    script.chmod(0o755)
    return folder


def test_the_tests_that_hold_what_is_promised_are_there():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    _, serving = page.split("\n## Serving\n")
    rows = [
        line for line in serving.partition("\n## ")[0].splitlines() if line.startswith("| ") and "held by" not in line
    ]
    named = [re.findall(r"`(tests/[\w/]+\.py)`", row) for row in rows[1:]]
    assert len(named) >= 22
    assert all(named)
    assert not [path for paths in named for path in paths if not (ROOT / path).is_file()]


@pytest.mark.parametrize("page", [PAGE, ROOT / "docs" / "commands" / "mcp.md"], ids=lambda page: page.stem)
def test_the_settings_of_an_assistant_start_a_command_that_exists(page):
    [block] = blocks(page, "json")
    [entry] = json.loads(block.text)["mcpServers"].values()
    command = typer.main.get_command(app).commands["mcp"]
    assert (entry["command"], entry["args"][0]) == ("regard", "mcp")
    command.make_context("mcp", entry["args"][1:])
