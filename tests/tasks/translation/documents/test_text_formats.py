"""Markdown and subtitles taken apart and put together: what is no text for people comes back to the byte."""

import re
from pathlib import Path

import pytest

from regard.tasks.translation.documents.inline_markdown import from_html, has_markup, to_html
from regard.tasks.translation.documents.markdown import split_markdown
from regard.tasks.translation.documents.text_formats import Part, copied_lines, split_subtitles, wrap

ROOT = Path(__file__).parents[4]
MARKDOWN = """---
title: My notes
---

# First *steps* #

A **very important** paragraph, which was
wrapped by hand, with `code` in it. See
[the page](https://example.org/a_(b)) for more.

- Open the door.
* [ ] Close it
  again.
2. Read `x = "a"`.

> Stay here tonight
> with us.

| Name | Price |
|:-----|------:|
| The `red` house | 12 |

a | b
--|--
one | two

```python
print("Hello")
```

    indented = "code"

![Alt](x.png)
<!-- a
comment -->
[1]: https://example.org
[^1]: A note.

Title
=====
A line that ends here.  \nAnd another.
***
"""
SRT = (
    "1\r\n00:00:06,200 --> 00:00:09,000\r\n<i>She does not know\r\nanything.</i>\r\n\r\n"
    "2\r\n00:00:10,000 --> 00:00:12,000 X1:40\r\n- Where?\r\n- There.\r\n\r\n"
    "3\r\n00:01:00,000 --> 00:01:02,000\r\n{\\an8}Close <3 the door.\r\n\r\n"
    "4\r\n00:01:03,000 --> 00:01:04,000\r\n{\\an8}Hello.\r\n42"
)
VTT = """WEBVTT - My title
Kind: captions

NOTE a comment
of two lines

STYLE
::cue { color: red }

intro
00:06.200 --> 00:09.000 align:start position:0%
<v Mary>I am tired
today.
"""


def rendered(parts: list[Part], translate) -> list[str]:
    return [line for part in parts for line in part.render([translate(text.written) for text in part.texts])]


def shout(text: str) -> str:
    """A translation that is easy to see: words in capitals, tags as they were."""
    return "".join(part if part.startswith("<") else part.upper() for part in re.split(r"(<[^<>]*>)", text))


def texts(parts: list[Part]) -> list[str]:
    return [text.written for part in parts for text in part.texts]


@pytest.mark.parametrize(
    ("split", "text"),
    [(split_markdown, MARKDOWN), (split_subtitles, SRT), (split_subtitles, VTT), (split_markdown, "\n\n")],
)
def test_no_line_is_lost_or_shared(split, text):
    lines = text.split("\n")
    parts = list(split(lines))
    assert [line for part in parts for line in part.lines] == lines


def test_markdown_hands_over_words_alone():
    parts = list(split_markdown(MARKDOWN.split("\n")))
    assert texts(parts) == [
        "First <m0>steps</m0>",
        "A <m0>very important</m0> paragraph, which was wrapped by hand, with <code id=1></code> in it. "
        "See <m2>the page</m2> for more.",
        "Open the door.",
        "Close it again.",
        "Read <code id=0></code>.",
        "Stay here tonight with us.",
        *("Name", "Price", "The <code id=0></code> house", "a", "b", "one", "two"),
        "A note.",
        "Title",
        "A line that ends here.",
        "And another.",
    ]
    assert copied_lines(parts) == {
        "of code": 4,
        "of front matter": 3,
        "without a letter": 4,
        "of HTML": 2,
        "of addresses": 1,
        "of code and pictures": 1,
    }


def test_markers_rules_and_code_come_back_as_they_were():
    lines = rendered(list(split_markdown(MARKDOWN.split("\n"))), shout)
    assert lines[4] == "# FIRST *STEPS* #"
    paragraph = " ".join(lines[6:9])
    assert paragraph.startswith("A **VERY IMPORTANT** PARAGRAPH, WHICH WAS WRAPPED BY HAND, WITH `code` IN IT.")
    assert paragraph.endswith("SEE [THE PAGE](https://example.org/a_(b)) FOR MORE.")
    assert lines[10:14] == ["- OPEN THE DOOR.", "* [ ] CLOSE IT", "  AGAIN.", '2. READ `x = "a"`.']
    assert lines[15:17] == ["> STAY HERE TONIGHT", "> WITH US."]
    assert lines[18:21] == ["| NAME | PRICE |", "|:-----|------:|", "| THE `red` HOUSE | 12 |"]
    assert lines[22:25] == ["A | B", "--|--", "ONE | TWO"]
    assert 'print("Hello")' in lines
    assert '    indented = "code"' in lines
    assert "[^1]: A NOTE." in lines
    assert "A LINE THAT ENDS HERE.  " in lines
    assert len(lines) == len(MARKDOWN.split("\n"))


def test_subtitles_change_in_their_words_alone():
    parts = list(split_subtitles(SRT.split("\n")))
    lines = rendered(parts, str)
    assert lines == SRT.split("\n")
    lines = rendered(
        parts, lambda text: text.replace("anything", "a thing").replace("Hello.", "Hello!").replace("!", ".")
    )
    assert lines[:2] + lines[4:-2] == SRT.split("\n")[:2] + SRT.split("\n")[4:-2]
    assert lines[2:4] == ["<i>She does not\r", "know a thing.</i>\r"]
    assert lines[-2:] == ["{\\an8}Hello.\r", "42"]
    assert texts(parts) == ["<i>She does not know anything.</i>", "Where?", "There.", "Hello. 42"]
    assert copied_lines(parts) == {"of times and numbers": 8, "with markup that is not known": 1}
    assert rendered(parts, lambda text: "Oui." if text.startswith("<i>") else text)[2:4] == ["Oui.\r", "\r"]


def test_headers_notes_and_settings_of_webvtt_are_copied():
    parts = list(split_subtitles(VTT.split("\n")))
    assert texts(parts) == ["<v Mary>I am tired today."]
    lines = rendered(parts, lambda text: text.replace("I am tired today", "Je suis fatiguée aujourd'hui"))
    assert lines[:11] == VTT.split("\n")[:11]
    assert lines[11:] == ["<v Mary>Je suis fatiguée", "aujourd'hui.", ""]


@pytest.mark.parametrize(
    ("words", "read", "told", "written"),
    [
        (
            "The house &amp; the car.",
            "The house <m0>&amp;</m0> the car.",
            "La maison <m0>et</m0> la voiture.",
            "La maison &amp; la voiture.",
        ),
        ("one &amp; two", "one <m0>&amp;</m0> two", "un <m0>et le</m0> deux", "un &amp; le deux"),
        ("&amp; so", "<m0>&amp;</m0> so", "<m0>&amp; donc</m0>", "&amp; donc"),
        ("R &amp; D", "R <m0>&amp;</m0> D", "R D <m0></m0>", "R D &amp;"),
        ("&lt;3 is nice.", "<code id=0></code> is nice.", "<code id=0></code> est bon.", "&lt;3 est bon."),
        (
            "AT&amp;T &copy; 5&nbsp;km",
            *2 * ["<code id=0></code> <wbr id=1> <code id=2></code>"],
            "AT&amp;T &copy; 5&nbsp;km",
        ),
        ("a&nbsp;cat", "a<wbr id=0> cat", "un<wbr id=0> chat", "un&nbsp;chat"),
        ("It&rsquo;s <i>m&eacute;</i>", "It&rsquo;s <i>m&eacute;</i>", "C’est <i>é</i>", "C&rsquo;est <i>&eacute;</i>"),
        ("5 < 6 & &unknown; 7", "5 < 6 & &unknown; 7", "5 < 6 & &unknown; 7", "5 < 6 & &unknown; 7"),
    ],
)
def test_entities_of_a_cue_are_read_as_they_are_meant_and_written_as_they_were(words, read, told, written):
    [_, part] = split_subtitles(["00:06.200 --> 00:09.000", words])
    if part.texts:
        assert part.texts[0].written == read
        assert part.write([part.texts[0].finish(told)]) == [written]
    else:
        assert part.lines == (written,)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<m0></m0> Le chat dort.", "**Le** chat dort."),
        ("Le chat <m0></m0>", "Le **chat**"),
        ("Le <m0> </m0>.", "**Le**."),
    ],
)
def test_emphasis_is_never_around_nothing(html, text):
    assert from_html(html, to_html("**The** cat")[1]) == text


def test_a_label_that_is_translated_keeps_its_address():
    lines = ["See [the list][], [it] and [that].", "", "[The List]: x.md", "[it]: y.md"]
    parts = list(split_markdown(lines))
    again = [
        line for part in parts for line in part.render([shout(text.written).replace("IT", "it") for text in part.texts])
    ]
    assert again == ["SEE [THE LIST][the list], [it] AND [THAT].", *lines[1:]]


@pytest.mark.parametrize(
    "text",
    [
        "**bold** and *it* and ***both*** and ~~gone~~",
        "a `code` and ``two ` ticks`` and <https://x.org>",
        '[a **b** c](x "t") ![alt](y) [r][1] note[^2]',
        "1 < 2 & 3 > 2, snake_case_name, 2 * 3 * 4, \\*no\\*",
        "<b>raw</b> &amp; <!-- c -->",
        "_under_ __two__",
    ],
)
def test_inline_markup_goes_to_html_and_back(text):
    html, marks = to_html(text)
    assert from_html(html, marks) == text
    assert "*" not in html.replace("2 * 3 * 4", "") or "\\*" in text


def test_plain_words_have_no_markup():
    for text in ("Just words.", "2 * 3 * 4 = 24", "snake_case_name", "1 < 2 & 3", "[unclosed", "5 $ and 6 $"):
        assert not has_markup(text), text


def test_a_wrapped_line_never_begins_a_list():
    assert wrap("one two three four", [1, 1]) == ["one two", "three four"]
    assert wrap("one two three four", [3, 1]) == ["one two three", "four"]
    assert wrap("one", [1, 1, 1]) == ["one"]
    assert wrap("aaaa bbbb - cccc dddd", [1, 1]) == ["aaaa bbbb -", "cccc dddd"]
    assert wrap('<font color="a b">one two</font>', [1, 1]) == ['<font color="a b">one', "two</font>"]


@pytest.mark.parametrize("name", ["README.md", "README.fr.md", "docs/data.md", "docs/commands/translate.md"])
def test_a_page_comes_back_word_for_word_from_a_translator_that_changes_nothing(name):
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    again = rendered(list(split_markdown(lines)), str)
    assert len(again) == len(lines)
    assert "\n".join(again).split() == "\n".join(lines).split()
