"""The map of the courses names what exists, and its commands are among those that other tests run."""

import runpy
import shlex
from functools import cache
from pathlib import Path

import pytest

from tests.desk import lay
from tests.documents import DOCUMENTS, ROOT, Desk, blocks, regards

MAKER = runpy.run_path(str(ROOT / "scripts" / "make_courses.py"))
COURSES = MAKER["read_courses"]()
SECTIONS = [(course["id"], section) for course in COURSES for section in course["sections"]]
DOCS = ROOT / "docs"
LINES = [regards(command) for _, section in SECTIONS for command in section["commands"]]
LAB = {tuple(words) for words in LINES if words is not None and words[0] == "lab"}


@cache
def run_commands() -> set[tuple[str, ...]]:
    """The commands of all pages under docs/, which the test of the documents runs in small."""
    pages = [path for path in DOCUMENTS if path.parent != ROOT and not path.name.endswith(".fr.md")]
    lines = [regards(line) for page in pages for block in blocks(page, "sh") for line in block.lines]
    return {tuple(words) for words in lines if words is not None}


@pytest.mark.parametrize(("language", "name"), [("en", "courses.md"), ("fr", "courses.fr.md")])
def test_both_pages_are_what_the_list_says(language: str, name: str) -> None:
    page = MAKER["render_page"](COURSES, language)
    assert (DOCS / name).read_text(encoding="utf-8") == page, "run python scripts/make_courses.py"


def test_five_courses_have_their_sections_in_both_languages() -> None:
    assert len(COURSES) == 5
    assert all(course["sections"] for course in COURSES)
    for _, section in SECTIONS:
        for part in ("title", "idea", *(["note"] if "note" in section else [])):
            assert set(section[part]) == {"en", "fr"}, section["title"]
            assert all(section[part].values()), section["title"]


def test_every_file_test_picture_and_page_exists() -> None:
    named = {ROOT / path for _, section in SECTIONS for path in (*section["files"], *section["tests"])}
    named |= {DOCS / "pictures" / name for _, section in SECTIONS for name in section["pictures"]}
    named |= {DOCS / section["page"] for _, section in SECTIONS}
    assert not sorted(str(path) for path in named if not path.exists())


def test_every_section_with_an_experiment_names_its_test() -> None:
    for _, section in SECTIONS:
        if any((regards(command) or [])[:1] == ["lab"] for command in section["commands"]):
            assert any(path.startswith("tests/lab/") for path in section["tests"]), section["title"]["en"]


@pytest.mark.parametrize(("course", "section"), SECTIONS, ids=[section["title"]["en"] for _, section in SECTIONS])
def test_every_section_has_commands_that_some_test_runs(course: str, section: dict) -> None:
    assert section["commands"], f"{course}: {section['title']['en']} has no command"
    for command in section["commands"]:
        words = regards(command)
        assert words is not None, command
        recipe = words[0] == "train" and words[1:2] and words[1].startswith("recipes/")  # each is run for two steps
        shown = (recipe and (ROOT / words[1]).exists() and len(words) == 2) or tuple(words) in run_commands()
        assert shown or words[0] == "lab", f"{command}: no page has it"


@pytest.mark.unchecked
@pytest.mark.parametrize("command", sorted(LAB - run_commands()), ids=" ".join)
def test_an_experiment_that_no_page_runs_runs_here(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    lay(tmp_path)
    Desk(tmp_path, monkeypatch).type(shlex.join(["regard", *command]), "docs/courses.yaml")
