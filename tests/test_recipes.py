"""Every recipe that ships trains, loads and translates; the well-known ones have the numbers they are known by."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import cost, recipe
from regard.models.text_classifier import Labeller
from tests.documents import BARE, BRIEF, FEW, ROOT, SKETCHED, SMALL, TINY, lay, lay_labels, lay_texts, lay_words, small

RECIPES = {
    "adapt-libreoffice": {"languages": ["en", "fr"]},
    "adapt-libreoffice-mixed": {"languages": ["en", "fr"]},
    "characters-fr-en": {},
    "deep-encoder": {},
    "digit-names": {},
    "letters-to-sounds": {},
    "letters-to-sounds-transformer": {},
    "multi30k-all": {"languages": ["de", "en", "fr"]},
    "multi30k-all-cased": {"languages": ["de", "en", "fr"]},
    "multi30k-de-en-bahdanau": {},
    "multi30k-de-en-gru": {},
    "multi30k-en-de": {},
    "multi30k-en-de-gru-attention": {},
    "multi30k-tune-en-de": {"languages": ["de"]},
    "multi30k-tune-en-fr": {"languages": ["fr"]},
    "paper-base": {},
    "shipped": {"languages": ["en", "fr"]},
    "shipped-teacher": {"languages": ["en", "fr"]},
    "tatoeba-both-ways": {"languages": ["en", "fr"]},
    "tatoeba-fr-en": {},
}
WORDS = ["word2vec-imdb"]
PICTURES = {"locate-digits": "locate", "count-digits": "count"}
TABLES = ["pendulum"]
TAGS = ["agreement-attention", "agreement-lstm", "agreement-rnn"]
LABELS = ["imdb-cnn", "imdb-lstm", "imdb-transformer", "names", "word-class"]
LANGUAGE = ["masse", "ptb-lstm", "shakespeare-gru", "shakespeare-lstm", "shakespeare-rnn"]


def resolved(name: str):
    """The checked settings of a shipped recipe."""
    return recipe.resolve(recipe.settings(ROOT / "recipes" / f"{name}.yaml"))[1]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small files under the names that the recipes use, where REGARD_DATA points or in the folder itself."""
    lay(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return tmp_path


def test_every_recipe_is_tested():
    assert {path.stem for path in (ROOT / "recipes").iterdir()} == {
        *RECIPES,
        *WORDS,
        *PICTURES,
        *TABLES,
        *LANGUAGE,
        *LABELS,
        *TAGS,
    }


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains_two_steps_and_translates(name, data):
    wide = resolved(name).model.width > 128
    sizes = [setting for setting in small(f"recipes/{name}.yaml") if wide or "tokenizer" in setting]
    outcome = regard.train(f"recipes/{name}.yaml", *BRIEF, *sizes, out=data / "run", quiet=True)
    assert outcome.result.step == 2
    translator = regard.load(data / "run", device="cpu")
    languages = RECIPES[name].get("languages", [])
    assert translator.languages == languages
    for language in languages or [None]:
        [answer] = translator.translate(["Je suis fatigué."], to=language)
        assert isinstance(answer, str)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("adapt-libreoffice", "shipped"),
        ("adapt-libreoffice-mixed", "shipped"),
        ("multi30k-tune-en-de", "multi30k-all"),
        ("multi30k-tune-en-fr", "multi30k-all"),
    ],
)
def test_a_recipe_that_adapts_goes_on_from_the_model_it_is_given(name, model, data):
    parent = regard.train(f"recipes/{model}.yaml", *BRIEF, *SMALL, out=data / "parent", quiet=True).best
    adapted = regard.train(f"recipes/{name}.yaml", *BRIEF, out=data / "run", start=parent, quiet=True).best
    before, after = regard.load(parent, device="cpu"), regard.load(adapted, device="cpu")
    assert after.source.json() == before.source.json()
    assert after.model.config == before.model.config
    assert not all(
        torch.equal(own, other) for own, other in zip(after.model.parameters(), before.model.parameters(), strict=True)
    )


@pytest.mark.parametrize("name", WORDS)
def test_a_recipe_for_words_trains_an_epoch_and_finds_neighbours(name, data):
    pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    lay_words(data)
    outcome = regard.train(f"recipes/{name}.yaml", *FEW, out=data / "run", quiet=True)
    assert outcome.result.reason == "steps"
    vectors = regard.load(data / "run")
    assert len(vectors.similar(vectors.words[0])) == 10


@pytest.mark.parametrize("name", LABELS)
def test_a_recipe_for_labels_trains_two_steps_and_labels(name, data):
    lay_labels(data)
    outcome = regard.train(f"recipes/{name}.yaml", *BARE, out=data / "run", quiet=True)
    assert outcome.result.step == 2
    model = regard.load(data / "run", device="cpu")
    [verdict] = model.classify("good")
    assert verdict.label in model.classes
    assert abs(sum(verdict.all.values()) - 1) < 1e-5


@pytest.mark.parametrize("name", TAGS)
def test_a_recipe_for_tags_trains_two_steps_and_tags(name, data):
    lay_labels(data)
    outcome = regard.train(f"recipes/{name}.yaml", *BARE, out=data / "run", quiet=True)
    assert outcome.result.step == 2
    [told] = regard.load(data / "run", device="cpu").tag(["La présidente fut réélu ."])
    assert set(told.tags) <= {"right", "wrong"}
    assert len(told.tags) == 5


def test_the_recipes_for_agreement_differ_by_the_model_alone_which_have_about_as_many_weights():
    found = [resolved(name) for name in TAGS]
    assert all(replace(one, model=found[0].model) == found[0] for one in found)
    sizes = [
        sum(p.numel() for p in Labeller(replace(one.model, vocab=289, classes=2, per_token=True)).parameters())
        for one in found
    ]
    assert max(sizes) < 1.07 * min(sizes)


@pytest.mark.parametrize("name", PICTURES)
def test_a_recipe_for_pictures_trains_two_steps_and_answers(name, data):
    outcome = regard.train(f"recipes/{name}.yaml", *SKETCHED, out=data / "run", quiet=True)
    assert outcome.result.step == 2
    model = regard.load(data / "run", device="cpu")
    blank = np.zeros((model.model.config.size,) * 2, np.float32)
    assert len(getattr(model, PICTURES[name])([blank, blank])) == 2


@pytest.mark.parametrize("name", TABLES)
def test_a_recipe_for_a_table_trains_two_steps_and_predicts(name, data):
    outcome = regard.train(f"recipes/{name}.yaml", "training.steps=2", out=data / "run", quiet=True)
    predictor = regard.load(outcome.best, device="cpu")
    [answer] = predictor.predict([dict.fromkeys(predictor.columns.inputs, 1.0)])
    assert isinstance(answer.value, float)


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_recipe_for_a_language_model_trains_two_steps_and_writes(name, data):
    lay_texts(data)
    outcome = regard.train(f"recipes/{name}.yaml", *TINY, out=data / "run", quiet=True)
    assert outcome.result.step == 2
    [text] = regard.load(data / "run", device="cpu").write(length=3, samples=1)
    assert isinstance(text.text, str)


@pytest.mark.parametrize("name", [*RECIPES, *WORDS, *PICTURES, *TABLES, *LANGUAGE, *LABELS, *TAGS])
def test_a_recipe_says_how_to_run_it(name):
    text = (ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"regard train recipes/{name}.yaml" in text


def test_the_recipe_for_multi30k_is_the_transformer_tiny():
    found = resolved("multi30k-en-de")
    model = found.model
    assert (model.encoder, model.decoder, model.width, model.hidden, model.heads) == (4, 4, 128, 256, 4)
    assert (model.dropout, model.norm, found.tokenizer.vocab, found.tokenizer.joint) == (0.3, "post", 10_000, True)
    assert (found.optim.rate, found.optim.warmup, found.objective.smoothing) == (0.005, 2000, 0.1)
    assert (found.training.steps, found.training.accumulate, found.data.tokens) == (8000, 1, 8192)
    assert (found.decoding.beams, found.training.average) == (5, 10)


def test_the_recipe_of_the_paper_has_its_size_and_its_rate():
    found = resolved("paper-base")
    assert cost.parameters(type(found.model)(**{**vars(found.model), "vocab": 37_000})) == 63_082_496
    assert math.isclose(found.optim.rate, (512 * 4000) ** -0.5, rel_tol=0.01)
    assert (found.model.norm, found.optim.warmup, found.objective.smoothing) == ("post", 4000, 0.1)
    assert (found.optim.betas, found.optim.eps) == ((0.9, 0.98), 1e-9)


def test_the_deep_encoder_is_deep_and_its_decoder_shallow():
    assert (resolved("deep-encoder").model.encoder, resolved("deep-encoder").model.decoder) == (12, 1)


def test_both_ways_names_one_file_twice_with_its_columns_exchanged():
    there, back = resolved("tatoeba-both-ways").data.train
    assert there.path == back.path
    assert there.columns == back.columns[::-1]
    assert (there.tag, back.tag) == ("en", "fr")


def test_the_mixture_differs_from_the_other_domain_alone_by_old_pairs_and_nothing_else():
    alone, mixed = resolved("adapt-libreoffice"), resolved("adapt-libreoffice-mixed")
    assert mixed.data.train[: len(alone.data.train)] == alone.data.train
    assert {corpus.path for corpus in mixed.data.train[len(alone.data.train) :]} == {"data/tatoeba/train.tsv.gz"}
    assert (mixed.optim, mixed.training, mixed.data.valid) == (alone.optim, alone.training, alone.data.valid)


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("multi30k-de-en")])
def test_the_recurrent_recipes_differ_by_attention_and_width_and_nothing_else(name):
    found, other = resolved(name), resolved("multi30k-de-en-bahdanau")
    assert found.model.attention == {"gru": "none", "bahdanau": "bahdanau"}[name.rpartition("-")[2]]
    same = replace(found.model, attention=other.model.attention, width=other.model.width)
    assert replace(found, model=same) == other
