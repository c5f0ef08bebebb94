"""Markup and placeholders: whatever a translator answers, tags come back once and nested, placeholders verbatim."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.translation.documents.markup import Marked, cut, parse
from regard.tasks.translation.documents.tag_placement import diagonal_links, restore, strongest_links

WORDS = ["le", "chat", "noir", "l'eau", "5", "&lt;", "&amp;", "dort.", "Œuf", "!", "&#233;t&eacute;"]
SAID = ["the", "cat", "<b>", "&", "it's", "X1", "X2", "x1", "X1s", "X12", "({", ".", "\u00a0", "été", "猫X2は"]


@st.composite
def trees(draw) -> str:
    """Well-formed markup in which every element has a number and every placeholder another text."""
    numbers = iter(range(1000))

    def content(depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(0, 4))):
            kind = draw(st.sampled_from(["word", "word", "word", "keep", "point", "element"][: 6 if depth else 5]))
            if kind == "word":
                parts.append(draw(st.sampled_from(WORDS)))
            elif kind == "keep":
                form = draw(st.sampled_from(["{{p{}}}", "%({}x)s", "www.a.fr/{}x?a=1&amp;b=2", "<code>c{}</code>"]))
                parts.append(form.format(f"{next(numbers)}"))
            elif kind == "point":
                parts.append(f'<img id="{next(numbers)}" alt="a &gt; b"/>')
            else:
                name = draw(st.sampled_from(["b", "i", "a"]))
                parts.append(f'<{name} id="{next(numbers)}">{content(depth - 1)}</{name}>')
            parts.append(draw(st.sampled_from([" ", " ", "", "\n "])))
        return "".join(parts)

    return content(3)


def structure(text: str) -> tuple[dict[str, str | None], str]:
    """Which element is inside which, and the text without white space, as an XML parser of somebody else sees them."""
    root = ElementTree.fromstring(f'<root id="root">{text.replace("&eacute;", "é").replace("&nbsp;", " ")}</root>')
    parents = {child.get("id"): parent.get("id") for parent in root.iter() for child in parent if child.get("id")}
    return parents, "".join("".join(root.itertext()).split())


def whole(parts: list[str | Marked], answers: list[str], links: list[tuple[int, int]] | None) -> str:
    given = iter(answers)
    return "".join(part if isinstance(part, str) else restore(part, next(given), links) for part in parts)


@settings(max_examples=80)
@given(
    trees(),
    st.lists(st.sampled_from(SAID), max_size=8),
    st.none() | st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12),
)
def test_every_tag_comes_back_once_inside_the_same_one_whatever_is_answered(text, said, links):
    parts = parse(text)
    answers = [" ".join(said)] * len(parts)
    given, found = structure(text), structure(whole(parts, answers, links))
    assert found[0] == given[0]


@settings(max_examples=80)
@given(
    trees(),
    st.lists(st.sampled_from(SAID), max_size=8),
    st.none() | st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12),
)
def test_every_placeholder_comes_back_verbatim_and_once(text, said, links):
    result = whole(parse(text), [" ".join(said)] * 50, links)
    kept = re.findall(r"\{p\d+\}|%\(\d+x\)s|www\.a\.fr/\d+x\?a=1&amp;b=2|<code>c\d+</code>", text)
    assert Counter({keep: result.count(keep) for keep in kept}) == Counter(kept)


@settings(max_examples=50)
@given(trees(), st.lists(st.sampled_from(["the", "cat", "&", "<", "été", ".", "it's"]), max_size=8))
def test_the_words_of_the_answer_stay_and_are_escaped(text, said):
    [*_, last] = [None, *(part for part in parse(text) if isinstance(part, Marked))]
    if last is not None:
        answer = " ".join([*said, *last.kept])
        for name, raw in last.kept.items():
            answer = answer.replace(name, "".join(ElementTree.fromstring(f"<r>{raw}</r>").itertext()))
        found = structure(restore(last, " ".join([*said, *last.kept])))[1]
        assert found == "".join(answer.split())


@given(trees())
def test_a_translator_that_repeats_gives_the_text_back(text):
    parts = parse(text)
    answers = [part.plain for part in parts if isinstance(part, Marked)]
    result = "".join(
        part if isinstance(part, str) else restore(part, part.plain, [(i, i) for i in range(50)]) for part in parts
    )
    assert len(answers) == sum(isinstance(part, Marked) for part in parts)
    assert structure(result) == structure(text)


def test_tags_follow_their_words_when_the_order_changes():
    links = [(0, 0), (1, 2), (2, 1), (3, 3), (4, 4)]
    for text, expected in (
        ("Le <b>chat noir</b> dort.", "The <b>black cat</b> sleeps."),
        ("Le <b>chat</b> <i>noir</i> dort.", "The <i>black</i> <b>cat</b> sleeps."),
        ("<p>Le <b>chat <i>noir</i></b> dort.</p>", "<p>The <b><i>black</i> cat</b> sleeps.</p>"),
        ("<b>Le chat noir dort.</b>", "<b>The black cat sleeps.</b>"),
        ("Le chat noir <img/> dort.", "The black cat <img/> sleeps."),
        ("Le chat noir dort<sup>1</sup>.", "The black cat sleeps<sup>1</sup>."),
    ):
        assert whole(parse(text), ["The black cat sleeps."], links) == expected


def test_what_wraps_a_sentence_and_what_is_not_text_never_meets_the_translator():
    text = (
        '<!-- a --><ul class="x"><li><a href="?a=1&b"> Bonjour&nbsp;! </a></li></ul><script>if (a<b) c()</script><br>'
    )
    parts = parse(text)
    [marked] = [part for part in parts if isinstance(part, Marked)]
    assert marked.plain == "Bonjour\u00a0!"
    assert not marked.marks
    assert whole(parts, [marked.plain], None) == text.replace("&nbsp;", "\u00a0")


@pytest.mark.parametrize(
    "text",
    [
        "<p>Un <b>deux</p><p>trois</b> quatre</p>",
        "a </i> b <b> c",
        "5 < 6 & 7 > 3",
        "<b",
        "a <!-- b",
        "<a title=l'eau>x</a> y",
    ],
)
def test_broken_markup_is_not_made_worse(text):
    result = whole(parse(text), ["un deux", "trois quatre"], None)
    tags = re.findall(r"</?[a-z][^<>]*>", text)
    assert re.findall(r"</?[a-z][^<>]*>", result) == tags


def test_nothing_to_translate_is_left_alone():
    for text in ("", " ", "{name}", "%s: %d", "— !", "<b>{a}</b> - <i/>", "&nbsp;<br>"):
        assert "".join(part if isinstance(part, str) else "?" for part in parse(text)) == text
    for text in ("", " ", "{name}", "%s: %d", "— !"):
        assert cut(text).plain == ""
        assert restore(cut(text), "") == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Bonjour {name} !", ["{name}"]),
        ("{count, plural, one {# file} other {# files}} lus", ["{count, plural, one {# file} other {# files}}"]),
        ("De {{user.name}} à ${HOME}/x $PATH et %USER%", ["{{user.name}}", "${HOME}", "$PATH", "%USER%"]),
        ("%s de %1$s, %(n)d, %5.2f et %ld, 100% sûr, 50 % de plus", ["%s", "%1$s", "%(n)d", "%5.2f", "%ld"]),
        (
            "Voir https://a.fr/b?c=1&d=(2). Ou www.a.fr, a.b+c@d-e.co.uk !",
            ["https://a.fr/b?c=1&d=(2", "www.a.fr", "a.b+c@d-e.co.uk"],
        ),
        ("fichier{n}.txt et {a}{b}", ["fichier{n}", "{a}{b}"]),
        ("coûte 5 $ ou 3 %", []),
    ],
)
def test_placeholders_are_known_when_seen(text, kept):
    marked = cut(text)
    assert list(marked.kept.values()) == kept
    assert not any(raw in marked.plain for raw in kept)
    assert restore(marked, marked.plain) == text


def test_formulas_stay_words_and_protected_text_is_kept():
    [marked] = parse('H<sub>2</sub>O et <span translate="no">Le Monde</span> en <var>x</var>')
    assert list(marked.kept.values()) == ["H<sub>2</sub>O", '<span translate="no">Le Monde</span>', "<var>x</var>"]
    assert marked.plain == "X1 et X2 en X3"
    assert marked.required_phrases == ["X1", "X2", "X3"]


def test_a_stand_in_is_never_a_word_of_the_text_and_names_come_first():
    assert cut("X1 et x2 {a}").plain == "X1 et x2 X3"
    assert cut("Tom voit {a} et {b}", names=["Tom", "Ann"]).plain == "Tom voit Ann et X1"
    assert cut("{a} voit %d rois de %s", names=["7", "Tom"]).plain == "Tom voit 7 rois de X1"


def test_a_dropped_placeholder_comes_back_where_its_neighbours_are_and_a_repeated_one_once():
    marked = cut("Il reste {n} jours.")
    links = [(0, 0), (1, 1), (3, 2), (4, 3)]
    assert restore(marked, "There remain days.", links) == "There remain {n} days."
    assert restore(marked, "X1 days x1 remain.", [(2, 0)]) == "{n} days remain."
    assert restore(marked, "X1days.") == "{n} days."
    assert restore(marked, "X10 days.") == "{n} days."
    assert restore(cut("{a} tombe", names=["Tom"]), "Tomber !") in ("{a} Tomber !", "Tomber {a} !")
    assert restore(marked, "") == "{n}"


def test_languages_without_spaces_keep_their_placeholders():
    assert restore(cut("你好{name}世界"), "Hello X1, world") == "Hello {name}, world"
    assert restore(cut("Hello {name}!"), "你好X1！") == "你好{name}！"


def test_links_are_the_largest_weights():
    weights = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]
    assert strongest_links(weights) == [(0, 0), (1, 0), (2, 1)]
    assert strongest_links([]) == []
    assert diagonal_links(3, 3) == [(0, 0), (1, 1), (2, 2)]
    assert diagonal_links(2, 4) == [(0, 0), (0, 1), (1, 2), (1, 3)]


def test_hostile_input_takes_a_moment():
    for text in (
        "<a '" * 3000,
        "{" * 20000,
        "{a" * 20000,
        "<!--" * 5000,
        "a" * 50000 + "@",
        "a" + "<b>" * 300 + " x" + "</b>" * 300 + "y",
    ):
        parts = parse(text)
        whole(parts, ["x"] * len(parts), None)
