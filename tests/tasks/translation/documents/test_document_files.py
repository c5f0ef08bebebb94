"""Which files are translated as documents, which are refused, and which are plain text, by their names."""

import re
from pathlib import Path

import pytest

from regard.tasks.translation.documents.document_files import REFUSED, describe_unknown, document_form


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.md", "Markdown"),
        ("a.MDX", "MDX"),
        ("a.vtt.gz", "subtitles"),
        ("a.xhtml", "HTML"),
        ("a.txt", None),
        ("a", None),
        ("news.pl", None),
        (".gitignore", None),
    ],
)
def test_the_name_of_a_file_says_its_form(name, form):
    assert document_form(Path(name)) == form


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("film.ass", "subtitles in SubStation Alpha, whose form would be lost: save them as .srt"),
        ("film.ttml", "subtitles in TTML"),
        ("film.sub", "save them as .srt"),
        ("page.wiki", "wiki markup, whose form would be lost: save it as Markdown"),
        ("page.rst", "reStructuredText"),
        ("my paper.tex", "or translate its lines one by one with - < 'my paper.tex'"),
        *((f"a.{name}", "source code") for name in ("php", "vue", "py", "ts", "js", "css")),
        ("a.eml", "an e-mail with its headers"),
        *((f"a.{name}", "structured data") for name in ("svg", "toml", "ini", "yaml")),
        ("a.properties", "a catalogue of messages"),
    ],
)
def test_what_would_come_out_broken_is_refused_with_a_remedy(name, told):
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        document_form(Path(name))
    assert "\n" not in str(error.value)


def test_a_text_whose_name_says_nothing_is_reported():
    assert not any(map(describe_unknown, map(Path, ("a.txt", "a", "news.fr", "news.pt-BR", "a.txt.gz", "a.1"))))
    assert describe_unknown(Path("a.foo")).endswith("(.foo) is not known")
    assert "if it is source code, copy the texts" in describe_unknown(Path("a.cs"))


def test_every_refusal_is_of_a_name_in_small_letters():
    assert all(re.fullmatch(r"\.[a-z0-9]+", name) for name in REFUSED)
