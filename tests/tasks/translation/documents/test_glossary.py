"""A glossary: terms are found as words, the longest first, and what a file gets wrong is said with its line."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.translation.documents.glossary import Terms, load

TERMS = Terms.of(
    [
        ("chat", "cat"),
        ("chat noir", "panther"),
        ("noir comme jais", "jet-black"),
        ("API", "interface"),
        ("l'eau", "the water"),
        ("猫", "cat"),
        ("#note", "footnote"),
        ("C++", "C++"),
    ]
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Le chat dort.", ["cat"]),
        ("Le chat noir dort.", ["panther"]),
        ("Un chat noir comme jais.", ["cat", "jet-black"]),  # the longest is taken, then what does not overlap
        ("Des chats, un achat.", []),
        ("Le porte-chat", ["cat"]),
        ("un chat et un chat", ["cat"]),
        ("une API", ["interface"]),
        ("une api", []),  # a term with capitals only as written
        ("L’eau\u00a0vive", ["the water"]),
        ("chat\u00a0noir", ["panther"]),
        ("黒い猫です", ["cat"]),
        ("voir #note, en C++.", ["footnote", "C++"]),
        ("", []),
    ],
)
def test_terms_are_found_as_words_in_any_case_and_the_longest_wins(text, wanted):
    assert TERMS.required_targets(text) == wanted


def test_the_translation_takes_the_case_of_what_was_found_where_that_means_something():
    assert TERMS.required_targets("LE CHAT NOIR") == ["PANTHER"]
    assert TERMS.required_targets("Le Chat dort") == ["Cat"]
    assert TERMS.required_targets("Chat :") == ["Cat"]
    assert TERMS.required_targets("Chat perdu") == ["cat"]  # a capital because the sentence begins


@given(st.text(alphabet="chatnoir 'L-é猫.\u0301", max_size=30))
def test_matches_are_in_order_apart_and_what_they_say(text):
    matches = TERMS.matches(text)
    for one, other in pairwise(matches):
        assert one.end <= other.begin
    assert [match.target for match in matches if match.target not in TERMS.required_targets(text)] == []


@given(st.lists(st.tuples(st.text(alphabet="abc ", min_size=1).map(str.strip).filter(bool), st.just("x")), min_size=1))
def test_a_term_alone_is_found_whatever_other_terms_there_are(pairs):
    terms = Terms.of(pairs)
    for source, _ in pairs:
        assert [(match.begin, match.end) for match in terms.matches(source)] == [(0, len(source))]


def test_what_an_answer_lacks_is_told():
    assert TERMS.missing("Le chat noir et l'eau.", "The panther and the water.") == []
    assert TERMS.missing("Le chat noir et l'eau.", "The panthers and water.") == ["panther", "the water"]
    assert TERMS.missing("l'eau du chat noir", "The water of a Panther") == ["panther"]  # a capital only at the start


def test_a_file_is_read_with_comments_empty_lines_and_repetitions(tmp_path: Path):
    file = tmp_path / "terms.tsv"
    file.write_text("\ufeff# our words\n\nchat\tcat\r\n#note\tfootnote\n chat \tcat\n", encoding="utf-8")
    terms = load(str(file))
    assert len(terms) == 2
    assert terms.required_targets("#note: le chat") == ["footnote", "cat"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("chat cat\n", r"terms.tsv:1: 1 column"),
        ("a\tb\nchat\tcat\tnote\n", r"terms.tsv:2: 3 columns"),
        ("chat\t \n", r"terms.tsv:1: an empty term"),
        ("chat\tcat\nx\ty\nchat\ttom\n", r"terms.tsv:3: 'chat' is to be 'tom' but line 1 says 'cat'"),
        ("# nothing\n", r"no term in it"),
        (b"caf\xe9\tcoffee\n", r"terms.tsv:1: not UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content, complaint):
    file = tmp_path / "terms.tsv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=complaint):
        load(str(file))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", "house,demeure\nred wine,vin rouge\n"),
        ("g.csv", "\ufeffhouse;demeure\r\nred wine;vin rouge\r\n"),
        ("g.csv", '"house";"demeure"\n"red wine";"vin rouge"\n'),
        ("g.csv", "# comment\nhouse,demeure\n\nred wine,vin rouge\n"),
        ("g.csv", "# comment\nhouse;demeure\n\nred wine;vin rouge\n"),
        ("g.csv", "house\tdemeure\nred wine\tvin rouge\n"),
    ],
)
def test_a_spreadsheet_is_a_glossary_too(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    terms = load(str(tmp_path / name))
    assert terms.folded == {"house": "demeure", "red wine": "vin rouge"}


@pytest.mark.parametrize(
    ("name", "heading", "row"),
    [
        ("g.csv", "English;French", "house;demeure"),
        ("g.csv", "en,fr", "house,demeure"),
        ("g.csv", "anglais;français", "house;demeure"),
        ("g.tsv", "Source\tTarget", "house\tdemeure"),
        ("g.csv", "note;Terme;Traduction", "old;house;demeure"),
    ],
)
def test_a_heading_is_no_term_and_names_the_columns(tmp_path, name, heading, row):
    (tmp_path / name).write_text(f"{heading}\n{row}\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="is a heading and left out"):
        assert load(str(tmp_path / name)).folded == {"house": "demeure"}


@pytest.mark.parametrize("row", ["English;anglais", "term;terme", "source;source", "French;français"])
def test_a_term_is_no_heading(tmp_path, row):
    (tmp_path / "g.csv").write_text(f"{row}\n", encoding="utf-8")
    assert len(load(str(tmp_path / "g.csv"))) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("house\n", "g.csv:1: 1 column, write a term and its translation with a comma or a semicolon between them"),
        ("house,demeure\na,b,c\n", "g.csv:2: 3 columns, write"),
        ("house,\n", "g.csv:1: an empty term"),
        ('house,"dem\n', "g.csv:1: a quotation mark inside a cell, or one that is never closed: correct"),
    ],
)
def test_a_spreadsheet_that_is_no_glossary_says_what_works(tmp_path, text, told):
    (tmp_path / "g.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(told)):
        load(str(tmp_path / "g.csv"))
