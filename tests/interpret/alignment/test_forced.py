"""Reading a given answer: the same probabilities and the same looks as the search that found it."""

from pathlib import Path

import pytest
import torch

import regard
from regard.data.tokenizers import Tokenizer, TokenizerConfig, train
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.tasks.translation.translator import Translator

CHECKPOINT = Path(__file__).parent.parent.parent / "checkpoints" / "format-1"
TEXT = "Le chat noir dort."


@pytest.fixture(scope="module")
def translator() -> Translator:
    return regard.load(CHECKPOINT)


def test_the_answer_of_a_search_is_read_with_the_looks_it_was_written_with(translator: Translator):
    found = translator.look(TEXT)
    read = ForcedReader(translator).look(TEXT, found.facts["answer"])
    assert read.facts["score"] == pytest.approx(found.facts["score"], abs=1e-4)
    assert read.items == found.items
    assert [one.name for one in read.weights] == [one.name for one in found.weights]
    for one, other in zip(read.weights, found.weights, strict=True):
        assert (one.query, one.key) == (other.query, other.key)
        assert torch.allclose(one.values, other.values, atol=1e-5), one.name


def test_company_changes_no_score(translator: Translator):
    reader = ForcedReader(translator)
    pairs = [(TEXT, "The black cat sleeps."), ("Le loup court vite !", "The wolf runs fast!"), ("Le roi dort.", "A")]
    coded = [reader.encode(*pair) for pair in pairs]
    together = reader.scores([read for read, _ in coded], [written for _, written in coded])
    alone = [reader.scores([read], [written])[0] for read, written in coded]
    assert together == pytest.approx(alone, abs=1e-4)
    assert all(score < 0 for score in alone)


def test_the_likelier_answer_scores_higher(translator: Translator):
    reader = ForcedReader(translator)
    read, right = reader.encode(TEXT, translator.translate(TEXT))
    _, wrong = reader.encode(TEXT, "fast fast The wolf")
    good, bad = reader.scores([read, read], [right, wrong])
    assert good > bad


def test_a_language_must_be_named_where_there_are_several(translator: Translator):
    def tagged(*tags: str) -> Translator:
        tokenizer: Tokenizer = train([TEXT], TokenizerConfig(vocab=300), tags=tags)
        return Translator(translator.model, (tokenizer, tokenizer), translator.decoding)

    with pytest.raises(ValueError, match="say which language to translate to: en, fr"):
        ForcedReader(tagged("fr", "en")).encode(TEXT, "x")
    two, one = tagged("fr", "en"), tagged("fr")
    assert ForcedReader(two, "fr").encode(TEXT, "x")[0][0] == two.source.tag("fr")
    assert ForcedReader(one).encode(TEXT, "x")[0][0] == one.source.tag("fr")
