"""Whole pages of Markdown through a stand-in for the translator: words change, and nothing else does."""

import re
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.documents.document import NAMES
from regard.tasks.translation.documents.markdown import split_markdown
from regard.tasks.translation.documents.markup import Marked, cut, parse
from regard.tasks.translation.documents.tag_placement import restore
from regard.tasks.translation.documents.text_formats import Part, Text

PAGES = sorted((Path(__file__).parent / "pages").iterdir())
WORDS = re.compile("⟦(.*?)⟧")
"""What is to be translated stands in such brackets in the pages of this test."""
ADDED = re.compile("⟪(.*?)⟫")
"""And what a translation needs besides, in these: the labels of links that have words of their own."""


def shout(text: Text) -> str:
    """Return a text in capitals, the way the translator of documents takes it apart and puts it together."""
    parts = parse(text.written, names=NAMES) if text.html else [cut(text.written, names=NAMES)]
    return "".join(restore(part, part.plain.upper()) if isinstance(part, Marked) else part for part in parts)


def shouted(parts: list[Part]) -> list[str]:
    return [line for part in parts for line in part.render([shout(text) for text in part.texts])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.parametrize("ending", ["", "\r"], ids=["LF", "CRLF"])
def test_what_is_no_prose_comes_back_to_the_byte(page, ending):
    """Lines without a word to translate are where they were; of the others all but the words is."""
    marked = [line + ending for line in page.read_text(encoding="utf-8").split("\n")]
    source = [ADDED.sub("", WORDS.sub(r"\1", line)) for line in marked]
    wanted = [ADDED.sub(r"\1", WORDS.sub(lambda match: match[1].upper(), line)) for line in marked]
    assert shouted(list(split_markdown(source, jsx=page.suffix == ".mdx"))) == wanted


FRAGMENTS = r"""
word ¦ two words ¦ # head ¦ ## h # ¦ - item ¦   - sub ¦ 1. one ¦ > quote ¦ >> deep ¦ ``` ¦ ~~~ ¦ $$ ¦ \[ ¦ \]
``` a ` b ¦ \begin{a} ¦ \end{a} ¦ --- ¦ +++ ¦ title: x ¦ | a | b | ¦ |--|--| ¦ a | b ¦     code ¦ <div> ¦ </div>
<pre> ¦ </pre> ¦ <!-- ¦ --> ¦ <b ¦ > ¦ [a]: b ¦ [a] ¦ [a][] ¦ [a][b] ¦ [^1]: note ¦ : def ¦ !!! note
!!! note "a b" ¦ === "a" ¦ ::: ¦ :::note ¦ :::tip a ¦ > [!NOTE] ¦ {% raw %} ¦ {% endraw %} ¦ {{ x }} ¦ &amp;
a&nbsp;b ¦ 5&nbsp;km ¦ &rsquo; ¦ :wave: ¦ a\ ¦ ***a*** ¦ ==a== ¦ H~2~O ¦ `a` ¦ $a$ ¦ * ¦ ** ¦ _ ¦ [ ¦ ] ¦ ( ¦ ) ¦ \
& ¦ < ¦ import x ¦ export y ¦ <A b={ ¦ }> ¦ é ¦ 日本
"""
BLOCKS = st.sampled_from([*re.split(" ¦ |\n", FRAGMENTS), "a  ", "\tcode", "\0", "\ufeff"])
DOCUMENTS = st.lists(st.lists(BLOCKS, max_size=4).map(" ".join) | BLOCKS, max_size=12)


@given(lines=DOCUMENTS, ending=st.sampled_from(["", "\r"]), jsx=st.booleans())
def test_any_page_comes_back_to_the_byte_from_a_translator_that_changes_nothing(lines, ending, jsx):
    lines = [line + ending for line in lines]
    parts = list(split_markdown(lines, jsx=jsx))
    assert [line for part in parts for line in part.lines] == lines
    assert [line for part in parts for line in part.render([text.written for text in part.texts])] == lines


@given(lines=DOCUMENTS, jsx=st.booleans())
def test_the_signs_of_any_page_come_back_from_a_translator_that_changes_all_words(lines, jsx):
    parts = list(split_markdown(lines, jsx=jsx))
    again = [
        line for part in parts for line in part.write([text.finish(text.written) for text in part.texts]) if part.texts
    ]
    meant = [line for part in parts if part.texts for line in part.lines]
    assert "".join(unescape("".join(again)).split()) == "".join(unescape("".join(meant)).split())
