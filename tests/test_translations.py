"""The French documents keep step with the English ones: same commands, same output, same figures, same links."""

import re
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks

PAIRS = [
    ("README.md", "README.fr.md"),
    ("docs/tour.md", "docs/tour.fr.md"),
    ("docs/explorer.md", "docs/explorer.fr.md"),
]
SPACES = "\u00a0\u202f"


def both(pair: tuple[str, str]) -> tuple[Path, Path]:
    return ROOT / pair[0], ROOT / pair[1]


def prose(path: Path) -> str:
    """The text without its code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def code(path: Path) -> list[tuple[str, str]]:
    """Every block but the tree of files, comments left out: they may be in French."""
    found = [(block.language, block.text) for block in blocks(path, "sh", "python", "text", "json", "yaml")]
    return [(language, re.sub(r"\s*# .*", "", text)) for language, text in found if not text.startswith("regard/\n")]


def figures(path: Path) -> list[str]:
    """Every number of the prose, written the English way."""
    text = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", prose(path))
    if path.name.endswith(".fr.md"):
        text = re.sub(rf"(?<=\d)[{SPACES}](?=\d{{3}}\b)", "THOUSAND", text).replace("THOUSAND", ";")
        text = re.sub(r"(?<=\d),(?=\d)", ".", text).replace(";", ",")
    return sorted(re.findall(r"\d+(?:[.,]\d+)*", text))


def links(path: Path) -> list[str]:
    """Where the links lead, whatever the language of the page."""
    found = (link.replace(".fr.", ".") for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)))
    return sorted({link for link in found if not link.startswith("README.md")})


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_a_translation_has_the_same_code_and_output(pair: tuple[str, str]):
    english, french = both(pair)
    assert code(french) == code(english)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_a_translation_has_the_same_headings_tables_and_pictures(pair: tuple[str, str]):
    for pattern in (r"^(#+) ", r"^\|", r"^- ", r"^!\[[^\]]+\]\((.*)\)$"):
        english, french = (re.findall(pattern, prose(path), re.MULTILINE) for path in both(pair))
        french = [name.replace(".fr.png", ".png") for name in french]
        assert french == english, pattern


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_a_translation_has_the_same_figures_and_links(pair: tuple[str, str]):
    english, french = both(pair)
    assert figures(french) == figures(english)
    assert links(french) == links(english)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[1])
def test_each_language_leads_to_the_other_from_the_top(pair: tuple[str, str]):
    english, french = both(pair)
    assert f"]({french.name})" in english.read_text(encoding="utf-8").split("\n## ")[0]
    assert f"]({english.name})" in french.read_text(encoding="utf-8").split("\n## ")[0]


def folders(path: Path) -> list[str]:
    """The folders of a document's tree, without what is in the packages."""
    [block] = [block for block in blocks(path, "text") if block.text.startswith("regard/\n")]
    return re.findall(r"^(?:  )?(\S+/)", block.text, re.MULTILINE)


def test_both_trees_name_the_same_folders():
    assert folders(ROOT / "README.fr.md") == folders(ROOT / "README.md")


@pytest.mark.parametrize("name", ["README.fr.md", "docs/tour.fr.md", "docs/explorer.fr.md"])
def test_french_signs_keep_to_their_words(name: str):
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(ROOT / name))
    assert not re.findall(r".{12} [:;?!»]", text), "a no-break space stands before them"
    assert not re.findall(r"« .{12}", text)
