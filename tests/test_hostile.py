"""Settings that nobody could have meant: each is refused in one line, in a recipe and in a checkpoint alike."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import checkpoint, config, cost, recipe
from regard.cli import run
from regard.config import aliases
from regard.config.expressions import explosive
from regard.config.fields import bare, hints, sections
from regard.config.ranges import Range
from regard.models import MODELS
from regard.models.rnn_lm import RecurrentLM, RecurrentLMConfig
from regard.models.text_classifier import (
    ConvolutionEncoderConfig,
    Labeller,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)
from regard.tasks import TASKS

FIXTURE = Path(__file__).parent / "checkpoints" / "format-1"
BARE = {"data": {"train": {"source": "a.fr", "target": "a.en"}}}

NUMBERS = [  # of which a checkpoint has the same
    ("model.width", "from 1 to 262,144", [0, -4, 1e9, 2.5, "wide", [64], None, True, {"a": 1}]),
    ("model.width", "from 1 to 262,144", [".nan", ".inf", "1e999"]),
    ("model.heads", "from 1 to 1,000", [0, -2, 10**6]),
    ("model.groups", "from 1 to 1,000", [0, -1, 1e300]),
    ("model.hidden", "from 1 to 262,144", [0, -1, 1e12]),
    ("model.encoder", "from 1 to 1,000", [-1, 0, 1e9]),
    ("model.decoder", "from 1 to 1,000", [-1, 0, 1e9]),
    ("model.vocab", "from 0 to 10,000,000", [-1, 1e12]),
    ("model.context", "from 1 to 1,048,576", [0, 1e12]),
    ("model.dropout", "of at least 0 and below 1", [1, -0.1, 1.5, "some", ".nan", None]),
    ("model.attention_dropout", "of at least 0 and below 1", [1.5, -1]),
    ("tokenizer.vocab", "from 300 to 1,000,000", [0, 12, 1e9]),
    ("tokenizer.min_frequency", "from 1 to 1e12", [0, -1]),
    ("decoding.beams", "from 1 to 1,000", [0, -1, 10**6]),
    ("decoding.nbest", "from 1 to 1,000", [0]),
    ("decoding.ratio", "from 0 to 1,000", [-1, 1e6]),
    ("decoding.longest", "from 1 to 1,048,576", [0, -5, 1e12]),
    ("decoding.tokens", "from 1 to 16,777,216", [0, 1e12]),
    ("decoding.temperature", "above 0 and at most 1e30", [0, -1, 1e38]),
    ("decoding.top_p", "above 0 and at most 1", [0, 1.5]),
    ("decoding.seed", "from -9.2e18 to 9.2e18", [1e30]),
]
ONLY_RECIPES = [
    ("objective.label_smoothing", "of at least 0 and below 1", [-1, 1, 2]),
    ("objective.beams", "from 1 to 1,000", [0]),
    ("training.average", "from 0 to 1e12", [-2]),
    ("training.steps", "from 1 to 1e12", [0, -1, "many", [1], None, "1e999"]),
    ("training.seed", "from -9.2e18 to 9.2e18", [1e30]),
    (
        "optim.learning_rate",
        "above 0 and at most 1e30",
        [0, -1, "fast", [1], None, ".nan", ".inf", "1e999", 1e38, 1e308],
    ),
    ("optim.momentum", "of at least 0 and below 1", [1, -1]),
    ("data.batch_tokens", "from 1 to 16,777,216", [0, 1e12]),
    ("data.max_length", "from 4 to 1,048,576", [0, 3]),
    ("data.reject", "from 0 to 1", [-1, 2]),
    ("data.ratio", "of at least 1", [0, 0.5]),
]
SHAPES = [  # what is no number at all
    ("model", 3, "model must be a section of `name: value` lines, not 3"),
    ("model", "big", "model must be a section of `name: value` lines, not 'big', write model.preset=big"),
    ("model", ["big"], "model must be a section of `name: value` lines, not ['big']"),
    ("model.name", ["transformer"], "model.name must be one of transformer, seq2seq, not ['transformer']"),
    ("model.name", "gpt5", "model.name must be one of transformer, seq2seq, not 'gpt5'"),
    ("model.heads", 3, "model: 3 heads do not divide a width of "),
    ("model.groups", 3, "model: 3 groups of keys do not divide "),
    ("tokenizer", "bpe", "tokenizer must be a section of `name: value` lines, not 'bpe'"),
    ("decoding", 5, "decoding must be a section of `name: value` lines, not 5"),
]
HOSTILE = [(name, value, f" {words}, not ") for name, words, values in NUMBERS for value in values] + SHAPES


def changed(mapping: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The mapping with one setting as YAML would give it."""
    given = config.parse(f"x: {value}")["x"] if value in (".nan", ".inf", "1e999") else value
    result = json.loads(json.dumps(mapping))
    *way, last = name.split(".")
    here = result
    for section in way:
        here = here.setdefault(section, {})
    here[last] = given
    return result


def told(action: Callable[[], Any]) -> str:
    """The one line in which it is refused, soon."""
    began = time.process_time()
    with pytest.raises(ValueError) as caught:
        action()
    assert time.process_time() - began < 20
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def rewritten(tmp_path: Path) -> Callable[[str, Any], Path]:
    """The frozen checkpoint with another config or tokenizer, its manifest in order."""
    sound = checkpoint.read(FIXTURE)

    def write(name: str, value: Any) -> Path:
        contents = {file: sound.data(file) for file in sound.files}
        checkpoint.write(tmp_path / "hostile", {**contents, name: value}, facts=sound.manifest["facts"])
        return tmp_path / "hostile"

    return write


def identity(value: Any) -> str:
    return repr(value)[:24]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    HOSTILE + [(name, value, f" {words}, not ") for name, words, values in ONLY_RECIPES for value in values],
    ids=identity,
)
def test_a_hostile_setting_is_refused_in_a_recipe(name: str, value: Any, words: str):
    message = told(lambda: recipe.resolve(changed(BARE, name, value)))
    assert words in message
    assert name.partition(".")[0] in message


@pytest.mark.parametrize(("name", "value", "words"), HOSTILE, ids=identity)
def test_a_hostile_setting_is_refused_in_a_checkpoint(name: str, value: Any, words: str, rewritten):
    settings = config.read(FIXTURE / "config.yaml")
    directory = rewritten("config.yaml", config.dump(changed(settings, name, value)))
    message = told(lambda: regard.load(directory, device="cpu"))
    assert words.partition(", write")[0] in message
    assert message.startswith(str(directory))


@pytest.mark.parametrize("task", [["translation"], {"a": 1}, 3, None, "cooking"])
def test_a_task_that_is_none_is_refused(task: Any, rewritten):
    settings = config.read(FIXTURE / "config.yaml") | {"task": task}
    directory = rewritten("config.yaml", config.dump(settings))
    assert "this version knows translation, text-to-text, classification" in told(
        lambda: regard.load(directory, device="cpu")
    )
    assert "unknown task" in told(lambda: recipe.resolve(BARE | {"task": task}))


@pytest.mark.parametrize("task", TASKS)
def test_every_number_of_every_recipe_has_a_range(task: str):
    def bounded(cls: type, where: str = "") -> None:
        for field in dataclasses.fields(cls):
            for number in numbers(hints(cls)[field.name]):
                assert number, f"{where}{field.name} has no range"
            for section in sections(hints(cls)[field.name]):
                bounded(section, f"{where}{field.name}.")

    def numbers(kind: Any) -> list[bool]:
        """Whether each number in an annotation has its range."""
        inner, notes = bare(kind)
        if inner in (int, float):
            return [any(isinstance(note, Range) for note in notes)]
        return [found for each in getattr(inner, "__args__", ()) for found in numbers(each)]

    bounded(TASKS[task].task.Recipe)


@pytest.mark.parametrize("task", TASKS)
def test_every_default_lies_in_its_range(task: str):
    def checked(settings: Any, where: str) -> None:
        for field in dataclasses.fields(settings):
            value = getattr(settings, field.name)
            if dataclasses.is_dataclass(value):
                checked(value, f"{where}.{field.name}")
        config.build(type(settings), config.plain(settings), where=where)

    kind = TASKS[task].task.Recipe
    for name, annotation in hints(kind).items():
        for section in sections(annotation):
            if name != "data":
                checked(section(), name)


def test_a_list_has_an_end():
    message = told(lambda: recipe.resolve(BARE | {"decoding": {"force": ["x"] * 10_001}}))
    assert message == "decoding.force may have 10,000 entries at most, not 10,001"


# Models that no machine could hold.


@pytest.mark.parametrize(
    "model",
    [
        {"width": 2**18, "heads": 8},
        {"hidden": 2**18, "encoder": 1000},
        {"vocab": 10**7, "width": 2**15},
        {"name": "seq2seq", "width": 2**18},
    ],
)
def test_too_many_parameters_are_refused_before_any_is_allocated(model: dict[str, Any], rewritten):
    message = told(lambda: recipe.resolve(BARE | {"model": model}))
    assert "parameters exceeds the limit of 2e+11: lower width" in message
    settings = config.read(FIXTURE / "config.yaml")
    directory = rewritten("config.yaml", config.dump({**settings, "model": model}))
    assert "exceeds the limit" in told(lambda: regard.load(directory, device="cpu"))


def test_a_config_that_the_weights_could_not_fill_is_refused(rewritten):
    settings = config.read(FIXTURE / "config.yaml")
    directory = rewritten("config.yaml", config.dump({**settings, "model": {**settings["model"], "width": 2**14}}))
    message = told(lambda: regard.load(directory, device="cpu"))
    assert "config.yaml describes about 3.2e+09 parameters, the weights have" in message


def counted(build: Callable[[Any], torch.nn.Module], shape: Any) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(shape).parameters())


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("transformer", {"vocab": 8000, "width": 128, "heads": 4, "hidden": 512, "context": 256}),
        ("transformer", {"vocab": 800, "target_vocab": 900, "share": "none", "decoder": 1, "context": 64}),
        ("seq2seq", {"vocab": 8000, "width": 128}),
        ("seq2seq", {"vocab": 800, "width": 512, "encoder": 3, "decoder": 2, "bidirectional": False}),
    ],
)
def test_the_estimate_of_parameters_is_near_the_truth(name: str, settings: dict[str, Any]):
    shape = MODELS[name][1](**settings)
    assert cost.parameters(shape) / 2 < shape.parameters < 2 * cost.parameters(shape)


def test_the_estimates_of_other_models_are_near_the_truth():
    shape = RecurrentLMConfig(vocab=1000, width=256, depth=3)
    assert counted(RecurrentLM, shape) / 2 < shape.parameters < 2 * counted(RecurrentLM, shape)
    for kind in (RecurrentEncoderConfig, ConvolutionEncoderConfig, TransformerEncoderConfig):
        reader = kind(vocab=1000, classes=5)
        estimate = reader.layers + reader.vocab * reader.embedding
        assert counted(Labeller, reader) / 2 < estimate < 2 * counted(Labeller, reader)


# Regular expressions that would never end.

EXPLOSIVE = ["(a+)+b", "(a*)*b", "(a|a)*b", "(a|aa)+$", r"(\w+\s?)*$", r"([a-z]+)*\d", "(.*a){12}", "(x+x+)+y"]
EXPLOSIVE += ["(a?){30}a{30}", r"(?:[a-z]{1,30}){1,30}!", r"(\d+[.,]?)+x", "(a|ab|b)*c", "(?:(?:a+)+)+(?=b)"]
HARMLESS = [r"[^\W_]+(?:['’][^\W_]+)*", r"\S+", "<[^>]+>", r"[\w']+", r"\w+(?:['’-]\w+)*['’]?|[^\w\s]+", ""]
HARMLESS += [r"(\d+[.,]?)+", r"https?://\S+|[\w.]+@[\w.]+\.\w+", r"\d{4}-\d{2}-\d{2}", r"(?:[A-Z]\.)+|\w+"]
OTHERS = [  # of widely used tokenizers
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
]


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_an_expression_that_explodes_is_refused(pattern: str):
    for task, section in (("classification", "tokenizer"), ("word2vec", "data")):
        mapping = changed({"task": task, "data": {"train": {"path": "x"}}}, f"{section}.pattern", pattern)
        message = told(partial(recipe.resolve, mapping))
        assert message.startswith(f"{section}: pattern may take exponential time on some texts")


@pytest.mark.parametrize("pattern", HARMLESS + OTHERS)
def test_an_expression_that_does_not_explode_is_accepted(pattern: str):
    assert not explosive(pattern)
    assert explosive(f"(?:(?:{pattern or 'a'})+[a-z]*)+!")


def test_a_large_expression_is_judged_soon():
    began = time.process_time()
    assert explosive("(?:" + "|".join(f"{chr(97 + n % 26)}{n}" for n in range(150)) + "|[a-z0-9]+)*!")
    assert explosive("((a{9}){9}){9}")
    assert explosive("a" * 10_000)
    assert not explosive("|".join(f"word{n}" for n in range(200)))
    assert time.process_time() - began < 20


def test_a_checkpoint_whose_tokenizer_explodes_is_refused(rewritten):
    tokenizer = json.loads((FIXTURE / "tokenizer.json").read_text(encoding="utf-8"))
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, tokenizer["pre_tokenizer"]]}
    directory = rewritten("tokenizer.json", json.dumps(tokenizer))
    assert "'(a+)+$', which may take exponential time" in told(lambda: regard.load(directory, device="cpu"))


# Names by which others know our settings.


@pytest.mark.parametrize(
    ("setting", "target"),
    [
        ("optim.max_lr", "optim.learning_rate"),
        ("training.lr", "optim.learning_rate"),
        ("training.minutes", "training.seconds"),
        ("training.weight_decay", "optim.weight_decay"),
        ("optim.warmup_steps", "optim.warmup"),
        ("data.batch_size", "data.batch_tokens"),
        ("batch_size", "data.batch_tokens"),
        ("model.d_model", "model.width"),
        ("model.hidden_size", "model.width"),
        ("model.n_heads", "model.heads"),
        ("num_heads", "model.heads"),
        ("model.num_layers", "model.encoder and model.decoder"),
        ("tokenizer.max_len", "data.max_length"),
        ("max_len", "data.max_length"),
        ("training.max_steps", "training.steps"),
        ("vocab_size", "tokenizer.vocab"),
        ("model.vocab_size", "tokenizer.vocab"),
        ("model.dropout_rate", "model.dropout"),
        ("decoding.beam_size", "decoding.beams"),
        ("num_beams", "decoding.beams"),
        ("training.label_smoothing", "objective.label_smoothing"),
        ("training.early_stopping", "training.patience"),
        ("patience", "training.patience"),
        ("seed", "training.seed"),
    ],
)
def test_a_usual_name_answers_with_ours(setting: str, target: str):
    message = told(lambda: recipe.resolve(config.override(BARE, [f"{setting}=1"])))
    assert message.startswith(f"unknown setting {setting}: it is called {target} here")


def test_a_usual_name_answers_with_what_the_recipe_has():
    labels = {"task": "classification", "data": {"train": {"path": "x"}}}
    text = {"task": "language", "data": {"text": "a b"}}
    words = {"task": "word2vec", "data": {"train": {"path": "x"}}}
    table = {"task": "regression", "data": {"train": "x", "target": "y"}}
    for mapping, setting, target in (
        (labels, "model.num_layers", "model.depth"),
        (labels, "max_length", "tokenizer.max_length"),
        (text, "batch_size", "data.batch_size"),
        (table, "batch_size", "data.batch_size"),
        (words, "vocab_size", "data.vocab"),
        (BARE | {"model": {"name": "seq2seq"}}, "model.rnn_type", "model.cell"),
    ):
        message = told(lambda m=mapping, s=setting: recipe.resolve(config.override(m, [f"{s}=1"])))
        assert f"unknown setting {setting}: it is called {target} here" in message


def test_a_section_by_itself_answers_too():
    from regard.tasks.translation.options import DecodingConfig

    message = told(lambda: config.build(DecodingConfig, {"beam_size": 4}, where="decoding"))
    assert message.startswith("unknown setting decoding.beam_size: it is called decoding.beams here")
    message = told(lambda: config.build(DecodingConfig, {"beam_size": 4}))
    assert message.startswith("unknown setting beam_size: it is called beams here")


def test_every_target_of_the_alias_table_exists():
    known = set().union(*(aliases.names(entry.task.Recipe) for entry in TASKS.values()))
    for name, targets in aliases.USUAL.items():
        there = [target for target in targets if all(one in known for one in target.split(" and "))]
        assert there, f"{name} leads nowhere"
        missing = set(targets) - set(there)
        assert not missing, f"{name} leads to {missing}"
    assert set(aliases.MOVED.values()) <= known


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused_by_whoever_would_use_them(value, rewritten, tmp_path, capsys):
    tensors = {name: tensor.clone() for name, tensor in checkpoint.read(FIXTURE).tensors().items()}
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    tensors[name][-1, -1] = value
    place = rewritten(checkpoint.WEIGHTS, tensors)
    said = told(lambda: recipe.load(place, device="cpu"))
    assert said.startswith(f"{place}: '{name}' in model.safetensors holds numbers that are not finite: its training")
    assert run(["translate", str(place), "un chat"]) == 1
    assert capsys.readouterr().err == f"regard: {said}\n"
    (tmp_path / "pairs.tsv").write_text("un\tone\ndeux\ttwo\n" * 20, encoding="utf-8")
    pairs = {"data": {"train": {"path": str(tmp_path / "pairs.tsv")}}, "training": {"steps": 1, "device": "cpu"}}
    assert "not finite" in told(lambda: recipe.train(pairs, out=tmp_path / "run", start=place, quiet=True))
