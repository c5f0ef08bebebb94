"""The shipped model with text as people type it: typography changes no meaning, and what must be copied is."""

import pytest

import regard
from regard import checkpoint, recipe
from regard.cli import run
from regard.data import tokenizers
from regard.data.tokenizers import TokenizerConfig
from regard.data.truecase import restore_case
from regard.tasks.translation.answers import Answer
from regard.tasks.translation.copying import Restoration, shield
from regard.tasks.translation.documents import document as documents
from regard.tasks.translation.documents.entities import comes_back
from regard.tasks.translation.documents.glossary import Terms
from regard.tasks.translation.lost_text import find_lost
from regard.tasks.translation.splicing import splice, splice_alike
from regard.tasks.translation.translator import Translator
from tests.documents import ROOT


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return regard.load(device="cpu")


@pytest.mark.parametrize(
    ("typed", "plain", "to"),
    [
        ("I can’t swim.", "I can't swim.", "fr"),
        ("Don’t open the door.", "Don't open the door.", "fr"),
        ("I don’t know her.", "I don't know her.", "fr"),
        ("You mustn’t be late.", "You mustn't be late.", "fr"),
        ("I\u00a0like\u202ftea.", "I like tea.", "fr"),
        ("I\tlike  tea.", "I like tea.", "fr"),
        ("I li\u00adke\u200b tea\ufeff.", "I like tea.", "fr"),
        ("“Where is the station?”", '"Where is the station?"', "fr"),
        ("J’aime\u00a0le thé\u202f!", "J'aime le thé !", "en"),
        ("N’ouvre pas la porte.", "N'ouvre pas la porte.", "en"),
    ],
)
def test_typography_changes_no_translation(shipped, typed, plain, to):
    [one, other] = shipped.translate([typed, plain], to=to)
    assert one == other
    if "n't" in plain:
        assert "ne " in one or "n'" in one.lower() or "pas" in one


def test_nothing_visible_gives_nothing(shipped):
    assert shipped.translate(["\u200b", "\ufeff\u00ad", "", " \n"], to="fr") == ["", "", "", " \n"]


def test_the_record_is_in_the_checkpoint_and_decides(shipped):
    kept = checkpoint.read(recipe.shipped.models()["en-fr"].path).config
    assert kept["tokenizer"]["normalise"] == "full"
    assert (shipped.source.how.normalise, shipped.decoding.copy) == ("full", "all")
    unlike = Translator(
        shipped.model, (tokenizers.Tokenizer.parse(shipped.source.json()),) * 2, shipped.decoding, "as it was"
    )
    assert unlike.source.encode("can’t") != shipped.source.encode("can’t") == shipped.source.encode("can't")


def test_capitals_are_read_as_words_and_answered_in_capitals(shipped):
    quiet = shipped.translate(["I like tea.", "Where is the station?"], to="fr")
    loud = shipped.translate(["I LIKE TEA.", "WHERE IS THE STATION?"], to="fr")
    assert loud == [answer.upper() for answer in quiet]
    assert shipped.translate(["JE VEUX DU THÉ."], to="en") == [shipped.translate("Je veux du thé.", to="en").upper()]
    assert shipped.translate(["I LIKE TEA."], to="fr", truecase=False) != loud[:1]


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("The meeting is on 12/05/2024.", "12/05/2024"),
        ("Write to john.smith@example.com.", "john.smith@example.com"),
        ("See https://example.com/a?b=1 for details.", "https://example.com/a?b=1"),
        ("I love you 😀.", "Je t'aime 😀."),
        ("Call me at 555-1234.", "555-1234"),
        ("It costs $12.50.", "12,50"),
        ("The train leaves at 8:15.", "8 h 15"),
        ("My number is 06 12 34 56 78.", "06 12 34 56 78"),
        ("Hello {name}, you have %d messages.", "{name}"),
        ("https://example.com", "https://example.com"),
        ("👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧"),
    ],
)
def test_what_must_be_copied_is(shipped, text, copied):
    assert shipped.translate(text, to="fr").count(copied) == 1


def test_what_came_through_by_itself_is_left_to_the_model(shipped):
    texts = ["I have 3 cats.", "He was born in 1987.", "It's 2:30.", "I have 1,234 books.", "I am hungry."]
    assert shipped.translate(texts, to="fr") == shipped.translate(texts, to="fr", copy="none")


@pytest.mark.parametrize(
    ("text", "answer", "spans"),
    [
        ("In 1987.", "En 1987.", []),
        ("I have 12 cats.", "J'ai douze chats.", []),
        ("At 3 p.m.", "À 15 heures.", []),
        ("At 2:30.", "À 14 h 30.", []),
        ("At 2:30.", "À deux heures et demie.", []),
        ("At 8:15.", "À 8 h 5.", [(3, 7)]),
        ("1,234 books", "1 234 livres", []),
        ("67,390,000 people", "67,390 000 personnes", [(0, 10)]),
        ("67,390,000 people", "67\u202f390\u202f000 personnes", []),
        ("on 05.12.2018", "le 05,12.2018", [(3, 13)]),
        ("1 234 livres", "17 234 books", [(0, 5)]),
        ("It is 3.5 m.", "C'est 3,5 m.", []),
        ("Version 2.1.3", "Version 21.3", [(8, 13)]),
        ("on 12/05/2024", "le 12204", [(3, 13)]),
        ("in 1987", "en 1897", [(3, 7)]),
        ("😀 😀", "😀", [(0, 1), (2, 3)]),
        ("a@b.fr or c@d.fr", "a@b.fr", [(10, 16)]),
        ("{n} of 12/05/2024", "{n}", [(7, 17)]),
    ],
)
def test_lost_is_what_no_other_language_would_say(text, answer, spans):
    assert find_lost(text, answer) == spans


def test_capitals_stay_where_the_tokenizer_knows_them_best():
    loud = tokenizers.train(["I LIKE TEA AND CAKE."] * 20, TokenizerConfig(vocab=400))
    assert restore_case("I LIKE TEA.", loud) == "I LIKE TEA."
    quiet = tokenizers.train(["I like tea and TV with Tom."] * 20, TokenizerConfig(vocab=400))
    assert restore_case("TEA AND TV WITH TOM, I LIKE.", quiet) == "Tea and TV with Tom, I like."
    assert restore_case("I like TV.", quiet) == "I like TV."
    letters = tokenizers.train(["I like tea."] * 20, TokenizerConfig(kind="characters"))
    assert restore_case("I LIKE TEA.", letters) == "I LIKE TEA."


def test_a_forbidden_word_is_not_written_in_other_pieces_either(shipped):
    text = "I take care of my children."
    own = shipped.translate(text, to="fr")
    assert "occupe" in own  # as m'occupe, whose pieces are not those of the word alone
    for settings in ({}, {"beams": 1}, {"sample": True, "top_k": 3, "seed": 5}):
        answer = shipped.translate(text, to="fr", forbid=["occupe", "m'occupe"], **settings)
        assert "occupe" not in answer.replace("'", " ").split()


@pytest.mark.parametrize(
    "text",
    [
        "How much time do you spend on Facebook?",
        "Do you use Facebook?",
        "FACEBOOK IS OPEN.",
        "Facebook est fermé.",
        "I like facebook.",
    ],
)
def test_a_forbidden_word_is_not_copied_from_the_source_either(shipped, text):
    for phrase in ("Facebook", "facebook"):
        answer = shipped.translate(text, to="fr", forbid=[phrase])
        assert "facebook" not in answer.lower()
        assert answer.strip()


def test_what_is_copied_is_written_without_forbidden_phrases_too(shipped, capsys):
    answer = shipped.translate("Do you use Facebook? 😀", to="fr", forbid=["Facebook", "😀"])
    assert answer.strip()
    assert "😀" not in answer
    assert "facebook" not in answer.lower()
    assert run(["translate", "--to", "fr", "-s", "forbid=['...', 😀]", "...", "12 + 3 😀", "12"]) == 0
    assert capsys.readouterr().out == "\n12 + 3\n12\n"


def test_what_is_copied_stands_in_every_answer_of_several_and_is_numbered_like_them(shipped, capsys):
    [answer] = shipped.answers(["Good morning. 😀"], to="fr", nbest=3)
    assert len(answer.alternatives) == 2
    assert all(one.text.endswith(" 😀") for one in (answer, *answer.alternatives))
    assert run(["translate", "--to", "fr", "--nbest", "3", "😀", "Good morning."]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["1", "0.0000", "😀"]
    assert [number for number, *_ in lines[1:]] == ["2", "2", "2"]


def test_a_forbidden_term_of_a_glossary_is_not_written(shipped):
    terms = Terms.of([("station", "terminus")])
    text = "Where is the station?"
    assert "terminus" in documents.translate(shipped, [text], to="fr", terms=terms)[0]
    assert "terminus" not in documents.translate(shipped, [text], to="fr", terms=terms, forbid=["terminus"])[0]


@pytest.mark.parametrize(
    ("text", "answer", "mended"),
    [
        ("I met Szymanski in June.", "J'ai rencontré Szymans en juin.", "J'ai rencontré Szymanski en juin."),
        ("The car of Szymanski.", "La voiture d'Szymansk.", "La voiture d'Szymanski."),
        ("It cost 863,447 euros.", "Cela a coûté 447 euros.", "Cela a coûté 863,447 euros."),
        ("I met Ben at home.", "Je suis bien chez moi.", "Je suis bien chez moi."),  # bien is no Ben
        ("Of 12 we have 512.", "Sur 12 nous avons cela.", "Sur 12 nous avons cela."),  # 12 stands for 12
    ],
)
def test_a_lost_word_is_written_over_one_spelt_much_alike(shipped, text, answer, mended):
    lost = next(word for word in ("Szymanski", "863,447", "Ben", "512") if word in text)
    begin = text.index(lost)
    assert splice_alike(text, answer, [(begin, begin + len(lost))], shipped.lexicon) == mended


def test_splices_do_not_overlap_and_what_has_no_place_is_set_apart_by_a_blank():
    text, answer = "Anna met Ben", "ABC def"
    assert splice(text, answer, [((0, 4), (0, 3)), ((9, 12), (4, 7))]) == "Anna Ben"
    assert splice(text, answer, [((0, 4), (0, 7)), ((9, 12), (4, 7))]) == "ABC Ben"
    assert splice(text, answer, [((9, 12), (3, 3))]) == "ABC Ben def"


def test_addresses_are_read_as_words_and_come_back(shipped):
    text = "See https://example.com/a?b=1 and write to Tom, john.smith@example.com."
    sentence = shield(text)
    assert sentence.text == "See Boston and write to Tom, Kyoto."
    answer = sentence.put_back(Answer("Voyez Boston, écrivez à Kyoto.", 0.0, (Answer("Boston, Boston et Kyoto", 0.0),)))
    assert answer.text == "Voyez https://example.com/a?b=1, écrivez à john.smith@example.com."
    assert answer.alternatives[0].text == "Boston, Boston et john.smith@example.com"
    assert not shield("Plain words, see a.co").placeholders


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Shares of Cisco &lt;A HREF=&quot;x?t=F.N y=/z&quot;&gt;F.N&lt;/A&gt; ", "Shares of Cisco"),
        ('target=/stocks/quote""&gt; raised its forecasts &lt;A', "raised its forecasts"),
        ("&lt;p&gt;\\&lt;/p&gt;&lt;p&gt; It is late.", "It is late."),
        ("3 &gt; 2 and 2 &lt; 3", "3 > 2 and 2 < 3"),
    ],
)
def test_tags_written_as_entities_at_the_edges_of_a_sentence_are_not_read_and_come_back(text, read):
    sentence = shield(text)
    assert sentence.text == read
    assert sentence.put_back(Answer(read, 0.0)).text == text


def test_signs_written_as_entities_are_read_and_one_that_an_answer_lost_is_put_back(shipped):
    answer = shipped.translate("Black &amp; white photos cost &euro; 5.", to="fr")
    assert answer.count("&amp;") == answer.count("&euro;") == 1
    assert not comes_back("He has 3 &gt; 2 days.", "Il a 3 jours.")


@pytest.mark.parametrize("text", ["https://example.com", "🎉🎉", "{name}", "... !"])
def test_what_has_no_word_is_not_translated(shipped, text):
    assert shipped.translate(text, to="fr") == text
    assert shipped.answers([text], to="fr", nbest=2, beams=2)[0].text == text


def test_only_answers_that_have_lost_something_are_touched(shipped):
    texts = ["I met Szymanski in June.", "I am hungry."]
    drafts = [Answer("J'ai rencontré quelqu'un en juin.", -1.0), Answer("J'ai froid.", -2.0)]
    restoration = Restoration(shipped, texts, "fr", shipped.decoding)
    assert restoration.texts == texts
    for number in (1, 0):  # as they are finished
        restoration.examine({number: drafts[number]})
    mended = shipped.run(restoration.finish())
    assert "Szymanski" in mended[0].text
    assert mended[0].text.startswith("J'ai rencontré")
    assert mended[0].score == -1.0
    assert mended[1] is drafts[1]


def test_an_answer_at_its_length_limit_is_reported(shipped):
    with pytest.warns(UserWarning, match="1 answer ran to the length limit before the end"):
        shipped.translate("I would like to book a table for two tonight.", to="fr", ratio=0.0, minimum=11)
    [answer] = shipped.answers(["I would like to book a table for two tonight."], to="fr", ratio=0.0, minimum=11)
    assert (answer.unfinished, answer.plain()["unfinished"]) == (1, 1)
    [whole] = shipped.answers(["Where is the station?"], to="fr")
    assert whole.unfinished == 0
    assert "unfinished" not in whole.plain()


def test_warming_up_changes_no_answer(shipped):
    before = shipped.translate("Where is the station?", to="fr")
    shipped.warm_up()
    assert shipped.translate("Where is the station?", to="fr") == before


def test_the_language_is_guessed_where_nobody_says_it(shipped):
    assert shipped.translate("Where is the station?") == shipped.translate("Where is the station?", to="fr")
    assert shipped.translate(["Où est la gare ?"]) == shipped.translate(["Où est la gare ?"], to="en")
    assert shipped.look("Où est la gare ?").facts["answer"] == shipped.translate("Où est la gare ?", to="en")
    for short in ("Tom", "Table", "12:30", "OK!"):
        assert shipped.translate(short), "nothing is too short to be answered"


def test_no_list_of_the_best_has_a_text_twice(shipped):
    texts = ["I like tea.", "He was born in 1987.", "Don't open the door.", "You should do that again."]
    for answer in shipped.answers(texts, to="fr", beams=12, nbest=12):
        shown = [one.text for one in (answer, *answer.alternatives)]
        assert len(set(shown)) == len(shown)


def test_text_in_the_target_language_is_left_as_it_is_sentence_by_sentence(shipped):
    assert shipped.translate("Où est la gare, s'il vous plaît ?", to="fr") == "Où est la gare, s'il vous plaît ?"
    [mixed] = shipped.answers(["Where is the station? Je ne sais pas où elle est."], to="fr")
    assert mixed.text == f"{shipped.translate('Where is the station?', to='fr')} Je ne sais pas où elle est."
    assert (mixed.kept, mixed.plain()["kept"]) == (1, 1)
    [plain] = shipped.answers(["Where is the station?"], to="fr")
    assert plain.kept == 0
    assert "kept" not in plain.plain()
    off = shipped.answers(["Je ne sais pas où elle est."], to="fr", keep=False)
    assert off[0].kept == 0


def test_a_language_it_does_not_know_is_reported_and_answered(shipped):
    with pytest.warns(UserWarning, match="the text looks like German; en-fr knows English and French only"):
        assert shipped.translate("Ich weiß nicht, wo der Bahnhof ist.", to="fr")
    [answer] = shipped.answers(["Ich weiß nicht, wo der Bahnhof ist."], to="fr")
    assert (answer.foreign, answer.plain()["foreign"]) == ("de", "de")
    with pytest.warns(UserWarning, match="the text is in Cyrillic script"):
        shipped.translate("Где находится вокзал?", to="fr", beams=1)


def test_nothing_is_said_of_a_model_whose_card_names_no_languages():
    small = regard.load(ROOT / "tests" / "checkpoints" / "format-1", device="cpu")
    [answer] = small.answers(["Ich weiß nicht, wo der Bahnhof ist."])
    assert (answer.foreign, answer.kept) == (None, 0)
