"""The model view of bertviz beside the explorer: the same weights, the same browser, its scripts from a local disk."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from benchmarks.explorer_cases import PROBE
from regard.interpret.trace import Trace

PATIENCE = 300_000  # milliseconds
PACKAGES = {  # what its page fetches from elsewhere, as npm has it
    "require": ("requirejs@2.3.6", "package/require.js"),
    "d3": ("d3@5.7.0", "package/dist/d3.min.js"),
    "jquery": ("jquery@2.2.4", "package/dist/jquery.min.js"),
}
FETCHED = re.compile(r"(?:https?:)?//[^'\"\s]*?/(require|d3|jquery)(?:\.min)?(?:\.js)?(?=['\"])")
DRAWN = "() => document.querySelectorAll('.attn_background').length === 144"


class Unavailable(Exception):
    """Why bertviz cannot be measured here."""


def measure_bertviz(browser: Any, trace: Trace, folder: Path) -> dict[str, Any]:
    """Return the milliseconds until all heads of a trace are drawn, or why that was not measured."""
    try:
        path = write_page(trace, folder)
    except Unavailable as reason:
        return {"missing": str(reason)}
    page = browser.new_page(viewport={"width": 1280, "height": 4000})
    page.add_init_script(PROBE.read_text(encoding="utf-8"))
    size = {"megabytes": path.stat().st_size / 1e6}
    try:
        page.goto(path.as_uri(), wait_until="commit", timeout=PATIENCE)
        drawn = page.evaluate(f"() => probe.until({DRAWN})")
        lines = page.evaluate("() => document.querySelectorAll('line').length")
        return {"drawn_ms": drawn, "lines": lines, **size}
    except Exception as error:
        if "not within" in str(error) or "Timeout" in type(error).__name__:
            return {"more_than_ms": PATIENCE, **size}
        return {"missing": f"its page failed: {str(error).splitlines()[0]}", **size}
    finally:
        page.close()


def write_page(trace: Trace, folder: Path) -> Path:
    """Write the page of bertviz's model view, with its scripts beside it."""
    try:
        from bertviz import model_view
    except ImportError as error:
        raise Unavailable(f"bertviz cannot be imported: {error}") from error
    folder.mkdir()
    fetch_scripts(folder)
    tokens = [item.text.strip() for item in trace.items["source"]]
    weights = [attention.values[None] for attention in trace.weights]
    view = model_view(weights, tokens, html_action="return").data
    if {place[1] for place in FETCHED.finditer(view)} != set(PACKAGES):
        raise Unavailable("its page fetches other scripts than require.js, d3 and jquery")
    text = FETCHED.sub(lambda place: f"{place[1]}.js" if place[0].endswith(".js") else place[1], view)
    path = folder / "bertviz.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{text}</body>", encoding="utf-8")
    return path


def fetch_scripts(folder: Path) -> None:
    """Get the scripts that the page needs from npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm, which has the scripts of its page, is not installed")
    for name, (package, member) in PACKAGES.items():
        packed = subprocess.run(
            [npm, "pack", package, "--silent"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
        )
        if packed.returncode:
            raise Unavailable(f"npm pack {package} failed: {packed.stderr.strip()[:200]}")
        with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
            content = archive.extractfile(member)
            assert content is not None
            (folder / f"{name}.js").write_bytes(content.read())
