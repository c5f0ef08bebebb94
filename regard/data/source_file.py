"""The base of all recipe sections that name a file of examples."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.config.fields import Section

Unit = Literal["lines", "rows", "sentences"]
"""What an example is: a text or record of text, a row of numbers, or tagged words between blank lines."""


class SourceFile(Section):
    """A file of examples, which may be written as its path alone."""

    SHORT: ClassVar[str] = "path"
    example_unit: ClassVar[Unit | None] = None
    """What an example is where files are compared; None: they are compared as wholes."""
