"""The README tells the truth: its commands run, its tree is the disk's, its links lead somewhere."""

import gzip
import re
from pathlib import Path

import pytest

from tests.desk import lay, lay_labels, lay_others, lay_pictures, lay_texts
from tests.documents import ROOT, Desk, blocks, regards, targets

README = ROOT / "README.md"
DESIGN = ROOT / "docs" / "design.md"
TEXT = README.read_text(encoding="utf-8")
MADE = {"build", "data", "dist", "runs"}  # folders that commands and scripts make


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    lay(tmp_path)
    lay_labels(tmp_path)
    lay_pictures(tmp_path)
    lay_texts(tmp_path)
    lay_others(tmp_path)
    return Desk(tmp_path, monkeypatch)


def tree(document: Path) -> dict[str, str]:
    """Every path of a document's tree with its purpose."""
    [block] = [block for block in blocks(document, "text") if block.text.startswith("regard/\n")]
    found, folders = {}, []
    for line in block.text.rstrip("\n").split("\n"):
        name, _, purpose = line.strip().partition(" ")
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [name]
        found["".join(folders)] = purpose.strip()
    return found


@pytest.mark.unchecked
def test_a_reader_can_follow_the_readme_from_top_to_bottom(desk):
    desk.follow(README)
    made = {"a", "answers", "b", "book", "captions", "compared", "endings", "few", "gaps", "gpt2", "photos", "reviews"}
    made.add("word-class")
    assert {path.name for path in (desk.folder / "runs").iterdir()} == made


def test_make_demo_is_regard_demo():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    assert recipe.rstrip().endswith("/regard demo")


def test_the_sentences_shown_are_those_the_demo_is_tested_on():
    page = (ROOT / "docs" / "commands" / "demo.md").read_text(encoding="utf-8")
    test = gzip.decompress((ROOT / "regard" / "samples" / "tatoeba-fra-eng.test.tsv.gz").read_bytes()).decode("utf-8")
    pairs = {(french, english) for english, french, _ in (line.split("\t") for line in test.splitlines())}
    rows = re.findall(r"^│ (.+?) +│ (.+?) +│ (.+?) +│$", page, re.MULTILINE)
    assert len(rows) == 10
    assert {(source, reference) for source, _, reference in rows} <= pairs
    [score] = re.findall(r"\[BLEU ([\d.]+)\]\(docs/commands/demo\.md\)", TEXT)
    assert f"BLEU {score} on 500 pairs never seen in training" in page


def top() -> set[str]:
    """The folders of the repository that are kept."""
    names = {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and path.name not in MADE}
    return {name for name in names if not name.startswith((".", "__")) and not name.endswith(".egg-info/")}


def test_the_tree_of_the_design_names_every_module_and_folder():
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "regard").rglob("*.py")}
    inner = {path for path in modules if path.endswith("/__init__.py") and path.count("/") > 1}
    packages = {path.removesuffix("__init__.py") for path in inner}
    assert (modules - inner) | packages | top() <= set(tree(DESIGN))


def test_the_short_tree_names_every_package_and_wing():
    packages = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "regard").glob("*/__init__.py")}
    wings = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "regard" / "tasks").glob("*/__init__.py")}
    assert wings
    assert {f"{path}/" for path in packages | wings} | top() <= set(tree(README))


@pytest.mark.parametrize("document", [README, README.with_suffix(".fr.md"), DESIGN], ids=lambda path: path.name)
def test_a_tree_names_nothing_that_is_not_there_and_gives_everything_a_purpose(document):
    assert not [path for path in tree(document) if not (ROOT / path).exists()]
    assert all((ROOT / path).is_dir() == path.endswith("/") for path in tree(document))
    assert not [path for path, purpose in tree(document).items() if not purpose and path != "regard/"]


def test_the_reading_order_names_files():
    files = re.findall(r"`(regard/[\w/]+\.py)`", TEXT)
    assert files
    assert not [name for name in files if not (ROOT / name).is_file()]


def test_the_promised_commands_are_there():
    commands = {line for block in blocks(README, "sh") for line in block.lines}
    assert {"make demo", "make test", "make check", "pip install ."} <= commands
    assert {"demo", "test", "check"} <= targets()


def test_versions_are_those_of_the_package():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'"(torch[^"]+)"', settings)[1] in TEXT
    assert 'requires-python = ">=3.11"' in settings
    assert "Python 3.11 or newer" in TEXT


def test_it_can_be_read_in_three_minutes():
    prose = re.sub(r"^```.*?^```$|^\|.*?$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert len(prose.split()) < 3 * 250


def test_the_translations_shown_are_those_the_shipped_model_gives():
    import regard

    translator = regard.load(device="cpu")
    commands = [words for block in blocks(README, "sh") for line in block.lines if (words := regards(line))]
    asked = [words for words in commands if words[:2] == ["translate", "--to"]]
    shown = [block.text for block in blocks(README, "text") if not block.text.startswith("regard/")]
    assert asked
    assert ["".join(f"{translator.translate(text, to=to)}\n" for _, _, to, text in asked)] == shown
