"""Costs on paper are those that were published: parameters, operations, days and years."""

import json
import re
from dataclasses import replace

import pytest

from regard import cost
from regard.cli import run
from regard.cost import PUBLISHED
from regard.cost.language_models import LARGE_MODELS

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

HOUR, DAY, YEAR = 3600, 86400, 365.25 * 86400


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt1", 116_534_784),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("roberta-base", 124_697_433),
        ("roberta-large", 355_412_057),
        ("t5-small", 60_506_624),
        ("t5-base", 222_903_552),
        ("bloom-560m", 559_214_592),
        ("bloom-1b1", 1_065_314_304),
        ("bloom-1b7", 1_722_408_960),
        ("bloom-3b", 3_002_557_440),
        ("bloom-7b1", 7_069_016_064),
        ("bloom", 176_247_271_424),
        ("base", 63_082_496),
        ("big", 214_245_376),
    ],
)
def test_a_preset_has_exactly_as_many_parameters_as_the_published_model(name, count):
    assert cost.parameters(cost.preset(name)) == count


@pytest.mark.parametrize(("name", "count"), [("bert-base", 109_482_240), ("bert-large", 335_141_888)])
def test_a_bert_without_its_heads_has_the_published_parameters(name, count):
    assert cost.parameters(replace(cost.preset(name), masked=False, next_sentence=False)) == count


def test_biobert_is_a_bert_of_28996_pieces_and_smallbert_one_of_four_blocks():
    body = {"masked": False, "next_sentence": False}
    assert cost.parameters(replace(cost.preset("biobert"), **body)) == 108_310_272
    assert cost.parameters(replace(cost.preset("smallbert"), **body)) == 28_763_648


@pytest.mark.parametrize("billions", [1.2, 2.5, 4.2, 8.3])
def test_megatron_has_its_billions(billions):
    assert round(cost.parameters(cost.preset(f"megatron-{billions}b")) / 1e9, 1) == billions


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("bit-r50x1", 25_549_352),
        ("bit-r152x4", 936_533_224),
        ("xlnet-base", 116_718_336),
    ],
)
def test_the_equations_of_other_models_give_their_parameters(name, count):
    assert PUBLISHED[name].parameters == count


def test_the_paper_trained_for_as_long_as_its_operations_say():
    assert f"{12 * HOUR * 8 * 9.5e12:.1e}" == "3.3e+18"
    assert cost.duration(3.3e18, rate=9.5e12, count=8) / HOUR == pytest.approx(12, rel=0.01)
    assert cost.duration(2.3e19, rate=9.5e12, count=8) / DAY == pytest.approx(3.5, rel=0.01)


def test_a_gpt3_takes_a_v100_356_years_and_4_7_million():
    learned = cost.parameters(cost.preset("gpt3"))
    assert round(learned / 1e9) == 175
    operations = 6 * learned * 300e9
    assert operations == pytest.approx(3.15e23, rel=0.005)
    seconds = cost.duration(operations, rate=28e12)
    assert seconds / YEAR == pytest.approx(356, abs=1)
    assert cost.price(seconds, hourly=1.5) / 1e6 == pytest.approx(4.7, abs=0.05)


PICTURES = {"JFT-300M": 303e6, "ImageNet-21k": 14.2e6}
CORE = 61.5e12  # operations a second of one of the two cores of a TPUv3 chip, at its peak of 123e12


@pytest.mark.parametrize(
    ("name", "epochs", "exaflops"),
    [("vit-b32", 7, 55), ("vit-b16", 7, 224), ("vit-l32", 7, 196), ("vit-l16", 7, 783), ("vit-h14", 14, 4262)],
)
def test_pretraining_a_vit_takes_the_published_operations(name, epochs, exaflops):
    whole = replace(cost.preset(name), pooling="mean")
    assert 3 * cost.flops(whole, 1) * epochs * PICTURES["JFT-300M"] / 1e18 == pytest.approx(exaflops, rel=0.025)


def test_a_class_token_spares_most_of_the_last_block():
    config = cost.preset("vit-b16")
    width, tokens = config.width, 197
    products = 2 * tokens * 12 * width**2  # of one block: four squares of attention, eight of the feed-forward
    looks = 4 * tokens**2 * width
    spared = (tokens - 1) / tokens * (products * 10 / 12 + looks)  # keys and values are needed of all tokens
    everything = cost.flops(replace(config, pooling="mean"), 1) * tokens / (tokens - 1)
    assert everything - cost.flops(config, 1) == pytest.approx(spared, rel=0.03)


@pytest.mark.parametrize(
    ("name", "data", "epochs", "published", "reached"),
    [
        ("vit-h14", "JFT-300M", 14, 2500, 0.37),
        ("vit-l16", "JFT-300M", 14, 680, 0.37),
        ("vit-l16", "ImageNet-21k", 90, 230, 0.37),
        ("bit-r152x4", "JFT-300M", 40, 9900, 0.25),
    ],
)
def test_the_days_of_a_tpu_core_follow_from_operations_and_an_assumed_part_of_its_peak(
    name, data, epochs, published, reached
):
    """The part is not published: 37 % is assumed of attention and 25 % of convolutions, and days come within 20 %."""
    forward = PUBLISHED[name].forward if name in PUBLISHED else cost.flops(cost.preset(name), 1)
    seconds = cost.duration(3 * forward * epochs * PICTURES[data], rate=reached * CORE)
    assert seconds / DAY == pytest.approx(published, rel=0.2)


def test_a_noisy_student_took_six_days_of_a_pod():
    """Of EfficientNet-L2 nothing is computed here: 2,048 cores for six days are what its authors say."""
    assert round(2048 * 6 / 1000, 1) == 12.3


def test_every_row_of_the_table_has_a_source_and_the_sizes_of_its_preset():
    unlike = {"GPT-3 XL", "GPT-3 13B"}  # heads and width as printed, which the products of neither allow
    for model in LARGE_MODELS:
        assert model.source
        if model.preset is None or model.preset in PUBLISHED or model.name in unlike:
            continue
        config = cost.preset(model.preset)
        depth = config.encoder + config.decoder if config.name in ("transformer", "t5") else config.depth
        assert (depth, config.width, config.heads) == model.sizes, model.name


@pytest.mark.parametrize("model", LARGE_MODELS, ids=lambda model: model.name)
def test_published_parameters_are_near_those_counted_here(model):
    """Papers leave out embeddings, or count them twice; a wrong preset would be further off."""
    if model.preset is not None and model.parameters < 20e9:  # the largest have tests of their own
        assert model.computed_parameters == pytest.approx(model.parameters, rel=0.08)


def test_the_days_of_megatron_are_those_of_its_authors():
    """Table 2 has the days of an epoch of 68,507 steps, all trainings 300,000 steps, the abstract 9.2 days for 8.3B."""
    days = {model.name: model.trainings[0].days for model in LARGE_MODELS if model.name.startswith("Megatron")}
    epochs = 300_000 / 68_507
    assert days["Megatron-LM 2.5B"] == pytest.approx(2.27 * epochs, abs=0.05)
    assert days["Megatron-LM 8.3B"] == pytest.approx(2.10 * epochs, abs=0.05)
    unconfirmed = {model.name for model in LARGE_MODELS if "not confirmed" in model.source}
    assert unconfirmed == {"BioBERT", "Megatron-LM 4.2B"}


def test_the_table_is_printed_and_drawn_and_a_tpu_is_no_place_for_single_precision(tmp_path, capsys):
    picture = tmp_path / "sizes.svg"
    assert run(["cost", "--table", "--json", "-o", str(picture)]) == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert records["XLNet-Large"]["trainings"][0]["device_days"] == 1280
    assert records["GPT-3 175B"]["operations"] == pytest.approx(3.15e23)
    assert "BLOOM 176B" in "".join(re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8")))
    assert run(["cost", "bert-tiny", "-s", "gpu=TPUv3", "-s", "precision=fp32"]) == 1
    assert "leave precision=fp32 out" in capsys.readouterr().err
    assert run(["cost"]) == 1
    assert "give one of them" in capsys.readouterr().err
