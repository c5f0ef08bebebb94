"""What may change on resuming: each setting is refused, warned of or free; changed data is told down to the file."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import checkpoint, config, recipe
from regard.cli import run
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig
from regard.tasks import TASKS
from regard.tasks.rnn_lm.task import LanguageRecipe
from regard.tasks.translation.pairs import PairsConfig, prepare
from regard.tasks.translation.task import TranslationRecipe
from regard.training import compatibility as rules
from regard.training.compatibility import Changes, differences

CORPUS = {"source": "a.fr", "target": "a.en"}
RECIPE = config.plain(config.build(TranslationRecipe, {"data": {"train": CORPUS, "valid": CORPUS}}))
DATA = {
    "train": {"pairs": 15_115, "fingerprint": "a" * 64, "corpora": [{"files": ["a.fr", "a.en"], "read": 15_200}]},
    "valid": {"pairs": 300, "fingerprint": "b" * 64, "corpora": []},
    "vocab": {"source": 2000, "target": 2000},
}
DATA["train"]["corpora"][0]["sha256"] = ["1" * 64, "2" * 64]


def changes(before: Any, after: Any, *data: Any, recipe: type = TranslationRecipe) -> Changes:
    return rules.judge_changes(before, after, *data, verdicts=config.verdicts(recipe))


def names(entries: list[str]) -> list[str]:
    return [entry.partition(": ")[0] for entry in entries]


def changed(*overrides: str, data: Any = DATA) -> Changes:
    return changes(RECIPE, config.override(RECIPE, overrides), DATA, data)


def leaves(value: Any, name: str = "") -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, entry in value.items() for leaf in leaves(entry, f"{name}.{key}" if name else key)]
    return [name]


def test_nothing_changed_is_nothing_to_say():
    assert changes(RECIPE, copy.deepcopy(RECIPE), DATA, copy.deepcopy(DATA)) == Changes([], [], [])


@pytest.mark.parametrize(
    ("setting", "verdict", "entry"),
    [
        ("task=language", "refused", "task: translation -> language"),
        ("model.width=256", "refused", "model.width: 512 -> 256"),
        ("model.vocab=99", "refused", "model.vocab: 0 -> 99"),
        ("model.norm=pre", "refused", "model.norm: post -> pre"),
        ("model.positions=rotary", "refused", "model.positions: sinusoidal -> rotary"),
        ("tokenizer.kind=words", "refused", "tokenizer.kind: bpe -> words"),
        ("tokenizer.joint=false", "refused", "tokenizer.joint: true -> false"),
        ("optim.name=sgd", "refused", "optim.name: adam -> sgd"),  # its memory would not fit
        ("optim.learning_rate=0.5", "warned", "optim.learning_rate: 0.001 -> 0.5"),
        ("optim.schedule=cosine", "warned", "optim.schedule: inverse_root -> cosine"),
        ("optim.warmup=9", "warned", "optim.warmup: 400 -> 9"),
        ("training.steps=20000", "warned", "training.steps: 10000 -> 20000"),
        ("training.accumulate=2", "warned", "training.accumulate: 1 -> 2"),
        ("training.seed=1", "warned", "training.seed: 0 -> 1"),
        ("training.clip=null", "warned", "training.clip: 1.0 -> null"),
        ("training.precision=bfloat16", "warned", "training.precision: auto -> bfloat16"),
        ("data.batch_tokens=512", "warned", "data.batch_tokens: 2048 -> 512"),
        ("model.dropout=0.5", "warned", "model.dropout: 0.1 -> 0.5"),
        ("objective.label_smoothing=0", "warned", "objective.label_smoothing: 0.1 -> 0"),
        ("decoding.beams=5", "warned", "decoding.beams: 4 -> 5"),  # the best so far was measured otherwise
        ("training.surprise=1", "warned", "training.surprise: null -> 1"),  # a setting nobody thought of
        ("training.log_every=1", "free", "training.log_every: 50 -> 1"),
        ("training.eval_every=10", "free", "training.eval_every: 500 -> 10"),
        ("training.save_every=10", "free", "training.save_every: 500 -> 10"),
        ("training.seconds=10", "free", "training.seconds: null -> 10"),
        ("training.device=cuda", "free", "training.device: auto -> cuda"),
        ("training.tensorboard=false", "free", "training.tensorboard: true -> false"),
        ("data.reject=0.5", "free", "data.reject: 0.01 -> 0.5"),
        (
            "data.validation_size=7",
            "free",
            "data.validation_size: 1000 -> 7",
        ),  # there is a validation corpus: it plays no part
    ],
)
def test_a_changed_setting_is_refused_warned_of_or_free(setting, verdict, entry):
    found = changed(setting)
    assert getattr(found, verdict) == [entry]
    assert found == Changes(**{verdict: [entry]})


def test_the_weight_of_a_corpus_is_warned_of_and_its_name_is_free():
    after = copy.deepcopy(RECIPE)
    after["data"]["train"][0] |= {"weight": 0.5, "source": "moved/a.fr"}
    after["data"]["valid"][0] |= {"target": "moved/a.en"}
    assert changes(RECIPE, after, DATA, DATA) == Changes(
        [],
        ["data.train[0].weight: 1.0 -> 0.5"],
        ["data.train[0].source: a.fr -> moved/a.fr", "data.valid[0].target: a.en -> moved/a.en"],
    )


def test_whatever_shapes_the_weights_is_refused():
    for name in leaves(RECIPE["model"], "model") + leaves(RECIPE["tokenizer"], "tokenizer"):
        found = changed(f"{name}=other")
        assert names(found.warned if name.endswith("dropout") else found.refused) == [name]


def test_a_section_that_was_not_there_is_judged_as_what_it_holds():
    without = {name: section for name, section in RECIPE.items() if name != "tokenizer"}
    assert names(changes(without, RECIPE, DATA, DATA).refused) == ["tokenizer"]


@given(st.data())
def test_every_difference_is_told_once(draw):
    chosen = draw.draw(st.sets(st.sampled_from(leaves(RECIPE)), max_size=6))
    found = changed(*(f"{name}=[x, y]" for name in chosen))
    assert sorted(names(found.refused + found.warned + found.free)) == sorted(chosen)


def test_changed_examples_are_refused_with_file_lines_and_pairs():
    data = copy.deepcopy(DATA)
    data["train"] |= {"pairs": 15_116, "fingerprint": "c" * 64}
    data["train"]["corpora"][0] |= {"sha256": ["1" * 64, "3" * 64], "read": 15_201}
    found = changed("data.max_length=128", "data.reject=0.5", data=data)
    assert found.refused == [
        "data.max_length: 256 -> 128",
        "a.en: sha256 222222222222 -> 333333333333, 15,200 -> 15,201 lines",
        "train pairs: 15,115 -> 15,116",
    ]
    assert names(found.free) == ["data.reject"]


def test_a_fingerprint_that_nothing_explains_is_shown_itself():
    data = copy.deepcopy(DATA)
    data["valid"]["fingerprint"] = "c" * 64
    assert changed(data=data).refused == ["data.json.valid.fingerprint: bbbbbbbbbbbb -> cccccccccccc"]


def test_a_vocabulary_of_another_size_is_refused():
    data = {**DATA, "vocab": {"source": 2000, "target": 1999}}
    assert changed(data=data).refused == ["vocab.target: 2000 -> 1999 tokens"]


def test_without_fingerprints_the_settings_of_the_data_must_be_the_same():
    after = config.override(RECIPE, ["data.max_length=128", "data.reject=0.5"])
    assert names(changes(RECIPE, after, {}, {}).refused) == ["data.max_length"]


def test_a_corpus_more_is_refused():
    data = copy.deepcopy(DATA)
    data["train"]["fingerprint"] = "c" * 64
    data["train"]["corpora"].append({"files": ["b.tsv"], "sha256": ["4" * 64], "read": 3})
    after = copy.deepcopy(RECIPE)
    after["data"]["train"].append({**CORPUS, "path": "b.tsv"})
    found = changes(RECIPE, after, DATA, data)
    assert names(found.refused) == ["data.train", "corpora"]


def test_a_list_equals_the_tuple_it_was_written_from():
    assert not list(differences({"model": {"widths": (3, (4, 5))}}, {"model": {"widths": [3, [4, 5]]}}))
    assert list(differences({"widths": (3, 4)}, {"widths": [3, 5]})) == [("widths", (3, 4), [3, 5])]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_says_what_may_change(task):
    verdicts = config.verdicts(TASKS[task].task.Recipe)
    for name, verdict in verdicts.items():
        section, _, setting = name.partition(".")
        if section in ("model", "tokenizer") and not setting.endswith(("dropout", "stochastic_depth", "hide")):
            assert verdict == "refused", f"{name}: weights are made for it"
        elif section in ("task", "model", "tokenizer"):
            assert verdict == ("warned" if setting else "refused"), name
        elif section == "data" and setting.rpartition(".")[2] in (
            "batch_size",
            "batch_tokens",
            "window",
            "weight",
            "context",
        ):
            resumed = "refused" if (task, setting) == ("language", "batch_size") else "warned"
            assert verdict == resumed, f"{name}: the order of the same examples"
        elif section == "data" and setting.endswith((".path", ".source", ".target", "reject")):
            assert verdict == "free", f"{name}: the fingerprint tells what is in the files"
        elif section == "data":
            assert verdict in ("fingerprint", "free"), name
        elif name in (
            "training.log_every",
            "training.tensorboard",
            "training.device",
            "training.save_every",
            "objective.samples",
        ):
            assert verdict == "free", f"{name}: moves no weight"
    assert {"task", "data", "model"} <= verdicts.keys()


@dataclass(frozen=True)
class Inner:
    silent: int = 0
    free: Free[int] = 0


@dataclass(frozen=True)
class Outer:
    fixed: Fixed[Inner] = Inner()
    several: Fingerprinted[tuple[Inner, ...]] = ()
    silent: Inner | None = None


def test_a_setting_speaks_for_itself_and_a_section_for_what_is_silent_in_it():
    assert config.verdicts(Outer) == {
        "fixed": "refused",
        "fixed.silent": "refused",
        "fixed.free": "free",
        "several": "fingerprint",
        "several.silent": "fingerprint",
        "several.free": "free",
        "silent": "warned",
        "silent.silent": "warned",
        "silent.free": "free",
    }


def test_differences_are_the_same_both_ways():
    there = list(differences({"a": [1], "b": {"c": 1}}, {"a": [2], "d": None, "b": {"c": 2}}))
    assert there == [("a", [1], [2]), ("b.c", 1, 2)]


# The same through real files.


@pytest.fixture
def pairs(corpus) -> PairsConfig:
    return PairsConfig(
        train=(Corpus(source=str(corpus.source), target=str(corpus.target)),), batch_tokens=96, max_length=32
    )


def reported(pairs: PairsConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and report as a run folder keeps them."""
    found = prepare(pairs, TokenizerConfig(vocab=320), seed=0)
    return {"data": config.plain(pairs)}, config.plain(found.report)


def judged(before: PairsConfig, begun: dict[str, Any], after: PairsConfig) -> Changes:
    settings, data = reported(after)
    return changes({"data": config.plain(before)}, settings, begun, data)


def test_files_that_only_moved_are_free(pairs, corpus, tmp_path):
    _, begun = reported(pairs)
    moved = tmp_path / "elsewhere.fr"
    corpus.source.rename(moved)
    found = judged(pairs, begun, replace(pairs, train=(Corpus(source=str(moved), target=str(corpus.target)),)))
    assert names(found.free) == ["data.train[0].source"]
    assert not found.refused
    assert not found.warned


def test_one_changed_word_is_refused_and_the_file_named(pairs, corpus):
    _, begun = reported(pairs)
    text = corpus.target.read_text(encoding="utf-8")
    corpus.target.write_text(text.replace("cat", "bat", 1), encoding="utf-8")
    found = judged(pairs, begun, pairs)
    assert names(found.refused)[0] == str(corpus.target)
    assert str(corpus.source) not in names(found.refused)
    assert "sha256" in found.refused[0]


def test_one_line_more_is_refused_with_both_counts(pairs, corpus):
    _, begun = reported(pairs)
    for path in (corpus.source, corpus.target):
        with path.open("a") as file:
            file.write("xyz\n")
    found = judged(pairs, begun, pairs)
    assert any(entry.endswith("180 -> 181 lines") for entry in found.refused)
    assert any(entry.startswith("train pairs: ") for entry in found.refused)


def test_filters_that_leave_other_examples_are_refused(pairs):
    _, begun = reported(pairs)
    assert names(judged(pairs, begun, replace(pairs, ratio=1.2)).refused)[0] == "data.ratio"
    free = judged(pairs, begun, replace(pairs, ratio=50.0, duplicates="drop", overlong="cut", reject=0.5))
    assert sorted(names(free.free)) == ["data.duplicates", "data.overlong", "data.ratio", "data.reject"]
    assert not free.refused


def test_a_run_goes_on_with_moved_files_and_stops_at_changed_ones(corpus, tmp_path):
    files = {"source": str(corpus.source), "target": str(corpus.target)}
    settings = {
        "data": {"train": files, "batch_tokens": 256, "max_length": 32},
        "tokenizer": {"vocab": 320},
        "model": {"width": 16, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 1},
        "objective": {"eval_examples": 2},
        "training": {"steps": 2, "tensorboard": False},
        "decoding": {"beams": 1},
    }
    out = tmp_path / "run"
    recipe.train(settings, out=out, quiet=True)
    moved = corpus.source.rename(tmp_path / "moved.fr")
    changed = config.override(settings, [f"data.train.source={moved}", "training.steps=3", "training.log_every=1"])
    assert recipe.train(changed, out=out, resume=True, quiet=True).result.step == 3
    said = (out / "train.log").read_text(encoding="utf-8")
    assert "training.steps: 2 -> 3" in said
    assert "data.train" not in said
    moved.write_text(moved.read_text(encoding="utf-8").replace("chat", "rat", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"cannot be resumed .*moved\.fr: sha256 \w{12} -> \w{12}") as error:
        recipe.train(config.override(changed, ["training.steps=4"]), out=out, resume=True, quiet=True)
    assert "train.en" not in str(error.value)


@pytest.mark.parametrize(
    ("setting", "verdict", "entry"),
    [
        ("data.window=8", "warned", "data.window: 128 -> 8"),
        ("data.batch_size=2", "refused", "data.batch_size: 32 -> 2"),
        ("model.dropout=0.3", "warned", "model.dropout: 0.0 -> 0.3"),
    ],
)
def test_a_text_that_is_read_on_keeps_its_lanes(setting, verdict, entry):
    before = config.plain(config.build(LanguageRecipe, {"data": {"text": "a b", "validation_share": 0.1}}))
    found = changes(before, config.override(before, [setting]), DATA, DATA, recipe=LanguageRecipe)
    assert getattr(found, verdict) == [entry]


def aged(folder: Path, model: str, **names: str) -> None:
    """Give a run folder the settings that version 0.1 would have written: other names, and some unheard of."""
    found = config.read(folder / "config.yaml")
    found["model"]["name"] = model
    found["tokenizer"].pop("normalise")
    for name in ("epochs", "save_minutes"):
        found["training"].pop(name)
    for new, old in {**names, "training.accumulate": "training.rows"}.items():
        (section, new), (_, old) = new.split("."), old.split(".")
        found[section][old] = found[section].pop(new)
    (folder / "config.yaml").write_text(config.dump(found), encoding="utf-8")


@pytest.mark.parametrize("task", ["translation", "classification"])
def test_a_run_of_version_0_1_is_resumed_by_its_folder_alone(task, corpus, tmp_path, capsys):
    (tmp_path / "labels.tsv").write_text("".join(f"{'good' if n % 2 else 'bad'} {n}\t{n % 2}\n" for n in range(40)))
    own = {
        "translation": {
            "data": {"train": {"source": str(corpus.source), "target": str(corpus.target)}, "batch_tokens": 256},
            "tokenizer": {"vocab": 320, "normalise": "none"},
            "model": {"name": "seq2seq", "width": 8, "embedding": 8},
            "objective": {"eval_examples": 2},
        },
        "classification": {
            "data": {"train": {"path": str(tmp_path / "labels.tsv")}, "batch_tokens": 64},
            "tokenizer": {"normalise": "none"},
            "model": {"name": "rnn-encoder", "width": 8, "embedding": 8},
        },
    }
    training = {"steps": 3, "accumulate": 2, "save_every": 1, "tensorboard": False, "device": "cpu"}
    optim = {"warmup": 1, "schedule": "constant"}
    settings = {"task": task, **own[task], "optim": optim, "training": training}
    whole = recipe.train(settings, out=tmp_path / "whole", quiet=True)
    out = recipe.train(config.override(settings, ["training.steps=2"]), out=tmp_path / "run", quiet=True).folder
    aged(out, "recurrent", **({"model.per_token": "model.each"} if task == "classification" else {}))
    assert run(["train", "--resume", "--out", str(out), "training.steps=3"]) == 0, capsys.readouterr().err
    said = (out / "train.log").read_text(encoding="utf-8")
    assert "resuming from step 2" in said
    assert [line.partition(": ")[2] for line in said.splitlines() if "changed since" in line] == [
        "training.steps: 2 -> 3"
    ]
    assert config.read(out / "config.yaml")["training"]["accumulate"] == 2
    ends = [checkpoint.read(folder / "checkpoints" / "step-3").tensors() for folder in (whole.folder, out)]
    assert all(ends[0][name].equal(ends[1][name]) for name in ends[0])
