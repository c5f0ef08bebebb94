"""The documents tell the truth: every option has its place, every example runs, the reference is what the code says."""

import re
import runpy
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import typer.main

from regard import bench, config, recipe
from regard.cli import app, run
from regard.cost import GPUS, Plan
from regard.lab import complexity
from regard.tasks import TASKS
from regard.tasks.answering.task import AnsweringRecipe
from regard.tasks.embedding.matching import MatchingRecipe
from regard.tasks.embedding.pooling import EmbeddingConfig
from regard.tasks.gan.task import GANRecipe
from regard.tasks.graphs.task import NodeRecipe
from regard.tasks.images import classifier
from regard.tasks.images.map_evaluation import MapEvaluationOptions
from regard.tasks.images.task import ImageClassificationRecipe
from regard.tasks.memory.task import MemoryRecipe
from regard.tasks.pixels.task import PixelsRecipe
from regard.tasks.pretraining.causal import CausalRecipe
from regard.tasks.pretraining.corruption import SpanRecipe
from regard.tasks.pretraining.masked import MaskedRecipe
from regard.tasks.prompting.template import Template, list_templates
from regard.tasks.prompting.template import read as template
from regard.tasks.rnn_lm.task import LanguageRecipe
from regard.tasks.scenes.counting import CountingRecipe
from regard.tasks.scenes.localisation import LocalisationRecipe
from regard.tasks.tables.task import RegressionRecipe
from regard.tasks.text_labels.classification import ClassificationRecipe
from regard.tasks.text_labels.tagging import TaggingRecipe
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.task import TranslationRecipe
from regard.tasks.translation.text_to_text import TextToTextRecipe
from regard.tasks.word2vec.task import EmbeddingRecipe
from tests.conftest import unchecked
from tests.desk import lay_everything
from tests.documents import BRIEF, DOCUMENTS, ROOT, SMALL, Block, Desk, blocks, regards

COMMANDS = typer.main.get_command(app).commands
PAGES = ROOT / "docs" / "commands"
FOLLOWED = [path for path in DOCUMENTS if path.parent != ROOT and not path.name.endswith(".fr.md")]  # same commands


def shown(path: Path) -> str:
    """A document's name for a test."""
    return path.relative_to(ROOT).as_posix()


def examples() -> list[tuple[str, list[str]]]:
    """Every `regard` command of every document, with its place."""
    lines = [(block.place, line) for path in DOCUMENTS for block in blocks(path, "sh") for line in block.lines]
    return [(place, words) for place, line in lines if (words := regards(line)) is not None]


def anchors(document: Path) -> set[str]:
    """The names that headings can be linked by."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# The reference of settings.


def test_the_recipe_reference_is_what_the_code_says():
    page = runpy.run_path(str(ROOT / "scripts" / "make_docs.py"))["reference"]()
    assert (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8") == page, "run python scripts/make_docs.py"


@pytest.mark.parametrize(
    "kind",
    [
        TranslationRecipe,
        EmbeddingRecipe,
        LanguageRecipe,
        CausalRecipe,
        MaskedRecipe,
        SpanRecipe,
        ClassificationRecipe,
        TaggingRecipe,
        ImageClassificationRecipe,
        PixelsRecipe,
        GANRecipe,
        LocalisationRecipe,
        CountingRecipe,
        MemoryRecipe,
        RegressionRecipe,
        NodeRecipe,
        MatchingRecipe,
        AnsweringRecipe,
        TextToTextRecipe,
    ],
)
def test_the_recipe_reference_has_every_setting_and_its_help(kind):
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    rows = config.describe(kind)
    assert not [row.name for row in rows if not row.help]
    last = {row.name: row.name.rpartition(".")[2] for row in rows}
    assert not [name for name, own in last.items() if f"`{own}`" not in page and f".{own}`" not in page]
    assert not [row.name for row in rows if row.help not in page]


# One page per command.


def test_every_command_has_a_page_and_every_page_a_command():
    assert {path.stem for path in PAGES.glob("*.md")} == set(COMMANDS)


def options_of(command) -> list[str]:
    """The options of a command and of the commands below it."""
    own = [option for each in command.params for option in (*each.opts, *each.secondary_opts)]
    return [*own, *(option for below in getattr(command, "commands", {}).values() for option in options_of(below))]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_on_its_page(name):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    options = options_of(COMMANDS[name])
    missing = [option for option in options if option.startswith("-") and f"`{option}`" not in page]
    assert not missing


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_names_no_option_that_does_not_exist(name):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    table = page.partition("## Options")[2].partition("\n## ")[0]
    known = set(options_of(COMMANDS[name]))
    assert set(re.findall(r"`(--?[\w-]+)`", table)) <= known


def test_the_page_about_training_names_every_task():
    page = (PAGES / "train.md").read_text(encoding="utf-8")
    assert not [task for task in TASKS if f"`{task}`" not in page]


def test_the_page_about_cost_has_every_setting_of_a_plan():
    page = (PAGES / "cost.md").read_text(encoding="utf-8")
    for row in config.describe(Plan):
        assert f"| `{row.name}` | {row.default.removesuffix('.0')} |" in page
    assert ", ".join(GPUS) in page


def test_the_page_about_prompts_has_every_setting_and_every_template():
    page = (ROOT / "docs" / "prompting.md").read_text(encoding="utf-8")
    for row in config.describe(Template):
        assert f"| `{row.name}` | {row.default} | {row.help} |" in page
    assert all(f"| `{name}` |" in page for name, _ in list_templates() if not name.endswith("-fr"))


# Examples.


@pytest.mark.parametrize(("place", "words"), examples())
def test_an_example_is_a_command_that_exists_with_settings_that_exist(place, words):
    command, rest = COMMANDS[words[0]], list(words[1:])
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not getattr(command, "commands", {}) or not [word for word in rest if word[0] != "-"], "no such command"
    given = command.make_context(words[0], rest).params  # an unknown option or a bad value raises here
    if words[0] == "train":
        settings = [word for word in given["words"] or [] if "=" in word]
        kinds = {"masked": "masked-lm", "text": "causal-lm", "pictures": "pictures", "captions": "captions"}
        told = next((task for option, task in kinds.items() if given[option]), None)
        settings += [f"task={task}"] if (task := given["task"] or told) else []
        files = [ROOT / word for word in given["words"] or [] if word.endswith(".yaml") and (ROOT / word).is_file()]
        mapping = recipe.settings(files[0]) if files else {"data": {"train": {"path": "x"}}}
        recipe.resolve(config.override(mapping, settings))
    elif words[0] == "prompt":
        shipped = [given["template"]] if given["template"] in dict(list_templates()) else []
        assert [template(name, given["settings"] or []) for name in shipped or ["topic"]]
    elif "settings" in given:
        settings = config.override({}, given["settings"] or [])
        for name in (
            "tokenize",
            "stride",
            "document",
            "rating",
            "scatter",
            "labels",
            "classifier",
            "fit",
        ):  # of the score or of pictures, not of the search
            settings.pop(name, None)
        kinds = {"cost": Plan, "embed": EmbeddingConfig, "search": EmbeddingConfig}
        config.build(kinds.get(words[0], DecodingConfig), settings)


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk with all that the pages speak of, made once; every page gets a copy."""
    folder = tmp_path_factory.mktemp("laid")
    lay_everything(folder)
    files = ["--source", str(folder / "a.fr"), "--target", str(folder / "a.en")]
    with unchecked():
        assert run(["train", *files, "--out", str(folder / "runs" / "a"), *BRIEF, *SMALL]) == 0
    for name in ("b", "demo"):
        shutil.copytree(folder / "runs" / "a", folder / "runs" / name)
    return folder


@dataclass(frozen=True, kw_only=True)
class BriefMapEvaluation(MapEvaluationOptions):
    """Fewer pictures than usual."""

    grids: int = 8
    singles: int = 4


@pytest.mark.unchecked
@pytest.mark.parametrize("document", [page for page in FOLLOWED if blocks(page, "sh", "python")], ids=shown)
def test_a_reader_can_follow_the_document(document, laid, few_aligned, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "BATCHES", (1, 2))
    monkeypatch.setattr(bench, "SENTENCE_TOKENS", 10)
    monkeypatch.setattr(bench, "_median_seconds", partial(bench._median_seconds, repeats=2))
    monkeypatch.setattr(complexity, "measure", partial(complexity.measure, (256, 512, 1024), repeats=1))
    monkeypatch.setattr(classifier, "MapEvaluationOptions", BriefMapEvaluation)
    shutil.copytree(laid, tmp_path, dirs_exist_ok=True)
    Desk(tmp_path, monkeypatch).follow(document)


def test_a_wrong_example_would_be_found(tmp_path, monkeypatch, capsys):
    desk = Desk(tmp_path, monkeypatch)
    with pytest.raises(AssertionError, match="nowhere:1: regard translat"):
        desk.type("regard translat x", "nowhere:1")
    with pytest.raises(AssertionError, match="nobody tests"):
        desk.type("rm -rf runs", "nowhere:1")
    assert "No such command" in capsys.readouterr().err
    assert [block.lines for block in [Block("sh", "# a\nregard \\\n demo\n", "")]] == [["regard   demo"]]
    assert regards("A=b regard train - < x > y  # why") == ["train", "-"]
    assert all("=" in setting for setting in (*BRIEF, *SMALL))


# Links.


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_links_lead_somewhere(document):
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


def test_every_document_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        reached.add(document)
        links = re.findall(r"\]\(([^)#\s]+\.md)", document.read_text(encoding="utf-8"))
        pages = {(document.parent / link).resolve() for link in links if "://" not in link}
        waiting += [page for page in pages if page not in reached]
    assert set(DOCUMENTS) <= reached


def test_pictures_are_small_and_shown():
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    texts = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 150_000, picture
        assert f"pictures/{picture.name})" in texts
