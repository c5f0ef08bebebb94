"""The model card: a README beside the weights that describes a model and its use."""

from __future__ import annotations

from collections.abc import Iterable


def model_card(title: str, facts: str, *, command: str, code: str, files: Iterable[str] = ()) -> str:
    """Return a card with what a model is, what it was trained on, and how to use it from the shell and in Python."""
    names = dict.fromkeys(name.rsplit("/", 1)[-1] for name in files)  # without folders, which are private
    training_files = "".join(f"- trained on `{name}`\n" for name in names)
    parts = [
        f"# {title}\n",
        f"{facts}\n",
        *([training_files] if training_files else []),
        f"Scores are in `metrics.json`. Use it with `{command}`, or in Python:\n",
        f'```python\nimport regard\n\nregard.load("DIRECTORY").{code}\n```\n',
    ]
    return "\n".join(parts)
