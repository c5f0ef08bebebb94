"""Every recipe that ships trains, loads and translates; the well-known ones have the numbers they are known by."""

import math
from pathlib import Path

import pytest

import regard
from regard import cost, recipe
from tests.documents import BRIEF, ROOT, SMALL, lay

RECIPES = {
    "deep-encoder": {},
    "multi30k-en-de": {},
    "paper-base": {},
    "shipped": {"languages": ["en", "fr"]},
    "shipped-teacher": {"languages": ["en", "fr"]},
    "tatoeba-both-ways": {"languages": ["en", "fr"]},
    "tatoeba-fr-en": {},
}


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
    assert {path.stem for path in (ROOT / "recipes").iterdir()} == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains_two_steps_and_translates(name, data):
    small = [setting for setting in SMALL if resolved(name).model.width > 128 or "tokenizer" in setting]
    outcome = regard.train(f"recipes/{name}.yaml", *BRIEF, *small, out=data / "run", quiet=True)
    assert outcome.result.step == 2
    translator = regard.load(data / "run", device="cpu")
    languages = RECIPES[name].get("languages", [])
    assert translator.languages == languages
    for language in languages or [None]:
        [answer] = translator.translate(["Je suis fatigué."], to=language)
        assert isinstance(answer, str)


@pytest.mark.parametrize("name", RECIPES)
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
    assert (found.training.steps, found.training.rows, found.data.tokens) == (8000, 2, 4096)
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
