"""Streaming of translations: what was read is never taken back, and the beginning comes before the end."""

import gzip
from itertools import pairwise

import pytest

import regard
from regard import shipped
from regard.decoding.exchange import ExchangeLoop

pytestmark = pytest.mark.unchecked
SENTENCES = 9  # of the test set that comes with Regard, joined in twos and threes
DELICATE = (
    "The old man who lives near the river told us that his dog had eaten all the bread.",
    "I met Mr Szymanski at 12:30. Write to a.b@example.com. It costs $5.",
    "PLEASE CLOSE THE DOOR. I am cold.",
    "Visit https://example.com/x?y=1 today! Thank you. Bring your own cup, and a towel for the beach.",
    "Fish &amp; chips are good. AT&amp;T too.",
    "  Hello.\n\nHow are you?  ",
    "I love you 😀 so much.",
    "Je suis fatigué. The station is closed.",
    "",
)


@pytest.fixture(scope="module")
def translator():
    return regard.load("en-fr", device="cpu")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    path = shipped.FOLDER.parent / "samples" / "tatoeba-fra-eng.test.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        sentences = [line.split("\t")[0] for line, _ in zip(lines, range(SENTENCES), strict=False)]
    return [*DELICATE, *(" ".join(sentences[first : first + 2 + first % 2]) for first in range(0, SENTENCES, 3))]


def listen(translator, texts: list[str], **options) -> list[tuple[str, list[str]]]:
    """The whole text of each stream, and what was read of it after each step; all share one engine."""
    loop = ExchangeLoop(translator.make_engine())
    streams = [translator.open_stream(text, **options) for text in texts]
    numbers = {loop.open(stream.exchange()): place for place, stream in enumerate(streams)}
    pieces: list[list[str]] = [[] for _ in texts]
    whole = [""] * len(texts)
    while numbers:
        for number, outcome in loop.collect().items():
            assert outcome.error is None
            place = numbers.pop(number)
            whole[place] = streams[place].text_of(outcome.answer[0])
        for number, place in numbers.items():
            pieces[place].append(streams[place].read(loop.peek(number)))
        loop.step()
    return list(zip(whole, pieces, strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"beams": 1},
        {"beams": 4, "nbest": 2},
        {"beams": 2, "copy": "all"},
        {"beams": 2, "forbid": ("the", "le"), "keep": True},
        {"sample": True, "seed": 3, "nbest": 2},
    ],
    ids=str,
)
def test_what_was_streamed_is_the_beginning_of_the_translation(translator, texts, options):
    expected = [answer.text for answer in translator.answer(texts, to="fr", **options)]
    if options.get("sample"):  # the random numbers of a text depend on its number among others
        expected = [translator.answer([text], to="fr", **options)[0].text for text in texts]
    for (whole, pieces), text in zip(listen(translator, texts, to="fr", **options), expected, strict=True):
        assert whole == text
        assert all(whole.startswith(piece) for piece in pieces)
        shown = [piece for piece in pieces if piece]
        assert all(later.startswith(earlier) for earlier, later in pairwise(shown))


def test_one_beam_streams_token_by_token_from_the_first_step_on(translator):
    [(whole, pieces)] = listen(translator, [DELICATE[0]], to="fr", beams=1)
    written = len(translator.target.encode(whole))
    assert written >= 20
    assert len(set(pieces)) >= written - 2
    assert next(number for number, piece in enumerate(pieces) if piece) == 1, "long before half of the steps"


def test_beams_stream_what_all_of_them_share(translator):
    [(whole, pieces)] = listen(translator, [DELICATE[0]], to="fr", beams=4)
    first = next(number for number, piece in enumerate(pieces) if piece)
    assert first < len(pieces) / 2
    assert len({piece for piece in pieces if piece}) > 1
    assert pieces[-1] != whole, "hypotheses that differ in their last words are held back"


def test_a_sentence_with_an_address_is_held_back_until_its_search_has_ended(translator):
    text = "Write to a.b@example.com. The old man who lives near the river told us that his dog was very ill."
    [(whole, pieces)] = listen(translator, [text], to="fr", beams=1)
    head = whole.index("example.com") + len("example.com")
    shown = [len(piece) for piece in pieces if piece]
    assert 0 < len(shown) < len(pieces)
    assert min(shown) >= head


def test_documents_come_in_one_piece(translator):
    assert translator.open_stream("<b>Good</b> morning.", to="fr", html=True) is None
