"""Settings: what is written comes back, and what is wrong answers in one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.config import text, words
from regard.config.fields import Section


@dataclass(frozen=True, kw_only=True)
class Optim:
    """How weights move."""

    name: Literal["adam", "adamw", "sgd"] = "adam"
    """Which rule."""
    rate: float = 1e-3
    """Peak learning
    rate."""
    warmup: int = 0
    betas: tuple[float, float] = (0.9, 0.98)
    nesterov: bool = False


@dataclass(frozen=True, kw_only=True)
class Corpus:
    source: str
    """Text to read."""
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Shape(Section):
    width: int = 8
    """Features."""


@dataclass(frozen=True, kw_only=True)
class Model(Shape):
    PRESETS: ClassVar[dict[str, dict]] = {"base": {"width": 512, "heads": 8}, "big": {"width": 1024, "heads": 16}}
    heads: int = 2
    """Heads; must divide the width."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"heads {self.heads} must divide width {self.width}")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    corpora: tuple[Corpus, ...]
    model: Model = Model()
    optim: Optim = field(default_factory=lambda: Optim(warmup=400))
    slow: Optim | None = None
    """A second optimizer."""
    seed: int = 0
    title: str | None = None
    threads: int | Literal["auto"] = "auto"
    weights: dict[str, float] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    extra: Any = None


BARE = {"corpora": {"source": "a.fr"}}


def built(**settings: Any) -> Recipe:
    return config.build(Recipe, BARE | settings)


def test_a_mapping_becomes_nested_frozen_dataclasses() -> None:
    recipe = built(
        corpora=[{"source": "a.fr"}, {"source": Path("b.fr"), "weight": 2}],
        optim={"rate": "1e-9", "betas": [0.8, 1], "nesterov": True},
        slow={"name": "sgd"},
        weights={"no": 1},
        threads=2,
        tags=["x"],
        seed=1e3,
    )
    assert recipe.corpora == (Corpus(source="a.fr"), Corpus(source="b.fr", weight=2.0))
    assert recipe.optim == Optim(rate=1e-9, betas=(0.8, 1.0), nesterov=True)
    assert recipe.slow == Optim(name="sgd")
    assert (recipe.weights, recipe.threads, recipe.tags, recipe.seed) == ({"no": 1.0}, 2, ["x"], 1000)
    assert isinstance(recipe.corpora[1].weight, float)
    assert isinstance(recipe.seed, int)


def test_one_section_where_several_are_meant_is_a_list_of_one() -> None:
    assert built().corpora == (Corpus(source="a.fr"),)


def test_plain_is_the_way_back() -> None:
    recipe = built(slow={"rate": 2}, model={"preset": "big"}, extra={"deep": [1, {"er": None}]})
    assert config.build(Recipe, config.plain(recipe)) == recipe
    assert config.build(Recipe, config.parse(config.dump(config.plain(recipe)))) == recipe


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optim": {"warmpu": 1}}, "unknown setting optim.warmpu, did you mean warmup?"),
        ({"optimm": {}}, "unknown setting optimm, did you mean optim?"),
        ({"optim": {"name": "adma"}}, "optim.name must be one of adam, adamw, sgd, not 'adma', did you mean adam?"),
        ({"optim": {"warmup": True}}, "optim.warmup must be a whole number, not true"),
        ({"optim": {"warmup": 1.5}}, "optim.warmup must be a whole number, not 1.5"),
        ({"optim": {"warmup": float("inf")}}, "optim.warmup must be a whole number, not inf"),
        ({"optim": {"rate": False}}, "optim.rate must be a number, not false"),
        ({"optim": {"rate": "fast"}}, "optim.rate must be a number, not 'fast'"),
        ({"optim": {"rate": float("nan")}}, "optim.rate must be a number, not nan"),
        ({"optim": {"rate": 10**400}}, "optim.rate must be a number, not 1000"),
        ({"optim": {"nesterov": "yes"}}, "optim.nesterov must be true or false, not 'yes'"),
        ({"optim": {"nesterov": 1}}, "optim.nesterov must be true or false, not 1"),
        ({"optim": {"betas": [1]}}, "optim.betas must have 2 entries, not 1: [1]"),
        ({"optim": {"betas": [1, "b"]}}, "optim.betas[1] must be a number, not 'b'"),
        ({"optim": 3}, "optim must be a section of `name: value` lines, not 3"),
        ({"optim": None}, "optim must be a section of `name: value` lines, not null"),
        ({"slow": {"rat": 1}}, "unknown setting slow.rat, did you mean rate?"),
        ({"title": 2024}, "title must be text, not 2024, quote it to make it text"),
        ({"threads": "two"}, "threads must be a whole number or auto, not 'two'"),
        ({"tags": "x"}, "tags must be a list, each text, not 'x': write ['x']"),
        ({"weights": 3}, "weights must be a mapping, not 3"),
        ({"weights": {"fr": "x"}}, "weights.fr must be a number, not 'x'"),
        ({"corpora": [{"weight": 1}]}, "missing setting corpora[0].source"),
        ({"model": {"preset": "bas"}}, "unknown preset model.bas, did you mean base?"),
        ({"model": {"heads": 3}}, "model: heads 3 must divide width 8"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(settings: dict, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        built(**settings)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_where_prefixes_every_name() -> None:
    with pytest.raises(ValueError, match=r"unknown setting train\.optim\.warmpu"):
        config.build(Optim, {"warmpu": 1}, where="train.optim")


def test_a_preset_supplies_what_the_mapping_does_not_say() -> None:
    assert config.build(Model, {"preset": "base", "heads": 4}) == Model(width=512, heads=4)
    assert config.build(Model, {"preset": None}) == Model()


def test_overrides_reach_into_sections_and_leave_the_original_alone() -> None:
    before = {"optim": {"rate": 1}, "slow": None}
    after = config.override(
        before, ["optim.rate=1e-4", "slow.name=sgd", "model.width=16", "tags=[a, b]", "title=on", "seed=", "a=b=c: d"]
    )
    assert before == {"optim": {"rate": 1}, "slow": None}
    assert after == {
        "optim": {"rate": 1e-4},
        "slow": {"name": "sgd"},
        "model": {"width": 16},
        "tags": ["a", "b"],
        "title": "on",
        "seed": None,
        "a": "b=c: d",
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rate", "cannot read setting 'rate', write it as name=value"),
        ("=3", "cannot read setting"),
        ("a..b=3", "cannot read setting"),
        ("seed.x=3", "cannot set seed.x: seed is 1, not a section"),
        ("a=[1", "cannot read the value of 'a=.1', quote it"),
    ],
)
def test_a_wrong_override_answers_with_the_remedy(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config.override({"seed": 1}, [setting])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\nb: [1\n", "recipe.yaml:3: "),
        (b"a: 1\n\tb: 2\n", "recipe.yaml:2: a tab, indent with spaces"),
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", "recipe.yaml:4: c is given twice, first in line 3"),
        (b"- a\n- b\n", "recipe.yaml:1: expected `name: value` lines, not ['a', 'b']"),
        (b"just words\n", "recipe.yaml:1: expected `name: value` lines, not 'just words'"),
        (b"a: &x 1\nb: *x\n", "recipe.yaml:2: aliases and tags are not supported"),
        (b"a: !!python/object/apply:os.system [ls]\n", "recipe.yaml:1: aliases and tags are not supported"),
        (b"a: 1\nb: \xff\n", "recipe.yaml:2: not UTF-8"),
        (b"a: 1\nb: \x00\n", "recipe.yaml:2: character 0x0 is not allowed"),
        (b"1: 2\n", "recipe.yaml:1: names must be words, quote '1'"),
        (b"[a]: 2\n", "recipe.yaml:1: names must be words"),
        (b"a: " + b"[" * 5000, "recipe.yaml: nested too deeply"),
        (b"a: " + b"9" * 5000, "recipe.yaml: "),
        (b"a: 1\n---\nb: 1\n", "recipe.yaml:2: "),
        (b"#" * (config.LARGEST + 1), "recipe.yaml: larger than"),
    ],
    ids=range(15),
)
def test_an_unreadable_file_is_named_with_its_line(
    text: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_bytes(text)
    with pytest.raises(ValueError) as caught:
        config.read("recipe.yaml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.yaml: no such file or directory"):
        config.read(tmp_path / "none.yaml")
    with pytest.raises(ValueError, match="is a directory"):
        config.read(tmp_path)


def test_words_stay_words_and_numbers_are_numbers() -> None:
    text = "a: on\nb: no\nc: 1e-9\nd: 10_000\ne: 010\nf: 12:30\ng: 2024-01-01\nh: true\ni:\nj: 0x10\nk: .5\n"
    assert config.parse(text) == {
        "a": "on",
        "b": "no",
        "c": 1e-9,
        "d": 10000,
        "e": 10,
        "f": "12:30",
        "g": "2024-01-01",
        "h": True,
        "i": None,
        "j": 16,
        "k": 0.5,
    }
    assert config.parse("# nothing yet\n") == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_dumped_is_read_back_exactly(mapping: dict) -> None:
    assert config.parse(config.dump(mapping)) == mapping


PIECES = [
    "a",
    "1",
    "0x1",
    ".",
    ":",
    ": ",
    "- ",
    "\n",
    "\n  ",
    " ",
    "#",
    " # &*!",
    "'",
    '"',
    "\\",
    ",",
    "[",
    "]",
    "~",
    "<<: ",
    "---",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_libyaml_reads_what_the_slower_reader_reads(written: str) -> None:
    try:
        expected = repr(text._Loader(written).get_single_data())
    except (yaml.YAMLError, ValueError):
        expected = None
    try:
        found = repr(text._load(written, "settings"))
    except ValueError:
        found = None
    assert found == expected


def test_lists_within_lists_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        config.parse("a: " + "[\n" * 50_000)


@given(st.text(max_size=40))
def test_any_text_gives_a_mapping_or_a_one_line_error(written: str) -> None:
    message = ""
    try:
        config.parse(written)
    except ValueError as error:
        message = str(error)
    assert "\n" not in message


def test_describe_lists_sections_inherited_and_optional_settings_with_their_help() -> None:
    rows = {row.name: row for row in config.describe(Recipe)}
    assert list(rows)[:5] == ["corpora", "corpora[].source", "corpora[].weight", "model", "model.width"]
    assert rows["corpora[].source"] == config.Field("corpora[].source", "text", "required", "Text to read.")
    assert rows["model.width"] == config.Field("model.width", "a whole number", "8", "Features.")
    assert rows["model.heads"].help == "Heads; must divide the width."
    assert rows["optim"].help == "How weights move."
    assert rows["optim.rate"].help == "Peak learning rate."
    assert rows["optim.warmup"].default == "400", "the section's own default, not the class's"
    assert rows["slow"] == config.Field("slow", "a section or null", "null", "A second optimizer.")
    assert rows["slow.warmup"].default == "0"
    assert rows["optim.name"].type == "one of adam, adamw, sgd"
    assert rows["optim.betas"].default == "[0.9, 0.98]"
    assert rows["title"] == config.Field("title", "text or null", "null", "")


def test_describe_manages_without_source() -> None:
    names: dict[str, Any] = {}
    exec("from dataclasses import dataclass\n@dataclass\nclass Loose:\n    a: int = 1\n    'help'\n", names)
    assert config.describe(names["Loose"]) == [config.Field("a", "a whole number", "1", "")]


@dataclass(frozen=True, kw_only=True)
class Tree:
    name: Literal["tree"] = "tree"
    """Which kind."""
    depth: int = 3
    """Levels."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A straight one."""

    name: Literal["line"] = "line"
    """Which kind."""
    slope: float = 1.0
    """Rise."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    kind: Tree | Line = Tree()
    """One of two."""
    perhaps: Tree | Line | None = None


def test_a_section_may_be_one_of_several_told_apart_by_name() -> None:
    assert config.build(Choice, {}).kind == Tree()
    assert config.build(Choice, {"kind": {"depth": 2}}).kind == Tree(depth=2)
    chosen = config.build(Choice, {"kind": {"name": "line", "slope": 2}, "perhaps": {"name": "line"}})
    assert (chosen.kind, chosen.perhaps) == (Line(slope=2.0), Line())
    assert config.build(Choice, config.plain(chosen)) == chosen
    assert config.build(Choice, {"perhaps": None}).perhaps is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": {"name": "lime"}}, "kind.name must be one of tree, line, not 'lime', did you mean line?"),
        ({"kind": {"name": 3}}, "kind.name must be one of tree, line, not 3"),
        ({"kind": {"name": "line", "depth": 2}}, "unknown setting kind.depth"),
        ({"kind": {"slope": 2}}, "unknown setting kind.slope"),
        ({"kind": 3}, "kind must be a section of `name: value` lines, not 3"),
        ({"perhaps": {"name": "line", "slope": "x"}}, "perhaps.slope must be a number, not 'x'"),
    ],
)
def test_the_complaint_is_that_of_the_section_that_was_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        config.build(Choice, settings)
    assert str(caught.value).startswith(message)


def test_describe_lists_every_section_to_choose_from() -> None:
    names = [row.name for row in config.describe(Choice)]
    own = ["kind", "kind.name", "kind.depth", "kind(line).name", "kind(line).slope"]
    assert names == [*own, *(name.replace("kind", "perhaps") for name in own)]


def test_of_very_many_names_an_error_lists_the_first():
    assert words.suggest_name("zebra", [f"LABEL_{n}" for n in range(1000)]).endswith("LABEL_38, LABEL_39 and 960 more")
    assert words.suggest_name("LABL_7", ["LABEL_7", "x"]) == ", did you mean LABEL_7?"
    assert words.suggest_name("zebra", ["a", "b"]) == "; there are a, b"
