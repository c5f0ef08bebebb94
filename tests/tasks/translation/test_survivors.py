"""Two hundred lines with names, numbers, addresses and the like, and what the shipped model makes of them."""

from collections import Counter

import pytest

import regard
from regard.tasks.translation.lost_names import Lexicon, Risk, find_lost_names
from regard.tasks.translation.translator import Translator
from tests.documents import ROOT

EXACT = ("date", "price", "email", "web", "phone", "emoji", "placeholder", "code", "tag")
LEAST = 0.95  # of all lines


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return regard.load("en-fr", device="cpu")


def lost_names(shipped: Translator, text: str, answer: str) -> list[tuple[int, int]]:
    [risk] = shipped.lexicon.screen([text])
    return find_lost_names(text, answer, risk, shipped.lexicon)


def lines() -> list[list[str]]:
    text = (ROOT / "tests" / "sets" / "survivors.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.unchecked
def test_what_must_survive_does(shipped: Translator):
    given, kept = Counter(), Counter()
    for to in ("fr", "en"):
        own = [line for line in lines() if line[0] == to]
        answers = shipped.translate([text for _, _, text, *_ in own], to=to, beams=1)
        for (_, kind, _, *wanted), answer in zip(own, answers, strict=True):
            flat = " ".join(answer.split())
            given[kind] += 1
            kept[kind] += all(any(form in flat for form in forms.split("|")) for forms in wanted)
    assert given.total() == 200
    assert [kind for kind in EXACT if kept[kind] < given[kind]] == []
    assert kept.total() >= LEAST * given.total(), {kind: f"{kept[kind]} of {given[kind]}" for kind in given}


def test_every_line_holds_what_must_survive_or_another_spelling_of_it():
    for _, _, text, *wanted in lines():
        assert all(any(form in text for form in forms.split("|")) for forms in wanted), text


@pytest.mark.parametrize(
    ("text", "answer", "lost"),
    [
        ("I met Szymanski in June.", "J'ai rencontré Szymans en juin.", ["Szymanski"]),
        ("I met Szymanski in June.", "J'ai rencontré Szymanski en juin.", []),
        ("Szymanski's car is red.", "La voiture de Szyki est rouge.", ["Szymanski"]),
        ("We live in Switzerland.", "Nous vivons en Suisse.", []),
        ("Il parle de Kowalczyk et d'Oyelaran.", "He talks of Kow and Oye.", ["Kowalczyk", "Oyelaran"]),
        ("The dog is in the garden.", "Le chien est dans le jardin.", []),
        ("NATO HDMI", "OTAN", []),
        ("America was found by Columbus.", "L'Amérique fut trouvée par Colomb.", []),
        ("The Democratic Party and the Kenyans", "Le parti démocrate et les Kényans", []),
        ("James is my friend.", "Jamais est mon ami.", ["James"]),
        ("I met Lily's mother.", "J'ai rencontré la mère de doucement.", ["Lily"]),
        ("Sophia is here.", "Sophie est ici.", []),
        ("One case in point is Ethiopia.", "L'Éthiopie en est un exemple.", []),
        ("Mary and John left in June.", "Marie et Jean sont partis en juin.", []),
        ("Charlotte, Chad and Jordan are far.", "Charlotte, le Tchad et la Jordanie sont loin.", []),
        ("Pierre qui roule n'amasse pas mousse.", "A rolling stone gathers no moss.", []),
        ("Y a-t-il un ci-joint, c'est-à-dire un Lefebvre-Dumoulin ?", "Is there one?", ["Lefebvre-Dumoulin"]),
    ],
)
def test_lost_names_are_found_and_translated_ones_left(shipped, text, answer, lost):
    assert [text[begin:end] for begin, end in lost_names(shipped, text, answer)] == lost


def test_text_of_nothing_but_strange_words_is_left_to_the_model(shipped):
    assert lost_names(shipped, "Xqztvrbl kwpfzzgh brtzkq mnpqvx.", "Oui.") == []


@pytest.mark.parametrize(
    ("text", "answer", "closer"),
    [
        ("It was 1998.", "C'était en 1998.", False),
        ("It was 1998.", "C'était en 21998.", True),
        ("It was 1998.", "C'était il y a longtemps.", True),
        ("Rooms 3 and 1998.", "Chambres 1998 et 3.", False),
        ("Over 10 000 people.", "Plus de 10 personnes et 000.", True),
        ("Over 10,000 people.", "Plus de 10\u202f000 personnes.", False),
        ("Over 10,000 people.", "Plus de 10 000 000 personnes.", True),
        ("It is 3.5 metres long.", "Il mesure 3,5 mètres.", False),
        ("It is 3.5 metres long.", "Il mesure 13,5 mètres.", True),
        ("See notes_2.pdf.", "Voyez notes_2.pdf.", False),
        ("See notes_2.pdf.", "Voyez les notes.", True),
        ("See notes.pdf or notes.pdf first.", "Voyez notes.pdf.", True),
        ("Dear {first name}, hello.", "Cher {first name}, bonjour.", True),
        ("We left early.", "Nous sommes partis tôt.", False),
    ],
)
def test_numbers_that_an_answer_has_as_they_are_need_no_closer_look(shipped, text, answer, closer):
    [risk] = shipped.lexicon.screen([text])
    assert risk.may_lose_signs(text, answer) is closer


def test_chunks_are_forgotten_before_they_are_too_many(shipped, monkeypatch):
    monkeypatch.setattr("regard.tasks.translation.lost_names.REMEMBERED", 4)
    texts = ["Ask Lefebvre-Dumoulin, not me.", "It was 1998.", "We left early.", "Ask Lefebvre-Dumoulin, not me."]
    lexicon = Lexicon(shipped.source)
    one_by_one = [lexicon.screen([text])[0] for text in texts]
    assert one_by_one == Lexicon(shipped.source).screen(texts)
    assert one_by_one[0] == one_by_one[3] == Risk(words=("Lefebvre-Dumoulin",))
    assert (one_by_one[1], one_by_one[2]) == (Risk(numbers=("1998",)), Risk())
