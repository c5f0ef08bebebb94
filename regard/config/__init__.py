"""Settings: YAML and `a.b=c` become frozen dataclasses; a typo is answered with the nearest name."""

from regard.config.checking import arguments, build, section, sections
from regard.config.describing import Field, describe
from regard.config.former_names import (
    rename_former_changes,
    rename_former_in_checkpoint,
    rename_former_settings,
    restore_former_names,
)
from regard.config.resuming import verdicts
from regard.config.text import LARGEST, dump, override, parse, plain, read

__all__ = [
    "LARGEST",
    "Field",
    "arguments",
    "build",
    "describe",
    "dump",
    "override",
    "parse",
    "plain",
    "read",
    "rename_former_changes",
    "rename_former_in_checkpoint",
    "rename_former_settings",
    "restore_former_names",
    "section",
    "sections",
    "verdicts",
]
