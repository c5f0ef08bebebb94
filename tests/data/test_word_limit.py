"""What a tokenizer learns from has a bounded number of different words, and is untouched below the bound."""

from functools import partial

from regard.data.memory import WordLimit, release_freed_memory
from regard.data.readers import TextFile
from regard.data.tokenizers import units
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.pretraining import corpus
from regard.tasks.pretraining.documents import DocumentsConfig

NUMBERED = [f"Line {number} tells\n\n  of the wolf {number}." for number in range(60)]


def test_texts_below_the_bound_pass_as_they_are():
    limit = WordLimit(200)
    assert list(limit.filter(NUMBERED)) == NUMBERED
    assert limit.left_out == 0


def test_beyond_the_bound_words_that_are_new_are_left_out_and_counted():
    limit = WordLimit(25)
    texts = list(limit.filter(NUMBERED))
    words = {word for text in texts for word in text.split()}
    assert len(words) == limit.distinct == 25
    assert limit.left_out == sum(len(text.split()) for text in NUMBERED) - sum(len(text.split()) for text in texts)
    assert texts[-1] == "Line tells\n\n  of the wolf", "what is left stands as it stood"


def prepare(tmp_path) -> corpus.Prepared:
    """Sixty lines of one document, prepared in a cache of their own."""
    file = tmp_path / "text.txt"
    file.write_text("\n".join(NUMBERED), encoding="utf-8")
    config = DocumentsConfig(train=(TextFile(path=str(file)),), validation_share=0.0)
    return corpus.prepare(config, UnitsConfig(kind="bpe", vocab=400))


def test_a_small_text_has_the_tokenizer_of_the_whole_text(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    config, text = UnitsConfig(kind="bpe", vocab=400), "\n".join(NUMBERED)
    prepared = prepare(tmp_path)
    assert prepared.tokenizer.json() == units.train([text], config, characters=len(text)).json()
    assert not any("different words" in line for line in prepared.summary)


def test_a_text_with_too_many_words_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(corpus, "WordLimit", partial(WordLimit, 25))
    [line] = [line for line in prepare(tmp_path).summary if "different words" in line]
    assert line.startswith("  tokenizer: learnt from 25 different words; others left out ")


def test_freed_memory_can_be_given_back_at_any_time():
    release_freed_memory()
