"""A look in JupyterLab itself, where that is installed: live, live again after a reload, static without its kernel."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import regard

pytestmark = [pytest.mark.slow, pytest.mark.unchecked]
ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "checkpoints" / "format-1"
SENTENCE, OTHER = "Le chat noir dort.", "Le chien dort."
CELL = f"import regard\nmodel = regard.load({str(SMALL)!r})\nmodel.look({SENTENCE!r})"
FRAME = "iframe[data-regard]"


@dataclass
class Lab:
    """A running JupyterLab with one notebook."""

    url: str
    folder: Path

    def end_kernels(self) -> None:
        """End the kernels of all notebooks."""
        with urllib.request.urlopen(f"{self.url}/api/sessions") as answer:
            for session in json.load(answer):
                address = f"{self.url}/api/sessions/{session['id']}"
                urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """JupyterLab, which takes the widgets of this Python and runs its kernels."""
    program = shutil.which("jupyter-lab")
    if program is None:
        pytest.skip("JupyterLab is not installed (pip install jupyterlab)")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (pip install -e '.[test]')")
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "regard",
        "language": "python",
        "env": {"PYTHONPATH": str(ROOT)},
    }
    (tmp_path / "kernels" / "regard").mkdir(parents=True)
    (tmp_path / "kernels" / "regard" / "kernel.json").write_text(json.dumps(spec))
    (tmp_path / "work").mkdir()
    cells = [nbformat.v4.new_code_cell(CELL)]
    kernel = {"name": "regard", "display_name": "regard", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(metadata={"kernelspec": kernel}, cells=cells), tmp_path / "work" / "a.ipynb"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = {"CONFIG_DIR": "config", "DATA_DIR": "data", "RUNTIME_DIR": "runtime"}
    places = {f"JUPYTER_{name}": str(tmp_path / place) for name, place in names.items()}
    paths = os.pathsep.join([str(tmp_path), str(Path(sys.prefix) / "share" / "jupyter")])
    settings = {"port": port, "root_dir": tmp_path / "work", "disable_check_xsrf": True, "port_retries": 0}
    words = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    command = [program, "--no-browser", "--allow-root", "--IdentityProvider.token=", *words]
    environment = {**os.environ, **places, "JUPYTER_PATH": paths}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/api", tmp_path / "log")
        yield Lab(f"http://127.0.0.1:{port}", tmp_path / "work")
    finally:
        process.terminate()
        process.wait(60)


def wait_until_up(address: str, log: Path) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)


def open_notebook(browser: Any, lab: Lab, name: str, workspace: str) -> Any:
    """Open a notebook in a window of its own, and return the page."""
    page = browser.new_context(viewport={"width": 1280, "height": 1000}).new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{lab.url}/lab/workspaces/{workspace}/tree/{name}")
    page.locator(".jp-CodeCell").first.wait_for()
    return page


def execute_first_cell(page: Any) -> None:
    """Execute the first cell, again if JupyterLab lost that because its kernel was not connected yet."""
    prompt = page.locator(".jp-InputPrompt").first
    for _ in range(20):
        while page.locator(".jp-Dialog").count():  # such as that the kernel is not ready yet
            page.locator(".jp-Dialog .jp-mod-accept").first.click()
            page.wait_for_timeout(500)
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(3000)
        if prompt.inner_text().strip("[]: "):
            return
    raise AssertionError("the cell is not executed")


def test_a_look_in_jupyterlab_is_live_and_without_its_kernel_static(browser: Any, lab: Lab):
    page = open_notebook(browser, lab, "a.ipynb", "a")
    execute_first_cell(page)
    look = page.frame_locator(FRAME)
    look.locator("#matrix").wait_for()
    look.locator("[data-screen=use]").click()
    look.locator(".use-text.row").wait_for()
    look.locator("textarea").first.fill(OTHER)
    look.locator("#read", has_text=regard.load(SMALL).translate(OTHER)).wait_for()
    page.locator("[data-command='docmanager:save']").first.click()
    wait_for_output(lab.folder / "a.ipynb")
    again = open_notebook(browser, lab, "a.ipynb", "b")
    again.frame_locator(FRAME).locator("[data-screen=use]").wait_for()  # in another window, with the same kernel
    lab.end_kernels()
    (lab.folder / "saved.ipynb").write_bytes((lab.folder / "a.ipynb").read_bytes())
    saved = open_notebook(browser, lab, "saved.ipynb", "c").frame_locator(FRAME)
    saved.locator("#matrix").wait_for()
    saved.locator("#kernel", has_text="The kernel does not answer").wait_for()
    assert saved.locator("[data-screen=use]").count() == 0


def wait_for_output(path: Path) -> None:
    """Wait until a saved notebook holds the page."""
    deadline = time.monotonic() + 60
    while "data-regard" not in path.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline, "the notebook was not saved"
        time.sleep(0.2)
