"""Settings under names of earlier versions and under short ones mean what those of today mean."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import checkpoint, config, recipe
from regard.config import aliases
from regard.config.fields import default_of, hints, sections
from regard.config.former_names import FORMER, ONLY, RELEASED
from regard.models import modernise_settings
from regard.tasks import TASKS

CHECKPOINTS = Path(__file__).parent / "checkpoints"
PRETRAINED = Path(regard.__file__).parent / "pretrained"
REQUIRED: dict[str, dict[str, Any]] = {
    "regression": {"train": "a.csv", "target": "y"},
    "omics": {"train": ["a.csv", "b.csv"], "labels": "labels.csv"},
    "node-classification": {"train": {"path": "a.npz"}},
    **{name: {} for name in ("counting", "localisation", "remembering")},
}
PAIRS = {"task": "translation", "data": {"train": {"source": "a.fr", "target": "a.en"}}}


def defaults(cls: type, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting below a dataclass that has a value of its own, with that value."""
    for field in dataclasses.fields(cls):
        name, value = f"{where}.{field.name}".strip("."), default_of(field)
        inner = next(sections(hints(cls)[field.name]), None)
        if inner is not None and name.split(".")[0] in (
            "optim",
            "training",
            "objective",
            "tuning",
            "data",
            "tokenizer",
        ):
            yield from defaults(inner, name)
        elif value is not dataclasses.MISSING:
            yield name, value


def former_names(task: str) -> dict[str, tuple[str, Any]]:
    """The settings of a task that had another name: the former one, with today's name and its default."""
    known = dict(defaults(TASKS[task].task.Recipe))
    found = {}
    for former, targets in FORMER.items():
        current = next((target for target in targets if target in known), None)
        if current and former not in known:
            found[former] = current, known[current]
    return found


def nested(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A recipe of a task with these settings, whose names are full ones."""
    data = REQUIRED.get(task, {"train": {"source": "a", "target": "b"}} if "text-to" in task else {"train": "a.txt"})
    if task in ("translation", "matching"):
        data = {"train": {"source": "a", "target": "b"}}
    whole: dict[str, Any] = {"task": task, "data": dict(data)}
    for name, value in settings.items():
        *path, last = name.split(".")
        section = whole
        for part in path:
            section = section.setdefault(part, {})
        section[last] = value
    return config.plain(whole)


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_of_former_names_equals_one_of_current_names(task):
    names = former_names(task)
    oldest = {current: former for former, (current, _) in reversed(names.items())}  # of several the first in the table
    assert oldest, "every task has a learning rate, or something else that had another name"
    values = {current: names[former][1] for current, former in oldest.items()}
    former = nested(task, {former: values[current] for current, former in oldest.items()})
    current = nested(task, values)
    assert former != current
    assert recipe.resolve(former) == recipe.resolve(current)
    assert recipe.settings(former) == recipe.order(former).settings == current
    assert modernise_settings(former) == modernise_settings(current) == current
    kind = TASKS[task].task.Recipe
    assert config.rename_former_settings(kind, former) == current
    for name, (target, _) in names.items():
        assert config.rename_former_changes(kind, [f"{name}=1"]) == [f"{target}=1"]


def test_the_tasks_of_former_names_are_there():
    assert set(RELEASED) - {"few-shot"} == set(TASKS)
    assert {task for tasks in ONLY.values() for task in tasks} <= set(TASKS)


def test_every_former_name_leads_to_a_setting_and_hides_none():
    by_task = [aliases.names(entry.task.Recipe) for entry in TASKS.values()]
    for former, targets in FORMER.items():
        if not former.startswith(("few.", "options.")):  # which no recipe has
            for target in targets:
                assert any(target in known for known in by_task), f"{former} leads nowhere by {target}"
            hidden = [known for known in by_task if former in known and not known.isdisjoint(targets)]
            assert not hidden, f"{former} is a setting beside {targets}"


def test_a_former_value_answers_with_the_current_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(aliases, "FORMER_VALUES", {("model.name", "gru"): ("seq2seq",)})
    with pytest.raises(ValueError, match=r"^model\.name: gru is called seq2seq here$"):
        recipe.resolve(PAIRS | {"model": {"name": "gru"}})


def test_renaming_leaves_what_it_was_given_alone():
    settings = PAIRS | {"training": {"rows": 5, "log": 1}}
    renamed = config.rename_former_settings(TASKS["translation"].task.Recipe, settings)
    assert renamed["training"] == {"accumulate": 5, "log_every": 1}
    assert settings["training"] == {"rows": 5, "log": 1}


@pytest.mark.parametrize("in_file", ["rate", "lr", "learning_rate"])
@pytest.mark.parametrize("said_later", ["rate", "lr", "learning_rate"])
def test_what_is_said_later_counts_whichever_name_it_uses(in_file, said_later, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(config.dump({**PAIRS, "optim": {in_file: 0.1, "warmup": 5}}), encoding="utf-8")
    for settings in (
        recipe.order(path, f"optim.{said_later}=0.2").settings,
        recipe.settings(path, f"optim.{said_later}=0.2"),
        recipe.order({**PAIRS, "optim": {in_file: 0.1, "warmup": 5}}, f"optim.{said_later}=0.2").settings,
        recipe.order(path, f"optim={{{said_later}: 0.2, warmup: 5}}").settings,
    ):
        assert settings["optim"] == {"learning_rate": 0.2, "warmup": 5}


@pytest.mark.parametrize("said_later", ["lr", "optim.lr", "optim.rate", "optim.learning_rate"])
def test_lr_alone_is_the_learning_rate(said_later, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(config.dump({**PAIRS, "lr": 0.1, "optim": {"warmup": 5}}), encoding="utf-8")
    assert recipe.order(path).settings["optim"] == {"warmup": 5, "learning_rate": 0.1}
    assert recipe.order(path, f"{said_later}=0.2").settings["optim"] == {"warmup": 5, "learning_rate": 0.2}
    assert recipe.resolve({**PAIRS, "lr": 0.3}) == recipe.resolve({**PAIRS, "optim": {"learning_rate": 0.3}})
    for both in ({"lr": 0.1, "optim": {"learning_rate": 0.1}}, {"lr": 0.1, "optim": {"lr": 0.1}}):
        with pytest.raises(ValueError, match=r"^lr and optim\.\w+ are two names of one setting: give only one"):
            recipe.resolve({**PAIRS, **both})


def test_lr_alone_is_refused_where_there_are_two_learning_rates():
    with pytest.raises(ValueError, match=r"^unknown setting lr"):
        recipe.resolve({"task": "gan", "data": {"train": "a.npz"}, "lr": 0.1})


@pytest.mark.parametrize("in_file", ["held", "validation_size"])
def test_a_former_name_means_what_its_task_says(in_file, tmp_path):
    settings = recipe.order({**PAIRS, "data": {**PAIRS["data"], in_file: 9}}, "data.held=7").settings
    assert settings["data"] == {**PAIRS["data"], "validation_size": 7}
    labels = {"task": "classification", "data": {"train": "a.tsv", "held": 0.2}}
    assert recipe.settings(labels, "data.held=0.3")["data"] == {"train": "a.tsv", "validation_share": 0.3}
    text = tmp_path / "a.txt"
    text.write_text("a text\n" * 50, encoding="utf-8")
    assert recipe.order(str(text), "data.held=0.3").settings["data"]["validation_share"] == 0.3


def test_two_names_of_one_setting_in_one_place_are_refused(tmp_path):
    said = "optim.rate and optim.learning_rate are two names of one setting: give only one of them"
    both = {**PAIRS, "optim": {"rate": 0.1, "learning_rate": 0.2}}
    path = tmp_path / "recipe.yaml"
    path.write_text(config.dump(both), encoding="utf-8")
    for ask in (
        lambda: recipe.order(path),
        lambda: recipe.order(PAIRS, "optim.rate=0.1", "optim.learning_rate=0.2"),
        lambda: recipe.resolve(both),
        lambda: recipe.train(both, out=tmp_path / "run", quiet=True),
        lambda: regard.train(both, out=tmp_path / "run", quiet=True),
    ):
        with pytest.raises(ValueError, match=f"^{said}$"):
            ask()
    assert not (tmp_path / "run").exists()
    changes = ("optim.rate=0.1", "optim.rate=0.2")
    assert recipe.settings(PAIRS, *changes)["optim"] == {"learning_rate": 0.2}, "the same name twice: the last counts"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("optim.learning_rte=1", "unknown setting optim.learning_rte, did you mean learning_rate?"),
        ("data.batch_token=1", "unknown setting data.batch_token, did you mean batch_tokens?"),
        ("training.evaluate_every=1", "unknown setting training.evaluate_every, did you mean eval_every?"),
        ("rate=1", "unknown setting rate: it is called optim.learning_rate here"),
        ("held=1", "unknown setting held: it is called data.validation_size here"),
        ("training.rate=1", "unknown setting training.rate: it is called optim.learning_rate here"),
    ],
)
def test_a_typo_is_answered_with_the_current_name(setting, said):
    with pytest.raises(ValueError) as error:
        recipe.resolve(config.override(PAIRS, [setting]))
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    "folder",
    [*sorted({*CHECKPOINTS.glob("*-1")} - {CHECKPOINTS / "shipped-1"}), *PRETRAINED.glob("*/")],
    ids=lambda folder: folder.name,
)
def test_a_checkpoint_of_an_earlier_version_has_current_names(folder):
    written, settings = config.read(folder / "config.yaml"), checkpoint.read(folder).config
    assert written["tokenizer"]["least"] == settings["tokenizer"]["min_frequency"], "it was written under former names"
    kind = TASKS[written["task"]].task.Recipe
    assert config.rename_former_settings(kind, settings) == settings
    assert recipe.load(folder, device="cpu").task == written["task"]


def rename_back(value: Any, where: str = "") -> Any:
    """Settings as an earlier version wrote them."""
    if not isinstance(value, dict):
        return value
    inner = {name: rename_back(entry, f"{where}.{name}".strip(".")) for name, entry in value.items()}
    return config.restore_former_names(inner, where=where)


@pytest.mark.parametrize("task", ["classification", "language"])
def test_a_run_of_former_names_goes_on_to_the_bit_and_unwarned(task, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("".join(f"{'good' if n % 2 else 'bad'} {n}\t{n % 2}\n" for n in range(40)), encoding="utf-8")
    model = {"width": 8, **({"name": "rnn-encoder", "embedding": 8} if task == "classification" else {})}
    settings = {
        "task": task,
        "data": {
            "train": str(text),
            "held": 0.2,
            **({"lanes": 2, "window": 8} if task == "language" else {"tokens": 64}),
        },
        "tokenizer": {"least": 1},
        "model": model,
        "optim": {"rate": 0.01, "warmup": 1, "schedule": "constant"},
        "training": {"steps": 4, "save": 1, "evaluate": 2, "log": 1, "tensorboard": False, "device": "cpu"},
    }
    whole = recipe.train(settings, out=tmp_path / "whole", quiet=True)
    out = recipe.train(recipe.settings(settings, "training.steps=2"), out=tmp_path / "cut", quiet=True).folder
    shutil.copytree(out, tmp_path / "other")
    written = rename_back(config.read(out / "config.yaml"))
    assert {"rate", "warmup"} <= written["optim"].keys()
    assert {"log", "evaluate", "save"} <= written["training"].keys()
    if task == "classification":
        (out / "config.yaml").write_text(config.dump(written), encoding="utf-8")
    for folder, first in ((out, settings), (tmp_path / "other", recipe.settings(settings))):
        recipe.train(recipe.settings(first, "training.log=1"), out=folder, resume=True, quiet=True)
        said = (folder / "train.log").read_text(encoding="utf-8")
        changed = [line.partition(": ")[2] for line in said.splitlines() if "changed since" in line]
        assert changed == ["training.steps: 2 -> 4"]
        ends = [checkpoint.read(place / "checkpoints" / "step-4").tensors() for place in (whole.folder, folder)]
        assert all(ends[0][name].equal(ends[1][name]) for name in ends[0])
    assert "log_every" in config.read(out / "config.yaml")["training"]


def test_options_and_parts_of_a_model_have_former_names_too():
    from regard.data.tokenizers.units import UnitsConfig
    from regard.tasks.embedding.few_shot import FewShotConfig
    from regard.tasks.embedding.pooling import EmbeddingConfig

    assert config.build(FewShotConfig, {"rate": 0.5}, where="few").learning_rate == 0.5
    assert config.build(EmbeddingConfig, {"longest": 7}, where="embedding").max_length == 7
    assert config.build(EmbeddingConfig, {"longest": 7}, where="options").max_length == 7
    assert config.section(TASKS["language"].task.Recipe, {"tokenizer": {"least": 3}}, "tokenizer").min_frequency == 3
    assert config.build(UnitsConfig, {"least": 2}, where="tokenizer").min_frequency == 2


def test_digests_are_made_of_former_names():
    settings = {"kind": "words", "min_frequency": 2, "max_length": 9}
    assert config.restore_former_names(settings, where="tokenizer") == {"kind": "words", "least": 2, "longest": 9}
    assert list(config.restore_former_names(settings, where="tokenizer")) == ["kind", "least", "longest"]
    assert config.restore_former_names({"batch_size": 2, "max_digits": 3}, where="data") == {"batch": 2, "most": 3}
