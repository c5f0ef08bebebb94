"""A template: a prompt with places for the text and for the answer, and the words that stand for each label.

[X] is the text, [Y] a second one, [Z] the answer. Texts are put into their places once: "[Z]" in a text is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from regard import config
from regard.config.ranges import Column, Length, Range
from regard.config.words import suggest
from regard.tasks.inputs import check_path
from regard.tasks.promptable import Gap

PLACES = re.compile(r"\[([XYZ])\]")
SUFFIXES = (".yaml", ".yml")


class Texts(NamedTuple):
    """The texts that fill a template: one, or a pair."""

    x: str
    y: str = ""


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A solved example that precedes the text (few-shot prompting)."""

    x: str
    """The text."""
    y: str = ""
    """The second text."""
    z: str
    """Its label; where the model writes, the answer itself."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where texts and labels stand in a file; what is not named is recognised."""

    x: str | Column | None = None
    """Column of the text: its name in the heading or in JSON lines, or its number, counted from 1."""
    y: str | Column | None = None
    """Column of the second text."""
    label: str | Column | None = None
    """Column of the label, or of the reference where the model writes."""


@dataclass(frozen=True, kw_only=True)
class Template:
    """How a task is put to a language model."""

    text: str
    """The prompt, with [X] for the text, [Y] for a second one and [Z] for the answer."""
    about: str = ""
    """What it is for, in a few words."""
    kind: Literal["choose", "write", "list"] = "choose"
    """What the answer is: one of the answers (choose), a text (write), or names between commas (list)."""
    answers: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Every label with the word or phrase that stands for it, or several."""
    examples: tuple[Shot, ...] = ()
    """Solved examples in front of the text (few-shot)."""
    between: str = "\n\n"
    """What separates examples."""
    empty: tuple[str, ...] = ("",)
    """Inputs without content by whose answers those to a text are corrected (contextual calibration)."""
    correct: bool = True
    """Answer by the corrected probabilities; false: by the plain ones."""
    per_token: bool = False
    """Divide the log-probability of an answer by its number of tokens."""
    cut: Literal["refuse", "end", "start"] = "refuse"
    """A text too long for the model: refuse it, or leave out words at its end or start; the template always stays."""
    names: dict[str, str] = field(default_factory=dict)
    """What labels are called, by what they are in files, such as {'1': positive}; others stay."""
    others: Literal["refuse", "leave"] = "refuse"
    """Texts in files with a label that has no answer: refuse the file, or leave them out."""
    columns: Columns = Columns()
    """Where texts and labels stand in files."""
    length: Length = 40
    """Most tokens that are written."""
    stop: str = "\n"
    """Stop sequence: what is written ends before it."""
    words: Annotated[int, Range(0, 1000)] = 0
    """Words of the copy that what is written is compared with; 0: as many as references have in the mean."""

    def __post_init__(self) -> None:
        places = PLACES.findall(self.text)
        for place, meaning in (("X", "the text"), ("Z", "the answer")):
            if place not in places:
                raise ValueError(f"text has no [{place}]: write it where {meaning} belongs")
        if places.count("Z") > 1:
            raise ValueError(f"text has {places.count('Z')} [Z]: there is one place for the answer")
        if not self.empty:
            raise ValueError("empty has no input: give one at least, such as ''")
        self._check_answers()
        self._check_examples()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""
        return tuple(self.answers)

    @property
    def pair(self) -> bool:
        """True if the template takes a second text."""
        return "[Y]" in self.text

    @property
    def phrases(self) -> list[tuple[str, ...]]:
        """The words of each label (the verbalizer)."""
        return [(words,) if isinstance(words, str) else words for words in self.answers.values()]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The words of all labels, in one tuple."""
        return tuple(word for words in self.phrases for word in words)

    @property
    def text_after_answer(self) -> str | None:
        """The placeholder of a text after the answer, which a left-to-right model cannot use; None if there is none."""
        after = self.text.partition("[Z]")[2]
        return next((f"[{place}]" for place in "XY" if f"[{place}]" in after), None)

    def gap(self, texts: Texts) -> Gap:
        """Return the prompt of a text, preceded by all examples."""
        shots = [self._fill_example(shot) for shot in self.examples]
        before, after = (_fill_part(part, texts) for part in self.text.split("[Z]"))
        return Gap("".join(f"{shot}{self.between}" for shot in shots) + before, after, self.candidates)

    def label(self, raw_label: str) -> str | None:
        """Return the label with this name in a file, ignoring case; None if the template has none."""
        for name in (self.names.get(raw_label, raw_label), self.names.get(raw_label.lower(), raw_label)):
            for label in self.labels:
                if label.casefold() == name.casefold():
                    return label
        return None

    def _fill_example(self, shot: Shot) -> str:
        answer = self.phrases[self.labels.index(shot.z)][0] if self.kind == "choose" else shot.z
        before, after = (_fill_part(part, Texts(shot.x, shot.y)) for part in self.text.split("[Z]"))
        return f"{before}{answer}{after}"

    def _check_answers(self) -> None:
        if self.kind != "choose":
            if self.answers:
                raise ValueError(f"answers are for kind: choose, and this is {self.kind}: leave one of them out")
            return
        if len(self.answers) < 2:
            raise ValueError(f"answers has {len(self.answers)} of them: give two labels at least")
        owners: dict[str, str] = {}
        for label, words in zip(self.labels, self.phrases, strict=True):
            if not words or not all(word.strip() for word in words):
                raise ValueError(f"answers.{label} is empty: give it a word")
            for word in words:
                other = owners.setdefault(" ".join(word.casefold().split()), label)
                if other != label or words.count(word) > 1:
                    raise ValueError(
                        f"answers.{label}: {word!r} is also an answer of {other}: choose words that differ"
                    )

    def _check_examples(self) -> None:
        for number, shot in enumerate(self.examples):
            if self.kind == "choose" and shot.z not in self.labels:
                raise ValueError(
                    f"examples[{number}].z is {shot.z!r}, which has no answer: choose {' or '.join(self.labels)}"
                )
            if self.pair and not shot.y:
                raise ValueError(f"examples[{number}] has no y: the text has a place for it, [Y]")


def _fill_part(part: str, inputs: Texts) -> str:
    """Return a part of the prompt with its placeholders filled; line breaks in texts become spaces."""
    texts = {"X": inputs.x, "Y": inputs.y}
    return PLACES.sub(lambda place: " ".join(texts[place[1]].split()), part)


def read(name: str | Path, settings: Sequence[str] = ()) -> Template:
    """Read the template in a YAML file or a shipped one by name; settings such as cut=end override its fields."""
    return build(config.override(config.read(find(name)), settings), name=str(name))


def text_of(name: str | Path) -> str:
    """Return the YAML text of a template."""
    return find(name).read_text(encoding="utf-8")


def find(name: str | Path) -> Path:
    """Return the path of a template file."""
    path = check_path(name, "a template is given by its name or a file")
    if path.suffix.lower() in SUFFIXES or path.is_file():
        return path
    shipped = {template_path.stem: template_path for template_path in shipped_paths()}
    if str(name) not in shipped:
        raise ValueError(
            f"no template named {name}{suggest(str(name), shipped)}: give a YAML file or one of {', '.join(shipped)}"
        )
    return shipped[str(name)]


def build(settings: Mapping[str, Any], *, name: str = "template") -> Template:
    """Build a template from settings; errors begin with its name."""
    try:
        return config.build(Template, settings)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def shipped_paths() -> list[Path]:
    """Return the paths of the templates that come with Regard."""
    folder = Path(str(resources.files("regard.tasks.prompting") / "templates"))
    return sorted((path for path in folder.iterdir() if path.suffix in SUFFIXES), key=lambda path: path.stem)


def list_templates() -> Iterator[tuple[str, Template]]:
    """Yield the shipped templates with their names."""
    return ((path.stem, read(path)) for path in shipped_paths())
