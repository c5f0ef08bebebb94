"""Regard: attention models trained on your own data, used and looked inside.

`load` opens a trained model, `train` makes one, `watch` shows where it looks. Importing this imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn

    from regard.interpret.watch import Seen
    from regard.recipe import Outcome

__version__ = "0.2.0"
__all__ = ["__version__", "load", "train", "watch"]


def load(
    directory: str | Path | None = None, *, device: str = "auto", task: str | tuple[str, ...] | None = None
) -> Any:
    """Open a checkpoint directory, or the best one of a run folder: `load("runs/demo").translate("Bonjour.")`.

    Without a directory it is the model that comes with Regard: `load().translate("Good morning.")`. A `task`
    is what the model must have learnt; of several, one.
    """
    from regard import recipe

    return recipe.load(directory, device=device, task=task)


def train(
    recipe: str | Path | Mapping[str, Any] | Sequence[str | Path],
    *settings: str,
    out: str | Path | None = None,
    kind: str | None = None,
    valid: str | Path | Sequence[str | Path] = (),
    to: str | None = None,
    **options: Any,
) -> Outcome:
    """Train on files, `train(["a.fr", "a.en"])`, or as a recipe says: a YAML file or the same as a mapping.

    Settings such as "model.width=256" change it. What files hold is seen, or said by `kind`: pairs, labelled, text,
    tagged or table; `valid` are files to measure on, `to` is the language of translations. Without `out` the run goes
    to runs/NAME. Other options are those of `regard.recipe.train`: resume, overwrite, start, quiet.
    """
    from regard import recipe as recipes
    from regard.training.task import Given

    files = (valid,) if isinstance(valid, (str, Path)) else valid
    given = Given((), valid=tuple(map(str, files)), kind=kind, to=to)
    return recipes.train(recipes.order(recipe, *settings, given=given), out=out, **options)


def watch(model: nn.Module) -> AbstractContextManager[Seen]:
    """Collect where every attention of a model looks: `with watch(translator.model) as seen: ...`."""
    from regard.interpret.watch import watch

    return watch(model)
