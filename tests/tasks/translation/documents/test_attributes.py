"""Attributes of a page: what is read or heard is translated and quoted again, everything else stays byte for byte."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.documents.attributes import find_values, write_values
from regard.tasks.translation.documents.tag_placement import restore

UNTOUCHED = """<!-- <img alt="a cat"> --><script title="a cat">x = "<img alt='a cat'>";</script><style title="blue">p{}
</style><p translate="no" title="a cat"><img alt="a cat"></p><img translate=no alt="a cat"><b class="notranslate">
<i title="a cat">x</i></b><a href="?title=a" data-title="a cat" :title="cat" title-x="a">x</a><img alt="" title>
<svg><title>a cat</title><g aria-label="a cat"/></svg><input value="a cat" placeholder="{{ name }}" title="10 %">
<meta name="keywords" content="a cat"><meta content="a cat"><i title="{{ t("a cat") }}" alt="<?= a cat ?>">x</i>"""


class Attributes(HTMLParser):
    """All attributes as somebody else reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.values += attrs


def written(page: str, answer: str | None = None, language: str | None = None) -> str:
    """The page with each value answered by this, or by itself in capitals."""
    values = find_values(page)
    answers = [restore(one.marked, one.marked.plain.upper() if answer is None else answer) for one in values]
    return write_values(page, values, answers, language)


@pytest.mark.parametrize(
    ("page", "translated"),
    [
        ('<img src="cat.png" ALT="a cat">', '<img src="cat.png" ALT="A CAT">'),
        ("<img alt='it is \"big\"'/>", "<img alt='IT IS \"BIG\"'/>"),
        ('<img alt="a &quot;cat&quot; &amp; a dog">', '<img alt="A &quot;CAT&quot; &amp; A DOG">'),
        ("<img alt=cat title = cat>", '<img alt="CAT" title = "CAT">'),
        ('<textarea placeholder="a name">a</textarea>', '<textarea placeholder="A NAME">a</textarea>'),
        ('<button aria-label="close">x</button>', '<button aria-label="CLOSE">x</button>'),
        ('<meta content="a cat" name="Description">', '<meta content="A CAT" name="Description">'),
        ('<pre title="a cat">a</pre><code title="a">a</code>', '<pre title="A CAT">a</pre><code title="A">a</code>'),
        ('<i title="{{ name }} sleeps">x</i>', '<i title="{{ name }} SLEEPS">x</i>'),
        (UNTOUCHED, UNTOUCHED),
    ],
)
def test_what_is_read_or_heard_is_translated_in_its_own_quotation_marks(page, translated):
    assert written(page) == translated


def test_a_value_that_stays_the_same_stays_byte_for_byte():
    page = "<img alt='caf&eacute;\n  &#39;x&#39;' title=caf&eacute;>"
    assert written(page, answer="café 'x'").startswith("<img alt='caf&eacute;\n  &#39;x&#39;' ")
    assert written("<img title=caf&eacute;>", answer="café") == "<img title=caf&eacute;>"


@given(st.text(st.sampled_from("ab\"'<>&;= /é"), max_size=12), st.sampled_from(['"', "'", ""]))
def test_whatever_is_answered_the_page_stays_valid(answer, quote):
    page = f"<p><img id=one alt={quote}cat{quote} class='x'></p>"
    values = dict(Attributes(written(page, answer=answer)).values)
    assert values == {"id": "one", "alt": answer.strip(), "class": "x"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<html class="x" lang="en">', '<html class="x" lang="fr">'),
        ("<HTML LANG=en-GB xml:lang='en'>", "<HTML LANG=fr xml:lang='fr'>"),
        ('<html lang="fr-CA"><p lang="en">', '<html lang="fr-CA"><p lang="en">'),
        ('<html><p lang="en">', '<html><p lang="en">'),
        ('<html lang=""><!-- <html lang="en"> -->', '<html lang=""><!-- <html lang="en"> -->'),
    ],
)
def test_the_language_of_a_page_becomes_that_of_the_answer(before, after):
    assert written(before, language="fr") == after
    assert written(before) == before
