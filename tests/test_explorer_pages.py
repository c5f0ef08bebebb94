"""The pages about the explorer name pictures that exist, and screens and buttons that their readers can find."""

import re
import runpy

import pytest

from tests.documents import ROOT

PAGES = {"en": ROOT / "docs" / "explorer.md", "fr": ROOT / "docs" / "explorer.fr.md"}
TAKER = runpy.run_path(str(ROOT / "scripts" / "make_explorer_pictures.py"))
SCREENS = ROOT / "regard" / "web" / "screens.js"
STRING = re.compile(r'(?:^|[\s{,])(?:[\w-]+|"[^"\n]+"): \[?"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
GAP = re.compile(r"\\\{\w+\\\}")


def read_strings(language: str) -> list[str]:
    """Return every text that the explorer shows in a language."""
    files = sorted((ROOT / "regard" / "web" / "strings").glob(f"*.{language}.js"))
    return [text for file in files for text in STRING.findall(file.read_text(encoding="utf-8"))]


def names_of_screens(language: str) -> dict[str, str]:
    """Return what each screen is called in a language."""
    keys = re.findall(r"^  (\w+): \{", SCREENS.read_text(encoding="utf-8"), re.MULTILINE)
    files = sorted((ROOT / "regard" / "web" / "strings").glob(f"*.{language}.js"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return {key: re.findall(rf'[\s{{]{key}: "([^"]+)"', text)[0] for key in keys}


def bold_texts(language: str) -> set[str]:
    """Return what a page has in bold: names of screens, buttons, fields and values."""
    return set(re.findall(r"\*\*([^*\n]+)\*\*", PAGES[language].read_text(encoding="utf-8")))


def is_shown(text: str, strings: list[str]) -> bool:
    """True if the explorer shows this text, with anything in the place of a gap."""
    wordings = (string for string in strings if re.sub(r"\{\w+\}", "", string).strip())
    patterns = (GAP.sub(".+", re.escape(string)) for string in wordings)
    return any(re.fullmatch(pattern, text) for pattern in patterns)


@pytest.mark.parametrize("language", PAGES)
def test_what_is_bold_can_be_found_in_the_explorer(language: str) -> None:
    strings = [string.replace("’", "'") for string in read_strings(language)]
    texts = bold_texts(language)
    assert len(texts) > 15
    assert not sorted(text for text in texts if not is_shown(text.replace("’", "'"), strings))
    assert not is_shown("a button that nobody made", strings)


@pytest.mark.parametrize("language", PAGES)
def test_every_screen_of_the_walk_is_named(language: str) -> None:
    names = names_of_screens(language)
    walked = set(names) - {"graph", "image"}  # which the models in the box do not have
    assert {names[key] for key in walked} <= bold_texts(language)


@pytest.mark.parametrize("language", PAGES)
def test_the_pictures_of_a_page_are_those_that_are_taken_for_it(language: str) -> None:
    ending = "png" if language == "en" else f"{language}.png"
    shown = re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", PAGES[language].read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(f"explorer-{name}.{ending}" for name in (*TAKER["SHOTS"], *TAKER["RUN_SHOTS"]))
    assert all((ROOT / "docs" / "pictures" / name).is_file() for name in shown)
