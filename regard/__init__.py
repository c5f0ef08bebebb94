"""Regard: train attention models on your own data, use them, and look inside.

`load` opens a trained model, `train` trains one, `watch` shows where it looks, `explore` opens it in the browser,
`prompt` puts a task to a language model. Importing this package imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config.former_python_names import install_former_modules
from regard.interpret.notebook import hint_once, in_kernel, register_linker

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn

    from regard.interpret.watch import AttentionRecord
    from regard.recipe import Outcome
    from regard.serve.explore import Explorer, Model
    from regard.serve.notebook import NotebookExplorer
    from regard.tasks.trained import Face
    from regard.training.task import Task

__version__ = "0.2.0"
__all__ = ["__version__", "explore", "load", "prompt", "train", "watch"]

install_former_modules()


def load(
    directory: str | Path | Sequence[str | Path] | None = None,
    *,
    device: str = "auto",
    task: str | tuple[str, ...] | None = None,
    trained: type[Face] | None = None,
) -> Any:
    """Open a checkpoint directory, or the best one of a run folder: `load("runs/demo").translate("Bonjour.")`.

    Models that come with Regard go by their names, which `regard models` lists: `load("en-fr")`. Without a directory it
    is the translator: `load().translate("Good morning.")`. Several translators that share a vocabulary are an ensemble:
    `load(["runs/a", "runs/b"]).translate("Bonjour.")`. A `task` is what the model must have learnt, or be able to
    do with what it has learnt: `load("runs/a", task="masked-lm").fill("a [MASK]")`; of several, one.
    A class of your own opens the folder as `trained`: `load("runs/a", trained=MyClassifier)`. Derive it from the class
    of a task or from `Face` of `regard.tasks.trained`.
    """
    from regard import recipe
    from regard.config.python_names import python_call

    with python_call():
        return recipe.load(directory, device=device, task=task, trained=trained)


def train(
    recipe: str | Path | Mapping[str, Any] | Sequence[str | Path],
    *settings: str,
    out: str | Path | None = None,
    kind: str | None = None,
    valid: str | Path | Sequence[str | Path] = (),
    to: str | None = None,
    task: type[Task] | None = None,
    **options: Any,
) -> Outcome:
    """Train on files, `train(["a.fr", "a.en"])`, or from a recipe: a YAML file or a mapping.

    Settings such as "training.epochs=20" change the recipe. The kind of the files is recognised, or set by `kind`:
    pairs, labelled, text, tagged or table; `valid` are validation files, `to` is the target language of translations.
    Without `out` the run is saved in runs/NAME. Other options are those of `regard.recipe.train`: resume, overwrite,
    start, quiet, and callbacks, which are called on steps, evaluations and checkpoints.

    A `task` is a class of your own, derived from `regard.training.task.Task`: `train(recipe, task=MyTask)`.
    """
    from regard import recipe as recipes
    from regard.config.python_names import python_call
    from regard.tasks.inputs import FILE, check_path, list_inputs
    from regard.training.task import Given

    with python_call():
        files = list_inputs(valid, FILE, verb="valid")
        inputs = Given((), valid=tuple(map(str, files)), kind=kind, to=to)
        out = None if out is None else check_path(out, "the folder of a run is given by its name")
        return recipes.train(recipes.order(recipe, *settings, inputs=inputs, task=task), out=out, **options)


def prompt(
    model: Any, template: str | Path | Mapping[str, Any], texts: str | Sequence[Any] | None = None, **settings: Any
) -> Any:
    """Put a task to a language model without training: `prompt("runs/gpt", "sentiment", "A great film.").label`.

    The model is a folder or a loaded model; the template is a YAML file, the name of one that comes with Regard, or a
    mapping, and `settings` override it. Two texts are a pair, `[("a", "b")]`. Without texts, return the model with its
    template, whose `answer` and `evaluate` can be called repeatedly.
    """
    from regard import config, recipe
    from regard.tasks.prompting import prompter
    from regard.tasks.prompting.template import build, find
    from regard.tasks.trained import Trained

    template_settings = template if isinstance(template, Mapping) else config.read(find(template))
    how = build({**template_settings, **settings}, name="template" if isinstance(template, Mapping) else str(template))
    opened = model if isinstance(model, Trained) else recipe.load_for_prompts(model)
    return prompter.prompt(opened, how, texts)


def watch(model: nn.Module) -> AbstractContextManager[AttentionRecord]:
    """Collect the weights of every attention of a model: `with watch(translator.model) as seen: ...`."""
    from regard.interpret.watch import watch

    return watch(model)


def explore(
    model: Model | Sequence[Model] | None = None, *, device: str = "auto", port: int = 0, browser: bool = True
) -> Explorer | NotebookExplorer:
    """Open a model in the browser: use it, and see where it looked. `explore("runs/demo")`, `explore(trained)`.

    The model is a folder, the name of one that comes with Regard, a loaded model, or a list of these; without one it is
    all that come with Regard. A server is started in a thread, at a free port of this machine, which others cannot
    reach. Its address is printed and opened in a browser, unless `browser=False`. `.url` is the address, and `.stop()`
    ends the server; in `with regard.explore(...) as explorer:` it ends by itself.

    In a notebook, where the package `anywidget` is installed, the page stands below the cell instead, and its kernel
    answers without a port; with a `port`, or `browser=False`, it is a server there too.
    """
    from regard.config.python_names import python_call

    hint = ""
    with python_call():
        if in_kernel() and browser and not port:
            try:
                from regard.serve.notebook import explore_in_notebook

                return explore_in_notebook(model, device=device)
            except ModuleNotFoundError as error:
                _check_optional(error)
                hint = hint_once()
        try:
            from regard.serve.explore import open_explorer
        except ModuleNotFoundError as error:
            _check_optional(error)
            raise ValueError(f"{error.name} is missing: pip install 'regard[serve]'") from None
        return open_explorer(model, device=device, port=port, browser=browser, hint=hint)


def _check_optional(error: ModuleNotFoundError) -> None:
    """Raise the error again if what is missing is a part of Regard."""
    if str(error.name).partition(".")[0] == "regard":
        raise error


def _link_model(trained: Any) -> str:
    """Return the id by which pages in a notebook reach a model."""
    from regard.serve.notebook import link_model

    return link_model(trained)


register_linker(_link_model)
