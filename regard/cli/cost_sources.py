"""What `regard cost` estimates: the config of a preset, a recipe or a checkpoint, and what its run measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.training.run_facts import RunFacts

SIZES_FROM_DATA = ("classes", "inputs", "outputs", "size", "most")  # sizes that follow from the data alone
SIZE_SETTINGS = ("preset", "width", "channels", "hidden")  # settings of the size of a model


def find_run_facts(model: str) -> RunFacts | None:
    """Return the facts of the run that a model lies in; of a comparison, those of the run of its best model."""
    from regard import cost as costs
    from regard.training.comparison import is_comparison, read_result
    from regard.training.run_facts import read_run_facts

    folder = Path(model)
    if model in costs.presets() or not folder.is_dir():
        return None
    if is_comparison(folder):
        return read_run_facts(folder / str(read_result(folder).get("best", "")))
    run_folder = folder.resolve().parents[1 if folder.resolve().parent.name == "checkpoints" else 0]
    return read_run_facts(run_folder if (run_folder / "metrics.jsonl").is_file() else folder)


def plan_settings_of_run(run_facts: RunFacts, model_config: Any, *, on_other_gpu: bool) -> dict[str, Any]:
    """Return the settings of a plan as a run had them, or as it would have them on another GPU."""
    from regard import cost as costs

    settings: dict[str, Any] = {"steps": run_facts.steps, "optimizer": run_facts.optimizer, "rank": run_facts.rank}
    if not on_other_gpu:
        settings |= {"count": run_facts.processes, "precision": run_facts.precision}
    if run_facts.lengths is not None:
        settings |= dict(zip(("length", "target"), run_facts.lengths, strict=True))
    if (gpu := costs.known_gpu(run_facts.device)) is not None:
        settings["gpu"] = gpu
    lengths = settings.get("length"), settings.get("target")
    units = costs.units_of(model_config, *lengths) if run_facts.unit == "tokens" else 1
    return {**settings, "batch": max(1, round(run_facts.units_per_step / units))}


def plan_settings_of_recipe(model: str, model_config: Any, plan_settings: dict[str, Any]) -> dict[str, Any]:
    """Return the steps and the batch that a recipe sets, its sequences being as long as planned."""
    from regard import config, recipe
    from regard import cost as costs

    path = Path(model)
    if model in costs.presets() or not path.is_file():
        return {}
    _, resolved = recipe.resolve(recipe.settings(path))
    training, data = resolved.training, config.plain(resolved.data)
    settings: dict[str, Any] = {} if training.epochs is not None else {"steps": training.steps}
    if "batch_tokens" in data:
        plan = config.build(costs.Plan, plan_settings)
        settings["batch"] = training.accumulate * costs.sequences_in(model_config, data["batch_tokens"], plan)
    elif "batch_size" in data:
        settings["batch"] = training.accumulate * data["batch_size"]
    return settings


def find_model_config(model: str) -> Any:
    """Return the config of a preset, of a recipe file, or of the model in a run folder or a checkpoint."""
    from regard import cost as costs
    from regard.config.words import suggest_name
    from regard.training.comparison import model_folder

    presets = costs.presets()
    if model in presets:
        return costs.preset(model)
    path = model_folder(Path(model))
    if path.is_file():
        return _config_of_recipe(path)
    if (path / "config.yaml").is_file():
        return _config_of_checkpoint(path)
    suggestion = suggest_name(model, [*presets, *costs.PUBLISHED])
    raise ValueError(f"{model} is neither a recipe file, a run folder, a checkpoint nor a preset{suggestion}")


def _config_of_checkpoint(path: Path) -> Any:
    """Return the config of a trained model, completed by the sizes of its weights."""
    from regard import config, models, recipe
    from regard.models.interface import Model

    model_config = models.config_of(models.modernise_settings(config.read(path / "config.yaml"))["model"])
    model_class = models.MODELS[model_config.name][0]
    if not issubclass(model_class, Model):
        return model_config
    return model_class.read_sizes(model_config, recipe.open_model(path).tensors())


def _config_of_recipe(path: Path) -> Any:
    """Return the config of a recipe that sets the size of its model."""
    from regard import config, recipe
    from regard import cost as costs
    from regard.config.merging import AUTO

    settings = recipe.settings(path)
    _, resolved = recipe.resolve(settings)
    model_config, model_settings = resolved.model, settings.get("model") or {}
    sizes = config.plain(model_config)
    has_size = any(name in model_settings and model_settings[name] != AUTO for name in SIZE_SETTINGS)
    if not model_config.sizes_known or not has_size or any(sizes.get(name) == 0 for name in SIZES_FROM_DATA):
        raise ValueError(f"{path}: the sizes of this model follow from its data, train it and give its run folder")
    if "vocab" not in sizes:
        return model_config
    vocab = sizes["vocab"] or resolved.tokenizer.vocab or costs.VOCAB
    return config.build(type(model_config), {**sizes, "vocab": vocab})
