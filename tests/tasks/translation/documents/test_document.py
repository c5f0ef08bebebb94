"""Documents: HTML stays HTML, placeholders stay themselves, terms are obeyed, and plain text is translated as ever."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import regard
from regard.tasks.translation.alignment import links, looks
from regard.tasks.translation.documents import document as documents
from regard.tasks.translation.documents.glossary import Match, Terms
from regard.tasks.translation.documents.tag_placement import find_stretch
from regard.tasks.translation.documents.terms import Wanting, fulfil_wishes
from regard.tasks.translation.teacher_forcing import score_tokens
from regard.tasks.translation.translator import Translator

PAGE = (
    '<div id="1"><p>Le <b class="x">chat noir</b> dort. Le roi mange !</p>\n<p>Le loup &amp; <i>le chien</i> {name}.'
    "</p><pre>Le roi</pre><p>Le roi dort.</p></div>"
)


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained, device="cpu")


def test_a_page_comes_back_well_formed_with_everything_that_was_in_it(translator):
    [page] = documents.translate(translator, [PAGE], html=True, beams=1)
    given, found = (ElementTree.fromstring(text) for text in (PAGE, page))
    assert sorted(node.tag for node in found.iter()) == sorted(node.tag for node in given.iter())
    assert [node.attrib for node in found.iter("b")] == [{"class": "x"}]
    assert page.count("{name}") == 1
    assert "<pre>Le roi</pre>" in page
    assert "<p>The king sleeps.</p>" in page
    assert re.sub("<.*?>", "", page).startswith("The black cat sleeps. The king eats!")


def test_text_without_markup_is_translated_as_ever(translator):
    texts = ["Le chat noir dort.  Le roi mange !\n\nLe loup dort.", "", " \n", "Le roi dort. "]
    assert documents.translate(translator, texts) == translator.translate(texts)
    assert documents.translate(translator, texts[:1], html=True) == [
        " ".join(translator.translate(texts[0]).split())
    ]  # white space means nothing there


def test_placeholders_survive_a_translator_that_has_never_seen_any(translator):
    texts = ["Le roi %s dort. Le chat mange !", "{a}", "Le {n} chat <b> dort."]
    for text, answer in zip(texts, documents.translate(translator, texts), strict=True):
        for placeholder in re.findall(r"%s|\{\w+\}", text):
            assert answer.count(placeholder) == 1


def test_each_sentence_gets_its_own_terms(translator):
    terms = Terms.of([("chat noir", "white wolf"), ("roi", "boy")])
    texts = ["Le chat noir dort.", "Le roi mange !", "Le loup dort."]
    one, two, three = documents.translate(translator, texts, terms=terms)
    assert documents.translate(translator, [" ".join(texts)], terms=terms) == [f"{one} {two} {three}"]
    assert "white wolf" in one.lower()
    assert "boy" in two.lower()
    assert three == translator.translate(texts[2])
    assert not terms.missing(texts[0], one)


def test_a_wish_takes_the_place_of_the_models_own_word(translator):
    own = translator.translate("Le chat noir dort.")
    wish = Match(3, 7, "wolf")
    [pairs] = links(translator, ["Le chat noir dort."], [own])
    place = find_stretch("Le chat noir dort.", own, pairs, (wish.begin, wish.end))
    wanting = [
        Wanting("Le chat noir dort.", own, [wish]),
        Wanting("Le roi dort.", "The king sleeps.", [Match(3, 6, "king")]),
        Wanting("Le roi dort.", "", [Match(3, 6, "king")]),
    ]
    granted, unchanged, empty = fulfil_wishes(translator, wanting, to=None, decoding=translator.decoding)
    assert place is not None
    assert granted.lower().startswith(own[: place[0]].lower() + "wolf")
    assert (unchanged, empty) == ("The king sleeps.", "")


def test_wishes_granted_together_are_those_granted_one_by_one(translator):
    texts = ["Le chat noir dort.", "Le roi mange !", "Le loup dort."]
    wishes = [[Match(3, 7, "wolf"), Match(8, 12, "white")], [Match(3, 6, "boy")], []]
    answers = translator.translate(texts)
    wanting = [Wanting(*each) for each in zip(texts, answers, wishes, strict=True)]
    together = fulfil_wishes(translator, wanting, to=None, decoding=translator.decoding)
    alone = [fulfil_wishes(translator, [each], to=None, decoding=translator.decoding)[0] for each in wanting]
    assert together == alone
    assert together[2] == answers[2]
    assert [each.answer for each in wanting] == answers, "what was asked is left as it was"


def test_an_answer_longer_than_the_model_reads_is_neither_linked_nor_scored(translator):
    room = translator.model.config.context
    long = " ".join(["king"] * room)
    assert len(translator.target.encode(long, written=True)) >= room
    assert links(translator, ["Le roi dort.", "Le roi dort."], [long, "The king sleeps."])[0] == []
    wanting = [Wanting("Le roi dort.", long, [Match(3, 6, "boy")])]
    assert fulfil_wishes(translator, wanting, to=None, decoding=translator.decoding) == [long]
    with pytest.raises(ValueError, match=f"and the model knows {room} positions"):
        list(
            score_tokens(
                translator, [translator.encode("Le roi dort.")], [translator.target.encode(long, written=True)]
            )
        )


def test_a_translator_looks_the_same_whether_it_writes_or_reads_its_answer(translator):
    trace = translator.look("Le chat noir dort.")
    written = translator.hypotheses([translator.encode("Le chat noir dort.", None)], [0], translator.decoding)[0][
        0
    ].tokens
    read = [translator.encode(text, None) for text in ("Le roi mange !", "Le chat noir dort.")]
    found = dict(looks(translator, read, [written[:3], written]))
    assert torch.allclose(found[1], trace.find("decoder.0.cross").values, atol=1e-4)
    assert found[0].shape == (4, 4, len(read[0]))


def test_links_join_words_and_skip_special_tokens(translator):
    sources, answers = ["Le roi dort.", "", "Le chat"], ["The king sleeps.", "x", ""]
    found = links(translator, sources, answers)
    assert {target for _, target in found[0]} == {0, 1, 2, 3}
    assert {source for source, _ in found[0]} == {0, 1, 2, 3}
    assert found[1:] == [[], []]
    assert found == [links(translator, [s], [a])[0] for s, a in zip(sources, answers, strict=True)]
    with pytest.raises(KeyError, match=r"no attention called decoder\.9"):
        links(translator, sources, answers, attention="decoder.9.cross")
