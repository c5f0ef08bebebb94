"""A long sentence with inverted adjectives and a date, aligned by the attention of the translator in the box."""

import pytest
import torch

import regard
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.trace import Trace
from regard.interpret.words import group_items, merge

ENGLISH = "The agreement on the European Economic Area was signed in August 1992."
FRENCH = "L'accord sur la zone économique européenne a été signé en août 1992."  # as the courses have it
LINKS = {"économique": "Economic", "signé": "signed", "août": "August", "1992": "1992", "en": "in"}


@pytest.fixture(scope="module")
def translator():
    return regard.load("en-fr", device="cpu")


def strongest_links(trace: Trace) -> list[tuple[str, str]]:
    """For each word of the translation, in order, the English word that the mean of all heads looks at most."""
    written, read = group_items(trace.items["target"]), group_items(trace.items["source"])
    cross = [weights.values.float() for weights in trace.weights if weights.name.endswith("cross")]
    mean = merge(torch.cat(cross).mean(0), written, read)
    return [(unit.text, read[int(row.argmax())].text) for unit, row in zip(written, mean, strict=True)]


def test_adjectives_cross_and_the_date_keeps_its_place_in_the_courses_translation(translator):
    links = dict(strongest_links(ForcedReader(translator, to="fr").look(ENGLISH, FRENCH)))
    assert LINKS.items() <= links.items()
    assert links["zone"] == "Area"
    assert links["européenne"] == "European"  # after économique, though European is before Economic


def test_so_they_do_in_the_translation_that_the_model_writes(translator):
    trace = translator.look(ENGLISH, to="fr")
    links = strongest_links(trace)
    words = [word for word, _ in links]
    assert LINKS.items() <= dict(links).items()
    [european] = [place for place, (_, source) in enumerate(links) if source == "European"]
    assert words[european].startswith("europ")
    assert words.index("économique") < european
    assert words.index("août") + 1 == words.index("1992")
