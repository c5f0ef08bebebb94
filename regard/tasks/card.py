"""The card of a model: what a stranger should know about it, in a few lines of Markdown beside its weights."""

from __future__ import annotations

from collections.abc import Iterable


def card(title: str, facts: str, *, command: str, code: str, files: Iterable[str] = ()) -> str:
    """What it is, what it was trained on, and how to use it from the shell and in Python."""
    names = dict.fromkeys(name.rsplit("/", 1)[-1] for name in files)  # where they lie is nobody's business
    listed = "".join(f"- trained on `{name}`\n" for name in names)
    parts = [
        f"# {title}\n",
        f"{facts}\n",
        *([listed] if listed else []),
        f"Scores are in `metrics.json`. Use it with `{command}`, or in Python:\n",
        f'```python\nimport regard\n\nregard.load("DIRECTORY").{code}\n```\n',
    ]
    return "\n".join(parts)
