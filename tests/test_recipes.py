"""Every recipe that ships reads its data and builds its model, one of each kind trains, and known numbers are right."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import checkpoint, cost, models, recipe
from regard.models.text_classifier import Labeller
from regard.tasks.omics.samples import Samples
from regard.tasks.trained import SENTENCES
from regard.training.task import Task
from tests.conftest import unchecked
from tests.desk import lay, lay_graphs, lay_labels, lay_omics, lay_pictures, lay_texts, lay_words
from tests.documents import (
    BARE,
    BRIEF,
    CAPTIONED,
    FEW,
    MADE,
    MATCHED,
    PAINTED,
    READING,
    REMEMBERED,
    ROOT,
    SEEN,
    SEEN_INSIDE,
    SKETCHED,
    SMALL,
    TINY,
    small,
)

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

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
    "paper-base-en-fr": {},
    "shipped": {"languages": ["en", "fr"]},
    "shipped-teacher": {"languages": ["en", "fr"]},
    "tatoeba-both-ways": {"languages": ["en", "fr"]},
    "tatoeba-fr-en": {},
    "translator": {"languages": ["en", "fr"]},
    "translator-teacher": {"languages": ["en", "fr"]},
}
WORDS = ["word2vec-imdb"]
PICTURES = ["locate-digits", "count-digits"]
MEMORY = ["ntm-copy", "ntm-copy-lstm", "ntm-recall", "ntm-repeat-copy"]
CAPTIONS = ["flickr8k-hard", "flickr8k-none", "flickr8k-soft", "flickr8k-transformer"]
SEEN_RECIPES = ["cifar10", "cifar10-resnet", "cifar10-tuned", "fashion", "mnist"]
PIXELS = ["cifar10-axial", "cifar10-pixels", "fashion-pixels", "mnist-pixels"]
GANS = ["cifar10-gan", "fashion-gan", "fashion-gan-plain"]
SCATTERED = ["scattered", "scattered-cnn", "digit-sum", "digit-sum-one", "digit-sum-cnn"]
TABLES = ["pendulum"]
OMICS = ["breast-deeprog", "breast-moma", "rosmap-deeprog", "rosmap-moma"]
GRAPHS = ["citeseer", "cora"]
TAGS = ["agreement-attention", "agreement-lstm", "agreement-rnn"]
LABELS = ["imdb-cnn", "imdb-lstm", "imdb-transformer", "names", "word-class"]
PRETRAINING = [
    "encoder",
    "imdb-bert",
    "moliere-gpt",
    "shakespeare-gpt",
    "shakespeare-gpt-cpu",
    "stories",
    "stories-french",
    "wikitext2-gpt",
]
MATCHING = ["encoder-matching"]
TEXT_TO_TEXT = ["t5-tasks"]
SOURCES = ["c-lstm", "latex-lstm"]
LANGUAGE = [*SOURCES, "masse", "ptb-lstm", "shakespeare-gru", "shakespeare-lstm", "shakespeare-rnn"]
ALL = [
    *RECIPES,
    *WORDS,
    *PICTURES,
    *SEEN_RECIPES,
    *SCATTERED,
    *PIXELS,
    *GANS,
    *CAPTIONS,
    *MEMORY,
    *TABLES,
    *OMICS,
    *GRAPHS,
    *LANGUAGE,
    *PRETRAINING,
    *MATCHING,
    *TEXT_TO_TEXT,
    *LABELS,
    *TAGS,
]
TRAINED = [  # one of every task and model
    "tatoeba-both-ways",
    "digit-names",
    *WORDS,
    *PICTURES,
    "mnist",
    "cifar10-resnet",
    "cifar10-tuned",
    "digit-sum",
    "cifar10-axial",
    "mnist-pixels",
    "fashion-gan",
    "flickr8k-hard",
    "flickr8k-transformer",
    *MEMORY[:2],
    *TABLES,
    "breast-deeprog",
    "rosmap-moma",
    "cora",
    "masse",
    "imdb-bert",
    *MATCHING,
    *TEXT_TO_TEXT,
    "shakespeare-gpt-cpu",
    "imdb-cnn",
    "names",
    "imdb-transformer",
    "agreement-attention",
    "agreement-rnn",
]
BRIEFLY_TRAINED = sorted(  # the others of what is no prose
    {*SEEN_RECIPES, *SCATTERED, *PIXELS, *GANS, *CAPTIONS, *MEMORY, *OMICS, *GRAPHS, *SOURCES} - {*TRAINED}
)
BRIEFLY = {
    "word2vec": [*FEW, "training.threads=1"],
    "gan": MADE,
    "localisation": SKETCHED,
    "counting": SKETCHED,
    "remembering": REMEMBERED,
    "regression": ["training.steps=2"],
    "omics": ["training.steps=2"],
    "node-classification": ["training.steps=2", "training.device=cpu"],
    "language": TINY,
    "causal-lm": [*READING, "writing.length=8"],
    "masked-lm": [*READING, "tokenizer.vocab=320"],
    "matching": [*MATCHED, "tokenizer.vocab=320"],
    "classification": BARE,
    "tagging": BARE,
    "text-to-text": [*BRIEF, *SMALL],
}


def resolved(name: str):
    """The checked settings of a shipped recipe."""
    return recipe.resolve(recipe.settings(ROOT / "recipes" / f"{name}.yaml"))[1]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Small files under the names that the recipes use, where REGARD_DATA points or in the folder itself."""
    folder = tmp_path_factory.mktemp("desk")
    for put in (lay, lay_words, lay_texts, lay_labels, lay_pictures, lay_graphs, lay_omics):
        put(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REGARD_DATA", str(folder / "data"))
        yield folder


def shortened(name: str) -> list[str]:
    """Settings that make a recipe brief, and small where it is not."""
    found = resolved(name)
    if found.task == "pictures":
        return SEEN[found.model.name]
    if found.task == "pixels":
        return [*PAINTED, "data.size=8", *(["data.colours=4"] if name == "cifar10-axial" else [])]
    if found.task == "captions":
        heads = ["model.heads=2", "model.hidden=16"] if found.model.name == "transformer-captioner" else []
        return [*CAPTIONED, *SEEN_INSIDE, *heads, "data.size=16"]
    if found.task != "translation":
        return BRIEFLY[found.task]
    wide = found.model.width > 128
    return [*BRIEF, *(one for one in small(f"recipes/{name}.yaml") if wide or "tokenizer" in one)]


def test_every_recipe_is_tested():
    assert {path.stem for path in (ROOT / "recipes").iterdir()} == set(ALL)
    pairs = {name: (resolved(name).task, resolved(name).model.name) for name in ALL}
    assert len({pairs[name] for name in TRAINED}) == len(TRAINED), "one of each is enough"
    assert {pairs[name] for name in TRAINED} == set(pairs.values()), "some model is trained by no recipe here"


@pytest.mark.parametrize("name", [name for name in ALL if name in RECIPES or name not in {*TRAINED, *BRIEFLY_TRAINED}])
def test_a_recipe_reads_its_data_and_its_model_is_built(name, desk):
    asked = recipe.settings(f"recipes/{name}.yaml", *shortened(name))
    if asked.get("task") == "word2vec":
        pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    task, found = recipe.resolve(asked)
    data = task.prepare(found, None)
    found = task.resolve(asked, data)
    learner = task(found, data, models.build(found.model))
    assert learner.rows > 0
    assert isinstance(learner, Task)
    if name in RECIPES:
        assert list(data.source_tokenizer.tags) == RECIPES[name].get("languages", [])


def test_networks_that_are_compared_on_scenes_have_as_many_parameters():
    for names in (SCATTERED[:2], SCATTERED[2:]):
        found = [(resolved(name), 10 if len(names) == 2 else 19) for name in names]
        counts = [replace(one.model, size=60, channels=1, classes=classes).parameters for one, classes in found]
        assert max(counts) < 1.005 * min(counts)
        assert len({str((one.data, one.optim, one.training)) for one, _ in found}) == 1, "all else is alike"


def test_generators_that_are_compared_differ_by_attention_alone():
    whole, plain = (resolved(name) for name in GANS[1:])
    assert replace(plain, model=replace(plain.model, attention=True)) == whole


def test_machine_and_network_that_copy_have_as_many_parameters():
    found = [resolved(name) for name in MEMORY[:2]]
    sizes = [cost.parameters(replace(one.model, inputs=9, outputs=8)) for one in found]
    assert max(sizes) < 1.01 * min(sizes)
    assert len({str((one.data, one.optim, one.training)) for one in found}) == 1, "all else is alike"


def test_models_that_attend_to_all_pixels_and_along_lines_differ_in_that_alone():
    found = [resolved(name) for name in ("cifar10-pixels", "cifar10-axial")]
    seen = {"vocab": 257, "size": 32, "channels": 3}
    sizes = [replace(found[0].model, context=3073, **seen).parameters, replace(found[1].model, **seen).parameters]
    assert max(sizes) < 1.01 * min(sizes)
    assert len({str((one.data, one.optim, one.training)) for one in found}) == 1, "all else is alike"


@pytest.mark.parametrize("name", BRIEFLY_TRAINED)
def test_a_recipe_trains_for_two_steps(name, desk, tmp_path):
    done = regard.train(f"recipes/{name}.yaml", *shortened(name), out=tmp_path / "run", quiet=True)
    told = map(json.loads, (done.folder / "metrics.jsonl").read_text().splitlines())
    losses = [value for each in told for name, value in each.items() if name.endswith("loss")]
    assert losses
    assert all(map(math.isfinite, losses))
    assert done.result.step == 2
    assert not any(vars(done.result.faults).values()), "a row was skipped"


@pytest.mark.parametrize("name", TRAINED)
def test_one_recipe_of_every_model_trains_answers_and_repeats_itself_exactly(name, desk, tmp_path):
    if name in WORDS:
        pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    once, again = (
        regard.train(f"recipes/{name}.yaml", *shortened(name), out=tmp_path / out, quiet=True) for out in ("a", "b")
    )
    told = map(json.loads, (once.folder / "metrics.jsonl").read_text().splitlines())
    losses = [value for each in told for name, value in each.items() if name.endswith("loss")]  # vectors have none
    assert losses
    assert all(map(math.isfinite, losses))
    assert not any(vars(once.result.faults).values()), "a row was skipped"
    assert once.metrics == again.metrics
    one, other = (checkpoint.read(outcome.best).tensors() for outcome in (once, again))
    assert all(torch.equal(one[part], other[part]) for part in one)
    model = regard.load(once.folder, device="cpu")
    inputs = asked_of(model)
    assert len(model.answer(inputs)) == len(inputs)


def asked_of(model: Any) -> Sequence[Any]:
    """Something to ask a model."""
    if model.task == "pixels":
        return [np.zeros((8, 8, 3)[: 2 if model.tokenizer.channels == 1 else 3], np.uint8)] * 2
    if model.task in ("pictures", "captions"):
        return [np.zeros((28, 28), np.uint8), np.zeros((40, 60, 3), np.float32)]
    if model.task in ("localisation", "counting"):
        return [np.zeros((model.model.config.size,) * 2, np.float32)] * 2
    if model.task == "gan":
        return model.classes[:2]
    if model.task == "node-classification":
        return ["0", "7"]
    if model.task == "remembering":
        return model.draw_inputs(2, count=2)
    if model.task == "regression":
        return [dict.fromkeys(model.columns.inputs, 1.0)]
    if model.task == "omics":
        values, present = np.zeros((2, sum(model.omics.sizes))), np.ones((2, len(model.omics.names)), bool)
        return [Samples((name,), values[:1], present[:1]) for name in ("a", "b")]
    if model.task == "text-to-text":
        return [f"{prefix} être" for prefix in model.prefixes]
    if model.task == "masked-lm":
        return ["a [MASK] film", "[MASK]"]
    return model.words[:2] if model.task == "word2vec" else [""] if model.verb == "write" else SENTENCES


@pytest.fixture(scope="module")
def parents(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models to go on from."""
    place = tmp_path_factory.mktemp("parents")
    names = ("shipped", "multi30k-all")
    with unchecked():
        return {
            name: regard.train(f"recipes/{name}.yaml", *BRIEF, *SMALL, out=place / name, quiet=True).best
            for name in names
        }


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("adapt-libreoffice", "shipped"),
        ("adapt-libreoffice-mixed", "shipped"),
        ("multi30k-tune-en-de", "multi30k-all"),
        ("multi30k-tune-en-fr", "multi30k-all"),
    ],
)
def test_a_recipe_that_adapts_goes_on_from_the_model_it_is_given(name, model, parents, tmp_path):
    parent = parents[model]
    adapted = regard.train(f"recipes/{name}.yaml", *BRIEF, out=tmp_path / "run", start=parent, quiet=True).best
    before, after = regard.load(parent, device="cpu"), regard.load(adapted, device="cpu")
    assert after.source.json() == before.source.json()
    assert after.model.config == before.model.config
    assert not all(
        torch.equal(own, other) for own, other in zip(after.model.parameters(), before.model.parameters(), strict=True)
    )


def test_the_recipes_for_agreement_differ_by_the_model_alone_which_have_about_as_many_weights():
    found = [resolved(name) for name in TAGS]
    assert all(replace(one, model=found[0].model) == found[0] for one in found)
    sizes = [
        sum(p.numel() for p in Labeller(replace(one.model, vocab=289, classes=2, per_token=True)).parameters())
        for one in found
    ]
    assert max(sizes) < 1.07 * min(sizes)


@pytest.mark.parametrize("name", ALL)
def test_a_recipe_says_how_to_run_it(name):
    text = (ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"regard train recipes/{name}.yaml" in text


def test_the_recipe_for_multi30k_is_the_transformer_tiny():
    found = resolved("multi30k-en-de")
    model = found.model
    assert (model.encoder, model.decoder, model.width, model.hidden, model.heads) == (4, 4, 128, 256, 4)
    assert (model.dropout, model.norm, found.tokenizer.vocab, found.tokenizer.joint) == (0.3, "post", 10_000, True)
    assert (found.optim.learning_rate, found.optim.warmup, found.objective.label_smoothing) == (0.005, 2000, 0.1)
    assert (found.training.steps, found.training.accumulate, found.data.batch_tokens) == (8000, 1, 8192)
    assert (found.decoding.beams, found.training.average) == (5, 10)


def test_the_recipe_of_the_paper_has_its_size_and_its_rate():
    found = resolved("paper-base")
    assert cost.parameters(type(found.model)(**{**vars(found.model), "vocab": 37_000})) == 63_082_496
    assert math.isclose(found.optim.learning_rate, (512 * 4000) ** -0.5, rel_tol=0.01)
    assert (found.model.norm, found.optim.warmup, found.objective.label_smoothing) == ("post", 4000, 0.1)
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
