"""Hooks of the documentation site (`make docs`): source files that a page links to are published beside the pages."""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)(?:#[^)]*)?\)")
OUTSIDE = "source"  # the folder of the site where files from outside docs/ are


def find_source(page: str, link: str) -> Path | None:
    """Return the file or folder outside docs/ that a link of a page leads to, or None for a link to another page."""
    target = Path(os.path.normpath(ROOT / "docs" / posixpath.dirname(page) / link))
    inside = target.is_relative_to(ROOT / "docs") or not target.is_relative_to(ROOT)
    return None if inside or not target.exists() else target


def published_name(target: Path) -> str:
    """Return where a source file is published; browsers show a file of this ending as text."""
    return f"{OUTSIDE}/{target.relative_to(ROOT).as_posix()}.txt"


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Publish every source file that a page links to."""
    for page in [file for file in files if file.is_documentation_page()]:
        for _text, link in LINK.findall(page.content_string):
            target = find_source(page.src_uri, link)
            if target is not None and target.is_file() and (name := published_name(target)) not in files.src_uris:
                files.append(File.generated(config, name, abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to source files to their published copies; of a link to a folder only its text stays."""

    def replace(match: re.Match[str]) -> str:
        target = find_source(page.file.src_uri, match[2])
        if target is None or target.is_dir():
            return match[0] if target is None else match[1]
        path = posixpath.relpath(published_name(target), posixpath.dirname(page.file.src_uri) or ".")
        return f"[{match[1]}]({path})"

    return LINK.sub(replace, markdown)
