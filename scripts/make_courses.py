"""Write docs/courses.md and docs/courses.fr.md, the map of five courses, from docs/courses.yaml.

    python scripts/make_courses.py

A test fails while the pages differ from what this writes.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent.parent / "docs"
LANGUAGES = ("en", "fr")
WORDS = {
    "en": {
        "heading": "# The map of the courses",
        "twin": "[En français](courses.fr.md)",
        "introduction": (
            "Five university courses on attention, section by section: the idea in a sentence, then the code that"
            " computes it, the command that runs it, the test that holds it to the course's numbers, and its picture."
            " Where a slide is wrong, or what it claims was not found, the section says so."
        ),
        "data": (
            "Names such as `runs/a`, `photos/` or `book.txt` stand for your own runs and files; a recipe names the"
            " public data it needs on its first lines."
        ),
        "page": "Read on",
        "files": "Code",
        "commands": "Run",
        "tests": "Test",
        "pictures": "Picture",
        "note": "Remark",
        "colon": ": ",
    },
    "fr": {
        "heading": "# La carte des cours",
        "twin": "[In English](courses.md)",
        "introduction": (
            "Cinq cours universitaires sur l'attention, section par section : l'idée en une phrase, puis le code qui"
            " la calcule, la commande qui l'exécute, le test qui la confronte aux nombres du cours, et son image."
            " Quand une diapositive contient une erreur, ou que ce qu'elle affirme n'a pas été retrouvé, la section le"
            " dit."
        ),
        "data": (
            "Des noms comme `runs/a`, `photos/` ou `book.txt` désignent vos propres modèles et fichiers ; une recette"
            " nomme dans ses premières lignes les données publiques dont elle a besoin."
        ),
        "page": "Pour en savoir plus",
        "files": "Code",
        "commands": "Exécuter",
        "tests": "Test",
        "pictures": "Image",
        "note": "Remarque",
        "colon": " : ",
    },
}


def read_courses() -> list[dict[str, Any]]:
    """Return the courses with their sections."""
    courses: list[dict[str, Any]] = yaml.safe_load((DOCS / "courses.yaml").read_text(encoding="utf-8"))
    return courses


def render_page(courses: list[dict[str, Any]], language: str) -> str:
    """Return the map in one language."""
    words = WORDS[language]
    links = [f"- [{course['title'][language]}](#{anchor(course['title'][language])})" for course in courses]
    parts = [words["heading"], words["twin"], words["introduction"], words["data"], "\n".join(links)]
    for course in courses:
        parts += [f"## {course['title'][language]}", course["about"][language]]
        for section in course["sections"]:
            parts += [f"### {section['title'][language]}", section["idea"][language]]
            parts.append("\n".join(render_links(section, language)))
    page = "\n\n".join(parts) + "\n"
    return add_no_break_spaces(page) if language == "fr" else page


def anchor(heading: str) -> str:
    """Return the name by which a heading can be linked."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def add_no_break_spaces(text: str) -> str:
    """Return French text with a no-break space wherever its typography has one."""
    return re.sub(r" (?=[:;?!»])|(?<=«) ", "\N{NO-BREAK SPACE}", text)


def render_links(section: Mapping[str, Any], language: str) -> Iterator[str]:
    """Yield the lines of a section that say where its code, commands, tests and pictures are."""
    words = WORDS[language]

    def line(kind: str, items: list[str]) -> str:
        return f"- {words[kind]}{words['colon']}{', '.join(items)}"

    yield line("files", [f"[`{path}`](../{path})" for path in section["files"]])
    if section["commands"]:
        yield line("commands", [f"`{command}`" for command in section["commands"]])
    yield line("tests", [f"[`{path}`](../{path})" for path in section["tests"]])
    if section["pictures"]:
        yield line("pictures", [f"[{name}](pictures/{name})" for name in section["pictures"]])
    yield line("page", [f"[{section['page']}]({section['page']})"])
    if "note" in section:
        yield line("note", [section["note"][language]])


if __name__ == "__main__":
    for code, name in zip(LANGUAGES, ("courses.md", "courses.fr.md"), strict=True):
        (DOCS / name).write_text(render_page(read_courses(), code), encoding="utf-8")
