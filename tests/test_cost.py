"""Costs on paper equal costs as counted."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard import cost, recipe
from regard.attention.masks import Grid
from regard.attention.multihead import MultiHead
from regard.cli import run
from regard.config import build
from regard.cost import Lengths, memory, sizes
from regard.cost.trace import arguments
from regard.models import build as build_model
from regard.models import config_of
from regard.models.axial import AxialConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.pretraining import learning
from regard.training import optim
from regard.training.run_facts import read_run_facts
from tests.models.test_registry import SHAPES

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

TINY = TransformerConfig(vocab=50, width=32, heads=4, hidden=48, encoder=2, decoder=1)
SMALL = GPTConfig(vocab=60, width=32, heads=4, hidden=128, depth=2, context=64, dropout=0.0)


def counted(run: Callable[[], Any]) -> int:
    """Operations as torch counts them; the plain kernel is made of products it knows."""
    before, *_ = torch.backends.mkldnn.set_flags(_enabled=False)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    torch.backends.mkldnn.set_flags(_enabled=before)
    return counter.get_total_flops()


# Multi-head attention.


@pytest.mark.parametrize("heads", [2, 4, 8])
def test_many_small_heads_cost_what_one_large_head_costs(heads):
    x = torch.randn(2, 10, 32)
    one, many = MultiHead(32, 1), MultiHead(32, heads)
    assert counted(lambda: many(x)) == counted(lambda: one(x)) == 2 * (8 * 10 * 32 * 32 + 4 * 10 * 10 * 32)
    assert [p.numel() for p in many.parameters()] == [p.numel() for p in one.parameters()]


# Sizes.


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"preset": "base"}, 63_082_496),
        ({"preset": "base", "attention_bias": False}, 63_045_632),
        ({"preset": "big"}, 214_245_376),
    ],
)
def test_the_presets_have_exactly_the_papers_parameters(settings, count):
    assert cost.parameters(build(TransformerConfig, {"vocab": 37_000, **settings})) == count


@pytest.mark.parametrize("name", SHAPES)
def test_the_parts_of_every_model_are_all_of_it(name):
    shape = config_of({"name": name, **SHAPES[name]})
    model = build_model(shape)
    held = [*model.parameters(), *(model.get_buffer(each) for each in ("vectors", "output") if name == "word2vec")]
    found = {part: sizes.count(tensors) for part, tensors in sizes.parts(sizes.build_without_weights(shape)).items()}
    assert sum(found.values()) == cost.parameters(shape) == sum(each.numel() for each in held)


def test_what_is_measured_on_the_data_is_no_parameter():
    shape = config_of({"name": "linear", "vocab": 100, "classes": 2, "buckets": 50, "scaling": "ratio"})
    assert cost.parameters(shape) == shape.parameters == 2 * (100 + 50 + 1)


def test_the_parts_of_a_gpt2_are_those_of_its_equations():
    model = sizes.build_without_weights(cost.preset("gpt2"))
    assert {part: sizes.count(tensors) for part, tensors in sizes.parts(model).items()} == {
        "embedding": 50257 * 768,
        "positions": 1024 * 768,
        "attention": 12 * 4 * 769 * 768,
        "feed-forward": 12 * (769 * 3072 + 3073 * 768),
        "norms": 25 * 2 * 768,
    }


def test_presets_of_all_families_go_by_their_names():
    known = cost.presets()
    assert {"gpt2", "gpt2-xl", "gpt3", "bert-base", "t5-base", "llama2-7b", "big", "transformer-big"} <= set(known)
    assert cost.preset("transformer-base") == cost.preset("base")
    for name in known:
        own = type(cost.preset(name)).PRESETS
        assert cost.preset(name).name in name or name in own or cost.preset(name) in map(cost.preset, own), name
    with pytest.raises(ValueError, match="unknown preset gpt-2, did you mean gpt2"):
        cost.preset("gpt-2")


# Operations.


@pytest.mark.parametrize("name", SHAPES)
def test_the_operations_of_every_model_are_those_torch_counts(name):
    shape = config_of({"name": name, **SHAPES[name]})
    model, lengths = build_model(shape).eval(), Lengths(9, 7)

    def read() -> Any:
        answer = model(**arguments(model, lengths, 1))
        return model.logits(answer[0] if isinstance(answer, tuple) else answer) if hasattr(model, "logits") else answer

    assert counted(read) == cost.flops(shape, 9, 7)


@pytest.mark.parametrize(
    "settings",
    [
        {"groups": 2, "norm": "pre"},
        {"share": "none", "target_vocab": 70},
        {"encoder": 4, "decoder": 2, "activation": "gelu"},
    ],
)
def test_the_operations_of_a_transformer_are_those_of_its_equations(settings):
    sizes = {"vocab": 50, "width": 32, "heads": 4, "hidden": 48, "encoder": 1, "decoder": 1}
    shape = TransformerConfig(**sizes | settings)
    width, shared = shape.width, shape.width * (shape.groups or shape.heads) // shape.heads

    def attention(queries: int, keys: int) -> int:
        return 4 * queries * width * width + 4 * keys * width * shared + 4 * queries * keys * width

    encoder = attention(9, 9) + 4 * 9 * width * shape.hidden
    decoder = attention(7, 7) + attention(7, 9) + 4 * 7 * width * shape.hidden
    logits = 2 * 7 * width * (shape.target_vocab or shape.vocab)
    assert cost.flops(shape, 9, 7) == shape.encoder * encoder + shape.decoder * decoder + logits


def test_a_model_of_whole_pictures_is_asked_about_one():
    shape = AxialConfig(vocab=17, size=6, width=8, heads=2, hidden=16, above=1, depth=1)
    assert cost.forward(shape, 100) == cost.flops(shape, 36) / 36


def test_a_training_step_costs_three_forward_passes():
    model = Transformer(TINY)
    layouts = tuple(Grid(torch.full((1,), length), length) for length in (9, 7))
    tokens = [torch.zeros(1, length, dtype=torch.int64) for length in (9, 7)]
    passed = counted(lambda: model.logits(model(*tokens, layouts=layouts)).sum().backward())
    assert passed == 3 * cost.flops(TINY, 9, 7)


def test_a_token_of_a_gpt2_costs_two_operations_a_weight_and_four_a_feature_seen():
    shape = replace(cost.preset("gpt2"), depth=2)
    body = 2 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert cost.forward(shape, 1024) == 2 * (body + 50257 * 768) + 2 * 4 * 1024 * 768


# Memory.


def kept(shape: Any, lengths: Lengths, *, batch: int) -> int:
    """Bytes that a training step really keeps for the backward pass, weights aside."""
    model = build_model(shape)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(**arguments(model, lengths, batch))
    return sum(storage.nbytes() for address, storage in storages.items() if address not in own)


@pytest.mark.parametrize(
    "shape",
    [
        SMALL,
        replace(SMALL, norm="post", activation="relu"),
        replace(SMALL, gated=True, activation="silu", normalisation="rms", positions="rotary", groups=2),
        replace(TINY, dropout=0.0),
        replace(TINY, dropout=0.0, norm="pre", activation="gelu", decoder=3),
    ],
    ids=lambda shape: shape.phrase,
)
def test_the_memory_of_activations_is_what_autograd_keeps(shape):
    lengths, batch = Lengths(48, 40), 8
    traced = cost.trace(shape, lengths)
    gpt = isinstance(shape, GPTConfig)
    queries = shape.depth * 48 if gpt else shape.encoder * 48 + 2 * shape.decoder * 40
    masks = 48 * 48 if gpt else 40 * 40 + 2 * 48
    padded = 4 * batch * (queries * shape.width + masks)  # only padded batches hold masks, and what they blank out
    expected = batch * traced.kept + traced.copies + padded
    turned = shape.positions == "rotary"  # a processor also holds queries and keys as they were before
    assert kept(shape, lengths, batch=batch) == pytest.approx(expected, rel=0.1 if turned else 0.005)


def test_half_precision_keeps_what_a_compiled_step_of_a_gpt_keeps():
    """Bytes of a token and block: 18 widths and 4 times what is hidden, as torch's partitioner leaves them.

    Of both norms 2 + 2 for what is normalised and its product's input, of queries, keys and values 6, of what was
    attended 2, of the two dropouts 2; of the feed-forward 2 before and 2 after the activation; and small numbers.
    """
    shape = GPTConfig(vocab=60, width=128, heads=2, hidden=512, depth=2, context=64, dropout=0.1)
    one, two = (cost.trace(replace(shape, depth=depth), Lengths(64, 64), "half").kept / 64 for depth in (1, 2))
    assert two - one == pytest.approx(18 * 128 + 4 * 512, rel=0.02)
    post = [cost.trace(replace(shape, depth=depth, norm="post"), Lengths(64, 64), "half") for depth in (1, 2)]
    assert (post[1].kept - post[0].kept) / 64 == pytest.approx(18 * 128 + 4 * 512, rel=0.02)
    assert post[1].copies - post[0].copies == pytest.approx(2 * 12 * 128**2, rel=0.02)


def test_as_many_logits_are_held_as_training_holds():
    assert memory.MAX_LOGITS == learning.LOGITS
    model = sizes.build_without_weights(SMALL)
    few, many = (memory.training(model, cost.Trace(0, 0, 0, 0), memory.Load(1, count)).loss for count in (10, 20))
    assert many - few == 10 * (2 * 2 * 60 + (4 + 2) * 32)
    most = memory.MAX_LOGITS // 60
    above, below = (
        memory.training(model, cost.Trace(0, 0, 0, 0), memory.Load(1, most + count)).loss for count in (9, 0)
    )
    assert above - below == 9 * (4 + 2) * 32


def test_optimizers_hold_what_they_average():
    model, traced = sizes.build_without_weights(SMALL), cost.trace(SMALL, Lengths(64, 64))
    load = memory.Load(sequences=4, predicted=256, precision="fp32", rank=3)
    every, matrices = cost.parameters(SMALL), 2 * (4 * 32 * 32 + 2 * 32 * 128)
    adam, muon, sgd = (memory.training(model, traced, load, how) for how in ("adamw", "muon", "sgd"))
    assert (adam.weights, adam.gradients, adam.optimizer) == (4 * every, 4 * every, 8 * every)
    assert (muon.optimizer, sgd.optimizer) == (8 * every - 4 * matrices, 0)
    assert adam.total - muon.total == 4 * matrices
    few = 2 * 3 * (4 * (32 + 32) + 2 * (32 + 128))  # both blocks: four projections, two matrices of the MLP
    lora = memory.training(model, traced, load, "lora")
    assert (lora.gradients, lora.optimizer, lora.weights) == (4 * few, 8 * few, 4 * every + 4 * few)
    for how, paper in (("adamw", adam), ("muon", muon)):
        trained = GPT(SMALL)
        optimizer = optim.build(trained.parameters(), optim.OptimConfig(name=how), trained)
        for parameter in trained.parameters():
            parameter.grad = torch.ones_like(parameter)
        optim.update(optimizer, 1.0, rate=1e-3, clip=None)
        averages = [each for state in optimizer.state.values() for each in state.values() if each.dim()]
        assert sum(each.nbytes for each in averages) == paper.optimizer


@pytest.mark.parametrize("groups", [None, 2])
def test_the_cache_on_paper_is_the_cache_of_a_model(groups):
    model = GPT(replace(SMALL, groups=groups)).eval()
    _, state = model.start(torch.zeros(1, 10, dtype=torch.int64), limit=30)
    held = sum(each.keys.numel() + each.values.numel() for each in state.caches)
    assert memory.cache(model, 40) == held
    assert memory.use(model, context=40, source=0, precision="fp32") == 4 * (cost.parameters(model.config) + held)


def test_a_source_is_held_once_for_every_block_that_looks_at_it():
    model = Transformer(TINY).eval()
    lengths = torch.tensor([6])
    _, state = model.start(torch.zeros(1, 6, dtype=torch.int64), lengths, torch.zeros(1, 1, dtype=torch.int64), limit=9)
    held = [*state.caches, *state.memories]
    assert memory.cache(model, 10, source=6) == sum(each.keys.numel() + each.values.numel() for each in held)


# Plans.


def test_a_plan_comes_to_its_parts():
    plan = cost.Plan(length=9, target=7, batch=10, steps=100, gpu="A100", precision="fp32", share=0.5, hourly=2.0)
    answer = cost.estimate(TINY, plan)
    assert answer.operations == 3 * 100 * 10 * cost.flops(TINY, 9, 7)
    assert answer.forward == cost.flops(TINY, 9, 7) / 16
    assert answer.training == 3 * answer.forward
    assert answer.rule == 6 * cost.parameters(TINY)
    assert answer.seconds == pytest.approx(answer.operations / (0.5 * 19.5e12))
    assert answer.price == pytest.approx(answer.seconds / 1800)
    assert answer.fits
    tokens = cost.estimate(TINY, replace(plan, tokens=16_000))
    assert tokens.operations == pytest.approx(answer.operations)


def test_a_masked_language_model_predicts_what_is_masked_and_nothing_else():
    shape = config_of({"name": "bert", **SHAPES["bert"]})
    every, some = (cost.estimate(shape, cost.Plan(length=8, predicted=part)) for part in (1.0, None))
    head = 2 * shape.width * (shape.width + shape.vocab)
    assert every.training - some.training == pytest.approx(3 * 0.85 * head)
    assert every.forward == some.forward


def test_more_gpus_take_less_time_for_the_same_money():
    one, eight = (cost.estimate(TINY, cost.Plan(gpu="P100", count=count, batch=800, hourly=1.0)) for count in (1, 8))
    assert one.seconds == pytest.approx(8 * eight.seconds)
    assert one.price == pytest.approx(eight.price)
    one, eight = one.memory["adamw"], eight.memory["adamw"]
    assert (eight.weights, eight.optimizer) == (one.weights, one.optimizer)
    assert eight.activations < one.activations / 7


def test_a_model_too_large_for_a_gpu_does_not_fit():
    shape = replace(SMALL, width=1024, hidden=4096)
    assert not cost.estimate(shape, cost.Plan(gpu="T4", batch=4000)).fits
    assert cost.estimate(shape, cost.Plan(gpu="H200", batch=400)).fits


def test_an_unknown_gpu_answers_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown GPU H1000: choose one of P100"):
        cost.gpu("H1000")


TOTALS = ("FLOP of the training", "time", "price")


def printed(capsys: Any, *words: Any) -> list[tuple[str, str]]:
    """The rows that the command prints, in two columns."""
    assert run(["cost", *map(str, words)]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    return [(found[1], found[2]) for line in lines if (found := re.fullmatch(r"( *\S.*?) {2,}(\S.*)", line))]


def test_both_counts_of_gpt3_are_printed_with_their_time_and_price(capsys: Any) -> None:
    plan = ["tokens=300000000000", "gpu=V100", "share=0.224", "hourly=1.5"]
    rows = printed(capsys, "gpt3", *(word for setting in plan for word in ("-s", setting)))
    places = {name: number for number, (name, _) in enumerate(rows)}
    counted = {name: (rows[place][1], rows[place + 1]) for name, place in places.items() if name in TOTALS}
    rule = "  6 x parameters"
    assert counted["FLOP of the training"] == ("3.23e+23", (rule, "3.14e+23"))
    assert counted["time"] == ("365.4 years", (rule, "355.7 years"))
    assert counted["price"] == ("4,805,239", (rule, "4,676,900"))


def test_a_model_that_reads_no_tokens_has_no_rule_of_thumb(capsys: Any) -> None:
    assert [name for name, _ in printed(capsys, "vgg16", "-s", "hourly=1")].count("  6 x parameters") == 1


def test_a_run_is_asked_about_itself(tmp_path: Path, capsys: Any) -> None:
    texts = "".join(f"the {word} is number {n} of many\t{'ab'[n % 2]}\n" for n, word in enumerate(["cat", "dog"] * 30))
    (tmp_path / "a.tsv").write_text(texts, encoding="utf-8")
    training = {"steps": 3, "device": "cpu", "tensorboard": False}
    model = {"name": "transformer-encoder", "width": 16, "heads": 2, "hidden": 32, "depth": 1}
    asked = {"task": "classification", "data": {"train": str(tmp_path / "a.tsv")}, "model": model, "training": training}
    folder = recipe.train(asked, out=tmp_path / "run", quiet=True).folder
    assert run(["cost", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    plan, data = told["plan"], json.loads((folder / "data.json").read_bytes())
    assert (plan["steps"], plan["gpu"], plan["precision"]) == (3, None, "fp32")
    assert plan["length"] == round(data["tokens"]["train"] / data["texts"]["train"])
    facts = read_run_facts(folder)
    assert plan["batch"] == round(facts.units_per_step / plan["length"])
    assert told["measured"] == {"device": "cpu", "seconds": facts.seconds}
    assert (told["fits"], told["seconds"], told["price"]) == (None, None, None)
    rows = dict(printed(capsys, folder))
    assert "time it took on cpu" in rows
    assert not {"time", "price", "fits one H100"} & rows.keys()
    elsewhere = dict(printed(capsys, folder, "-s", "gpu=A100"))
    assert {"time", "price", "fits one A100", "time it took on cpu"} <= elsewhere.keys()


@pytest.mark.parametrize(
    ("device", "name"),
    [("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA GeForce RTX 4090", "RTX4090"), ("Tesla P100-PCIE-16GB", "P100")],
)
def test_a_gpu_is_known_by_its_drivers_name(device: str, name: str) -> None:
    assert cost.known_gpu(device) == name
    assert cost.known_gpu("NVIDIA GeForce GTX 1080") is None


def test_recipe_brings_its_steps_and_its_batch(capsys: pytest.CaptureFixture[str]):
    """25,000 tokens a side are 1,000 sentences of 25; what is set on the command line counts more."""
    recipes = Path(__file__).parents[1] / "recipes"
    assert run(["cost", str(recipes / "paper-base-en-fr.yaml"), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["plan"]["steps"], planned["batch"]) == (10_000, 1_000)
    assert run(["cost", str(recipes / "paper-base.yaml"), "-s", "length=32", "-s", "steps=7", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["plan"]["steps"], planned["batch"]) == (7, 6 * (4096 // 32))
