"""Write docs/recipes.md, the reference of every setting, from the dataclasses that hold them.

    python scripts/make_docs.py

A test fails while the file differs from what this writes, so no setting goes undocumented.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard import config
from regard.data.tokenizers import default_vocab_size
from regard.models import MODELS
from regard.models.transformer import TransformerConfig
from regard.tasks import TASKS
from regard.tasks.answering.task import AnsweringRecipe
from regard.tasks.captions.task import CaptionsRecipe
from regard.tasks.embedding.matching import MatchingRecipe
from regard.tasks.gan.task import GANRecipe
from regard.tasks.graphs.task import NodeRecipe
from regard.tasks.images.task import ImageClassificationRecipe
from regard.tasks.memory.task import MemoryRecipe
from regard.tasks.omics.task import OmicsRecipe
from regard.tasks.pixels.task import PixelsRecipe
from regard.tasks.pretraining.causal import CausalLM
from regard.tasks.pretraining.corruption import SpanCorruption
from regard.tasks.pretraining.learning import Pretraining
from regard.tasks.pretraining.masked import MaskedLM
from regard.tasks.rnn_lm.task import LanguageRecipe
from regard.tasks.scenes.counting import CountingRecipe
from regard.tasks.scenes.localisation import LocalisationRecipe
from regard.tasks.tables.task import RegressionRecipe
from regard.tasks.text_labels.classification import ClassificationRecipe
from regard.tasks.text_labels.multiple_choice import ChoiceRecipe
from regard.tasks.text_labels.similarity import SimilarityRecipe
from regard.tasks.text_labels.tagging import TaggingRecipe
from regard.tasks.translation.task import SIZES, TranslationRecipe
from regard.tasks.translation.text_to_text import TextToTextRecipe
from regard.tasks.word2vec.task import EmbeddingRecipe

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
FILLED = ("classes", "size")  # what models of pictures take from the data
PAGES = {"seq2seq": "[Recurrent networks](recurrent.md)"}  # where models of translation are described
SIZED = ("width", "heads", "hidden", "encoder", "decoder", "dropout")
SMALL = (
    (
        "Pictures",
        "A recipe with `task: pictures` learns to [classify pictures](vision.md).",
        ImageClassificationRecipe,
    ),
    (
        "Captions",
        "A recipe with `task: captions` learns to [write captions](captions.md).",
        CaptionsRecipe,
    ),
    (
        "Pixels",
        "A recipe with `task: pixels` learns to [write pictures pixel by pixel](pixels.md).",
        PixelsRecipe,
    ),
    (
        "Finding digits",
        "A recipe with `task: localisation` learns to [find a digit in a picture](shapes.md).",
        LocalisationRecipe,
    ),
    (
        "Counting digits",
        "A recipe with `task: counting` learns to [count digits in every frame](shapes.md).",
        CountingRecipe,
    ),
    (
        "Remembering",
        "A recipe with `task: remembering` learns to [remember sequences](memory.md).",
        MemoryRecipe,
    ),
    (
        "Tables",
        "A recipe with `task: regression` learns to [predict a column of a table](shapes.md).",
        RegressionRecipe,
    ),
    (
        "Graphs",
        "A recipe with `task: node-classification` learns to [classify the nodes of a graph](graphs.md).",
        NodeRecipe,
    ),
    (
        "Omics",
        "A recipe with `task: omics` learns the [classes of samples from several tables](omics.md).",
        OmicsRecipe,
    ),
)
PRETRAINING: tuple[tuple[str, str, type[Pretraining], Sequence[str]], ...] = (
    ("GPT", "A recipe with `task: causal-lm` learns to [continue texts](pretraining.md).", CausalLM, ()),
    (
        "BERT",
        "A recipe with `task: masked-lm` learns to [fill gaps](pretraining.md); its other sections are those of a GPT.",
        MaskedLM,
        ("data", "model", "objective"),
    ),
    (
        "T5",
        "A recipe with `task: span-corruption` learns to [restore spans](pretraining.md); "
        "its other sections are those of a GPT.",
        SpanCorruption,
        ("model", "objective"),
    ),
)
CHARACTERS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)

OPENING = """\
# Recipes

A recipe is a YAML file that says what one training run does: which task, which data, which model, how long. Every
setting has a default but the data, so the shortest recipe names two files:

```yaml
data:
  train:
    source: a.fr
    target: a.en
```

or a task and a file. Files are named in the same way for every task: by a path, by a section with a `path` where there
is more to say, or by a list of either.

```yaml
task: classification
data:
  train: [news.csv, {path: more.tsv, columns: [2, 1]}]
  valid: test.csv
```

Sizes, batches, length of training, warm-up and patience that nobody names follow from the data.

`regard train recipe.yaml` runs it. Settings after the file change it for one run; the value is YAML:

```sh
regard train recipes/tatoeba-fr-en.yaml training.steps=2000 'optim.betas=[0.9, 0.999]'
```

In Python the same recipe may be a mapping: `regard.train({"data": {...}}, "training.steps=2000", out="runs/a")`.

The files in [`recipes/`](../recipes) are commented and each of them is run by the tests. A run writes the recipe with
every default filled in to `config.yaml` in its folder. An unknown name is an error that names the nearest one
(`unknown setting optim.warmpu, did you mean warmup?`), names that are usual elsewhere answer with those used here
(`unknown setting model.hidden_size: it is called model.width here`), and a value of the wrong kind or out of its range
is an error that says what is allowed. `null` stands for nothing. `lr`, at the top or in
`optim`, is short for `optim.learning_rate`, and the names that settings had in earlier versions are read as those of
today; a setting under two names at once is refused.
YAML aliases, tags and doubled names are refused; `on`, `off`, `yes` and `no` are words, `true` and `false` are not.

This page is generated by `scripts/make_docs.py` from the code; change it there.
"""


def reference() -> str:
    """The whole page."""
    rows = config.describe(TranslationRecipe)
    sections = [row for row in rows if "." not in row.name]
    parts = [OPENING]
    for section in sections:
        inside = [row for row in rows if row.name.startswith(f"{section.name}.")]
        parts.append(_section(section, inside))
        parts += _others(section, rows)
    words = "A recipe with `task: word2vec` learns [word vectors](word2vec.md) and has these sections."
    texts = "A recipe with `task: language` trains a recurrent [language model](language.md) and has these sections."
    parts += [_other("Word vectors", words, EmbeddingRecipe), _other("Language models", texts, LanguageRecipe)]
    for title, opening, task, only in PRETRAINING:
        parts += [_other(title, opening, task.Recipe, only=only), _suited(title, task)]
    labels = "A recipe with `task: classification` trains a [classifier of texts](labels.md) and has these sections."
    tags = "A recipe with `task: tagging` trains a [tagger of words](labels.md); its other sections are the same."
    parts.append(_other("Classification", labels, ClassificationRecipe))
    parts.append(_other("Tagging", tags, TaggingRecipe, only=("data",)))
    alike = "A recipe with `task: similarity` learns [how alike texts are](labels.md); its other sections are the same."
    parts.append(_other("Similarity", alike, SimilarityRecipe, only=("data",)))
    choices = (
        "A recipe with `task: choice` learns to [choose among answers](labels.md); its other sections are the same."
    )
    parts.append(_other("Choice", choices, ChoiceRecipe, only=("data",)))
    asked = (
        "A recipe with `task: question-answering` learns to [answer questions](answering.md) and has these sections."
    )
    parts.append(_other("Question answering", asked, AnsweringRecipe, only=("data", "tokenizer", "model", "objective")))
    pairs = "A recipe with `task: matching` learns [vectors of texts](embeddings.md) from pairs and has these sections."
    parts.append(_other("Matching", pairs, MatchingRecipe))
    asked = "A recipe with `task: text-to-text` trains a [T5 that answers texts](pretraining.md#text-to-text)."
    alike = f"{asked} Its tokenizer, optimizer and training sections are those of a translator, its tuning a GPT's."
    parts.append(_other("Text to text", alike, TextToTextRecipe, only=("data", "model", "objective", "decoding")))
    parts += [_other(*small, only=("data", "augment", "model", "objective")) for small in SMALL]
    made = "A recipe with `task: gan` learns to [make pictures](gan.md); each of its two networks has an optimizer."
    parts.append(_other("Making pictures", made, GANRecipe, only=("data", "model", "objective", "optim")))
    parts.append(_pictured())
    return "\n".join(parts)


def _other(title: str, opening: str, kind: type, *, only: Sequence[str] = ()) -> str:
    """The settings of another kind of recipe, or some sections of them."""
    rows = config.describe(kind)
    lines, called = [f"## {title}", "", opening], title if title.isupper() else title.lower()
    named = (row for row in rows if "." not in row.name and row.name != "task")
    for section in (row for row in named if not only or row.name in only):
        inside = [row for row in rows if row.name.startswith(f"{section.name}.")]
        own, entries = ([row for row in inside if ("[]" in row.name) == listed] for listed in (False, True))
        lines += ["", f"### `{section.name}` of {called}", "", section.help, ""]
        lines += (
            _settings(own, section.name)
            if inside
            else [f"{section.type[:1].upper()}{section.type[1:]}; `{section.default}` when not given."]
        )
        for name in ("data.train", "data.pairs") if entries else ():
            if listed := [row for row in entries if row.name.startswith(f"{name}[].")]:
                lines += ["", f"Each entry of `{name}` has these settings.", "", *_settings(listed, f"{name}[]")]
        for choice, other in _choices(section, rows).items():
            head = f"### `{section.name}` with `name: {choice}` of {called}"
            lines += ["", head, "", *_settings(other, f"{section.name}({choice})")]
    return "\n".join(lines) + "\n"


def _suited(title: str, task: type[Pretraining]) -> str:
    """The presets of a model of texts, and what is chosen by the amount of text."""
    kind: Any = next(iter(config.sections(task.Recipe, "model").values()))
    names = ", ".join(f"`{name}`" for name in kind.PRESETS)
    head = "Sizes, windows in a row, rate and epochs that nobody names follow from the tokens of the training text."
    keys = list(task.sizes[0].model)
    plain = {row.name: row.default for row in config.describe(kind)}
    rows = (
        (
            "more" if size.most == float("inf") else f"up to {size.most:,}",
            *(str(size.model.get(key, plain[key])) for key in keys),
            *map(str, (size.windows, size.rate, size.epochs)),
        )
        for size in task.sizes
    )
    table = _table(("tokens", *(f"`{key}`" for key in keys), "`batch_size`", "`learning_rate`", "epochs"), rows)
    lines = [f"### Sizes of a {title}", "", f"`model.preset` names all sizes at once: {names}.", "", head, "", *table]
    return "\n".join(lines) + "\n"


def _section(section: config.Field, inside: Sequence[config.Field]) -> str:
    """One heading with the table below it, and what is derived rather than set."""
    lines = [f"## `{section.name}`", "", section.help]
    if not inside:
        rows = ((f"`{name}`", entry.title, _option(entry.takes), entry.kind) for name, entry in TASKS.items())
        table = _table(("task", "learns from, and becomes", "files", "trained, it is"), list(rows))
        lines += ["", f"One of these; `{section.type}` where a recipe does not say.", "", *table]
    own = [row for row in inside if not _of_corpus(row.name)]
    if own:
        lines += ["", *_settings(own, section.name)]
    corpus = [row for row in inside if row.name.startswith("data.train[].")]
    if corpus:
        lines += ["", "### A corpus", "", "Each entry of `data.train` and of `data.valid` has these settings.", ""]
        lines += _settings(corpus, "data.train[]")
    if section.name == "tokenizer":
        lines += ["", *_vocabularies()]
    if section.name == "model":
        lines += ["", *_presets(), "", *_sizes()]
    return "\n".join(lines) + "\n"


def _option(kind: str | None) -> str:
    """Return the option that names a kind of files."""
    return "none" if kind is None else f"`--{kind}`"


def _others(section: config.Field, rows: Sequence[config.Field]) -> list[str]:
    """A table for each other section that may stand in the place of this one, chosen by its name."""
    parts = []
    for choice, own in _choices(section, rows).items():
        head = [f"### `{section.name}` with `name: {choice}`", "", f"Described in {PAGES[choice]}.", ""]
        parts.append("\n".join([*head, *_settings(own, f"{section.name}({choice})")]) + "\n")
    return parts


def _choices(section: config.Field, rows: Sequence[config.Field]) -> dict[str, list[config.Field]]:
    """The settings of each other section that may stand in the place of this one, by its name."""
    found: dict[str, list[config.Field]] = {}
    for row in rows:
        if row.name.startswith(f"{section.name}("):
            found.setdefault(row.name.partition("(")[2].partition(")")[0], []).append(row)
    return found


def _of_corpus(name: str) -> bool:
    return name.startswith(("data.train[].", "data.valid[].", "data.valid."))


def _settings(rows: Sequence[config.Field], prefix: str) -> list[str]:
    cells = ((f"`{row.name.removeprefix(f'{prefix}.')}`", row.type, f"`{row.default}`", row.help) for row in rows)
    return _table(("setting", "value", "default", "meaning"), cells)


def _presets() -> list[str]:
    """Sizes by name."""
    head = "`preset` names sizes; other settings of the section change them."
    rows = ((f"`{name}`", *(str(sizes[key]) for key in SIZED)) for name, sizes in TransformerConfig.PRESETS.items())
    return [head, "", *_table(("preset", *SIZED), rows)]


def _pictured() -> str:
    """Sizes of models of pictures by name."""
    head = "`model.preset` names all sizes at once, for ImageNet: classes, channels and size follow from the pictures."
    kinds = {name: MODELS[name][1] for name in ("vit", "resnet", "vgg", "efficientnet")}
    rows = []
    for name, kind in kinds.items():
        for preset, settings in kind.PRESETS.items():
            told = ", ".join(f"{key} {_short(value)}" for key, value in settings.items() if key not in FILLED)
            count = f"{kind(**settings).parameters:,}"
            rows.append((f"`{preset}`", f"`{name}`", told or "as above", str(settings["size"]), count))
    table = _table(("preset", "name", "settings", "pixels", "parameters with 1,000 classes"), rows)
    return "\n".join(["## Sizes of models of pictures", "", head, "", *table]) + "\n"


def _short(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _sizes() -> list[str]:
    """Sizes when the recipe has no model section."""
    head = (
        "Sizes that nobody names follow from the number of training pairs, and the norm comes first (`norm: pre`). "
        "A setting that is named, in the file or after it, counts; the others still follow from the data."
    )
    rows = [(f"up to {most:,}", *(str(sizes[key]) for key in SIZED)) for most, sizes in SIZES]
    plain = TransformerConfig()
    rows.append(("more", *(str(getattr(plain, key)) for key in SIZED)))
    return [head, "", *_table(("pairs", *SIZED), rows)]


def _vocabularies() -> list[str]:
    """Sizes of the vocabulary when the recipe names none."""
    head = "Where `vocab` is null, the amount of text decides how many tokens `bpe` and `unigram` have."
    rows = ((f"{count:,}", f"{default_vocab_size('bpe', count):,}") for count in CHARACTERS)
    return [head, "", *_table(("characters, both sides if joint", "tokens"), rows)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def main() -> None:
    """Write the page."""
    PAGE.write_text(reference(), encoding="utf-8")
    print(f"{PAGE}: written")


if __name__ == "__main__":
    main()
