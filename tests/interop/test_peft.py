"""LoRA adapters written for `peft` and read from it: equal logits, head included, and nothing overlooked."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import regard
from regard import checkpoint, config, interop, models
from regard.attention.masks import Row
from regard.cli import run
from regard.models.encoder_with_head import BERTEncoderConfig, GPTEncoderConfig
from regard.models.parts.lora import adapt, lora_layers
from tests.interop import test_t5
from tests.interop.making import lay as lay_gpt
from tests.interop.making import scattered
from tests.interop.test_bert import lay as lay_bert

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

KINDS = {"class": "AutoModelForSequenceClassification", "tag": "AutoModelForTokenClassification"}
EVERY = ("query", "key", "value", "output", "inner", "outer")


def laid(folder: Path, case: str) -> interop.ImportedModel:
    """A small base of somebody else's, and what it is here."""
    (lay_bert if "bert" in case else lay_gpt)(folder, case)
    return interop.read(folder)


def tuned(folder: Path, found: interop.ImportedModel, *, tags: bool, matrices: tuple[str, ...], **more: Any) -> Any:
    """A checkpoint of a labeller on that base whose adapter and head are not what they began as; the model itself."""
    bert = found.shape.name == "bert"
    kind = BERTEncoderConfig if bert else GPTEncoderConfig
    names = {each.name for each in dataclasses.fields(kind)}
    own = {name: value for name, value in vars(found.shape).items() if name in names}
    own |= {"pooler": True} if bert else {}  # made anew where a base has none
    shape = kind(**{**own, "name": f"{found.shape.name}-encoder", "classes": 3, "per_token": tags, **more})
    torch.manual_seed(0)
    model = models.build(shape)
    state = model.state_dict()
    for name, tensor in found.tensors.items():
        if f"reader.{name}" in state:
            state[f"reader.{name}"].copy_(tensor)
    adapt(model, 2, 3.0, matrices)
    with torch.no_grad():
        for each in lora_layers(model):
            each.lora_up.normal_(std=0.3)
        model.output.bias.copy_(torch.tensor([0.5, -1.0, 2.0]))
    settings = {
        "format": 1,
        "task": "tagging" if tags else "classification",
        "model": config.plain(shape),
        "tokenizer": {"kind": "bpe", "normalise": "none", "max_length": 20},
        "labels": ["one", "two", "three"],
        "data": {"file": {}, "names": {}},
    }
    files = {"config.yaml": settings, "tokenizer.json": found.tokenizer.json()}
    checkpoint.write(folder, {**files, "model.safetensors": checkpoint.weights(model)})
    return model.eval()


def opened(adapter: Path, base: Path, kind: str, **options: Any) -> Any:
    """The base with the adapter as `peft` loads it."""
    import transformers
    from peft import PeftModel

    return PeftModel.from_pretrained(getattr(transformers, kind).from_pretrained(base, **options), adapter).eval()


@torch.no_grad()
def compare(ours: Any, theirs: Any, *, tags: bool = False, vocab: int = 55) -> Tensor:
    """Equal logits of three texts, one by one there and packed here."""
    lengths = (9, 4, 12)
    tokens = torch.randint(5, vocab, (sum(lengths),))
    told = torch.cat([theirs(part[None]).logits[0 if tags else slice(None)] for part in tokens.split(lengths)])
    found = ours(tokens, Row.of(list(lengths)))
    assert told.std() > 0.1
    assert (found - told).abs().max() < 1e-5 * max(1.0, told.abs().max() / 10)
    return told


CASES = [
    ("bert", "class", EVERY),
    ("roberta", "class", ("query", "value")),
    ("gpt2", "class", ("query", "value", "outer")),
    ("openai-gpt", "class", ("key",)),
    ("bloom", "class", ("query", "value")),
    ("bert", "tag", ("query", "outer")),
    ("distilbert", "tag", EVERY),
    ("gpt2", "tag", EVERY),
    ("llama", "tag", (*EVERY, "gate")),
]


@pytest.mark.parametrize(("case", "what", "matrices"), CASES)
def test_peft_loads_an_adapter_of_ours_with_its_head_and_it_comes_back(case, what, matrices, tmp_path, capsys):
    found, tags = laid(tmp_path / "base", case), what == "tag"
    ours = tuned(tmp_path / "ours", found, tags=tags, matrices=matrices)
    assert run(["export", str(tmp_path / "ours"), str(tmp_path / "adapter"), "--to", "peft", "--type", found.kind]) == 0
    theirs = opened(tmp_path / "adapter", tmp_path / "base", KINDS[what], num_labels=3)
    compare(ours, theirs, tags=tags)
    assert run(["export", str(tmp_path / "ours"), str(tmp_path / "whole"), "--type", found.kind]) == 0
    import transformers

    whole = getattr(transformers, KINDS[what]).from_pretrained(tmp_path / "whole").eval()
    assert whole.config.id2label == {0: "one", 1: "two", 2: "three"}
    compare(ours, whole, tags=tags)
    capsys.readouterr()
    assert run(["import", str(tmp_path / "adapter"), str(tmp_path / "back"), "--onto", str(tmp_path / "base")]) == 0
    assert f"use it with: regard {'tag' if tags else 'classify'}" in capsys.readouterr().out
    back = regard.load(tmp_path / "back", device="cpu")
    assert back.classes == ["one", "two", "three"]
    compare(back.model, theirs, tags=tags)
    before, after = (checkpoint.read(tmp_path / name).tensors() for name in ("ours", "back"))
    assert before.keys() == after.keys(), "beside the base, not added to it"
    shifted = [] if tags or "bert" in case else [name for name in before if name.endswith("bias")]
    assert all(before[name].equal(after[name]) for name in before if name not in shifted)


@pytest.mark.parametrize(
    "case", ["gpt2", *(pytest.param(each, marks=pytest.mark.slow) for each in ("llama", "bloom")), "t5"]
)
def test_an_adapter_of_a_language_model_goes_there_and_comes_back(case, tmp_path):
    if case == "t5":
        test_t5.lay(tmp_path / "base", "1.0")
        found = interop.read(tmp_path / "base")
    else:
        found = laid(tmp_path / "base", case)
    model = models.revive(config.plain(found.shape), found.tensors)
    adapt(model, 2, 3.0, ("query", "value"))
    with torch.no_grad():
        for each in lora_layers(model):
            each.lora_up.normal_(std=0.3)
    assert run(["import", str(tmp_path / "base"), str(tmp_path / "ours")]) == 0
    files = {name: checkpoint.read(tmp_path / "ours").data(name) for name in ("config.yaml", "tokenizer.json")}
    checkpoint.write(tmp_path / "tuned", {**files, "model.safetensors": checkpoint.weights(model)})
    assert run(["export", str(tmp_path / "tuned"), str(tmp_path / "adapter"), "--to", "peft"]) == 0
    kind = "AutoModelForSeq2SeqLM" if case == "t5" else "AutoModelForCausalLM"
    theirs = opened(tmp_path / "adapter", tmp_path / "base", kind)
    tokens = torch.randint(3, 100, (1, 9))
    both = {"decoder_input_ids": tokens} if case == "t5" else {}
    with torch.no_grad():
        wanted = theirs(tokens, **both).logits
    for onto in ("base", "ours"):  # theirs, and the same as a checkpoint
        out = tmp_path / f"on-{onto}"
        assert run(["import", str(tmp_path / "adapter"), str(out), "--onto", str(tmp_path / onto)]) == 0
        assert any("lora_up" in name for name in checkpoint.read(out).tensors())
        assert run(["export", str(out), str(tmp_path / f"hf-{onto}")]) == 0, "with the adapter added to the weights"
        import transformers

        whole = getattr(transformers, kind).from_pretrained(tmp_path / f"hf-{onto}").eval()
        with torch.no_grad():
            assert (whole(tokens, **both).logits - wanted).abs().max() < 1e-5 * max(1.0, wanted.abs().max() / 10)


def test_tokens_that_were_added_for_the_format_travel_too(tmp_path):
    """A GPT-2 that learns to classify has tokens that its base has not."""
    laid(tmp_path / "base", "gpt2")
    rows = [(text, label) for label in ("good", "bad") for text in ("abc", "bcd", "cde", "def", "efg")]
    (tmp_path / "data.tsv").write_text("label\ttext\n" + "".join(f"{b}\t{a} {n}\n" for n in range(4) for a, b in rows))
    assert run(["import", str(tmp_path / "base"), str(tmp_path / "ours")]) == 0
    how = [
        "tuning.method=lora",
        "training.steps=3",
        "training.eval_every=3",
        "training.tensorboard=false",
        "optim.learning_rate=0.05",
    ]
    words = ["train", "--labelled", str(tmp_path / "data.tsv"), "--from", str(tmp_path / "ours"), *how]
    assert run([*words, "--out", str(tmp_path / "run"), "--device", "cpu"]) == 0
    assert run(["export", str(tmp_path / "run"), str(tmp_path / "adapter"), "--to", "peft", "--onto", "gpt2"]) == 0
    told = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert told["trainable_token_indices"] == {"wte": [300, 301]}
    assert told["base_model_name_or_path"] == "gpt2"
    import transformers
    from peft import PeftModel

    base = transformers.GPT2ForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=2)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "adapter")
    base.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    theirs = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    ours = regard.load(tmp_path / "run", device="cpu")
    assert run(["import", str(tmp_path / "adapter"), str(tmp_path / "back"), "--onto", str(tmp_path / "ours")]) == 0
    back = regard.load(tmp_path / "back", device="cpu")
    for text in ("abc def", "cab"):
        [one] = ours._encode([text])
        assert one.tokens[-1] == 301
        with torch.no_grad():
            wanted = theirs(torch.tensor([one.tokens])).logits
            assert (ours._logits([one]) - wanted).abs().max() < 1e-5
            assert (back._logits(back._encode([text])) - wanted).abs().max() < 1e-5
    assert back.classify(["abc"])[0].all.keys() == {"good", "bad"}
    again = ["train", "--labelled", str(tmp_path / "data.tsv"), "--from", str(tmp_path / "back"), *how]
    assert run([*again, "--out", str(tmp_path / "again"), "--device", "cpu"]) == 0
    assert "its LoRA adapter learns on" in (tmp_path / "again" / "train.log").read_text()


def foreign(folder: Path, case: str, **options: Any) -> Any:
    """An adapter that `peft` itself made beside a base in that folder, with random numbers."""
    import transformers
    from peft import LoraConfig, get_peft_model

    laid(folder / "base", case)
    base = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "base", num_labels=3)
    torch.manual_seed(1)
    made = get_peft_model(base, LoraConfig(task_type="SEQ_CLS", **options))
    scattered(torch.nn.ParameterList(each for each in made.parameters() if each.requires_grad))
    made.save_pretrained(folder / "adapter")
    return made.eval()


def test_an_adapter_that_peft_made_gives_the_same_logits_here(tmp_path, capsys):
    how = {"r": 4, "use_rslora": True, "rank_pattern": {"layer.0.attention.self.query": 6}, "alpha_pattern": {"key": 3}}
    theirs = foreign(tmp_path, "bert", target_modules=["query", "key", "attention.output.dense"], **how)
    words = ["import", str(tmp_path / "adapter"), str(tmp_path / "ours")]
    assert run([*words, "--onto", str(tmp_path / "base"), "--labels", "a,b,c", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "classification"
    found = regard.load(tmp_path / "ours", device="cpu")
    compare(found.model, theirs)
    [answer] = found.classify(["A B"])
    with torch.no_grad():
        told = theirs(torch.tensor([[2, 5, 6, 3]])).logits.softmax(-1)[0]
    assert {label: pytest.approx(float(p), abs=1e-5) for label, p in zip("abc", told, strict=True)} == answer.all
    assert "is not empty" in refused([*words, "--onto", str(tmp_path / "base")], capsys)
    assert "name as many" in refused([*words, "--overwrite", "--onto", str(tmp_path / "base"), "--labels", "a"], capsys)


def test_a_gpt_of_others_reads_texts_without_tokens_around_them(tmp_path, capsys):
    theirs = foreign(tmp_path, "gpt2", target_modules=["c_attn"], fan_in_fan_out=True)
    words = ["import", str(tmp_path / "adapter"), str(tmp_path / "ours"), "--onto", str(tmp_path / "base")]
    assert "leave out --pairs" in refused([*words, "--pairs"], capsys)
    assert run(words) == 0
    found = regard.load(tmp_path / "ours", device="cpu")
    compare(found.model, theirs)
    with torch.no_grad():
        told = theirs(torch.tensor([found.tokenizer.encode("abba")])).logits.softmax(-1)[0]
    assert list(found.classify(["abba"])[0].all.values()) == pytest.approx(
        sorted(told.tolist(), reverse=True), abs=1e-5
    )
    assert found.classes == ["LABEL_0", "LABEL_1", "LABEL_2"]


def refused(words: list[str], capsys) -> str:
    """The one line in which a command is refused."""
    capsys.readouterr()
    assert run(words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    return said.err


@pytest.fixture(scope="module")
def adapter(tmp_path_factory) -> Path:
    """A base and an adapter of ours for it."""
    folder = tmp_path_factory.mktemp("adapter")
    tuned(folder / "ours", laid(folder / "base", "bert"), tags=False, matrices=("query", "value"))
    assert run(["export", str(folder / "ours"), str(folder / "adapter"), "--to", "peft"]) == 0
    return folder


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"use_dora": True}, "use_dora must be false, not true"),
        ({"bias": "all"}, 'bias must be "none", not "all"'),
        ({"lora_bias": True}, "lora_bias must be false, not true"),
        ({"layers_to_transform": [0]}, "layers_to_transform must be null, not [0]"),
        ({"init_lora_weights": "pissa"}, 'not "pissa"'),
        ({"init_lora_weights": "loftq"}, 'not "loftq"'),
        ({"loftq_config": {"loftq_bits": 4}}, 'not {"loftq_bits": 4}'),
        ({"target_modules": ".*(query|value)"}, 'target_modules must be a list of names, not ".*(query|value)"'),
        ({"target_modules": ["query"]}, "bert.encoder.layer.0.attention.self.value has thin matrices"),
        ({"target_modules": ["query", "value", "key"]}, "self.key.lora_A.weight is missing from the weights"),
        ({"rank_pattern": {"(a+)+$": 4}}, "rank_pattern must be numbers by names of modules"),
        ({"rank_pattern": {"query": 4}}, "query.lora_A.weight is (2, 24) and should be (4, 24)"),
        ({"megatron_config": {"a": 1}}, 'megatron_config must be null, not {"a": 1}'),
        ({"peft_type": "IA3"}, 'peft_type must be "LORA", not "IA3"'),
        ({"task_type": "CAUSAL_LM"}, "task_type is CAUSAL_LM, which a base of type bert does not do"),
        ({"modules_to_save": ["classifier"]}, "bert.pooler.dense.bias, which adapter_config.json does not name"),
        ({"r": "2"}, 'r must be a whole number, not "2"'),
        ({"r": 0}, "r must be 1 or more, not 0"),
        ({"rank_pattern": [1]}, "rank_pattern must be numbers by names of modules, not [1]"),
        ({"lora_alpha": None}, "lora_alpha must be a number, not null"),
        ({"trainable_token_indices": ["a"]}, 'trainable_token_indices must be a list of tokens, not ["a"]'),
        ({"trainable_token_indices": [70]}, "which do not fit 1 trainable_token_indices"),
        ({"task_type": "QUESTION_ANS"}, 'not "QUESTION_ANS"'),
        ({"new_trick": 3}, "new_trick is 3, a field that is not understood"),
    ],
)
def test_fields_that_would_change_numbers_are_refused(fields, said, adapter, tmp_path, capsys):
    shutil.copytree(adapter / "adapter", tmp_path / "adapter")
    place = tmp_path / "adapter" / "adapter_config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | fields))
    words = ["import", str(tmp_path / "adapter"), str(tmp_path / "out"), "--onto", str(adapter / "base")]
    assert said in refused(words, capsys)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"task": ["a"]}, "task is ['a'], which has no model of kind bert-encoder"),
        ({"task": "causal-lm"}, "task is 'causal-lm', which has no model of kind bert-encoder"),
        ({"task": "classification", "labels": 3}, "labels must be a list of names, not 3"),
        ([], "expected a JSON object, not []"),
    ],
)
def test_what_regard_json_cannot_say_is_refused(told, said, adapter, tmp_path, capsys):
    shutil.copytree(adapter / "adapter", tmp_path / "adapter")
    (tmp_path / "adapter" / "regard.json").write_text(json.dumps(told))
    words = ["import", str(tmp_path / "adapter"), str(tmp_path / "out"), "--onto", str(adapter / "base")]
    assert said in refused(words, capsys)


def test_weights_that_are_missing_or_too_many_are_named(adapter, tmp_path, capsys):
    shutil.copytree(adapter / "adapter", tmp_path / "adapter")
    place = tmp_path / "adapter" / "adapter_model.safetensors"
    words = ["import", str(tmp_path / "adapter"), str(tmp_path / "out"), "--onto", str(adapter / "base")]
    tensors, name = load_file(place), "base_model.model.classifier.weight"

    def said(changed: dict[str, Tensor]) -> str:
        save_file(changed, place, {"format": "pt"})
        return refused(words, capsys)

    headless = {each: tensor for each, tensor in tensors.items() if each != name}
    assert "classifier.weight is missing from the weights: the head" in said(headless)
    assert "holds numbers that are not finite" in said({**tensors, name: tensors[name] * torch.nan})
    more = torch.ones(2)
    new = {**tensors, "base_model.model.classifier.new": more}
    assert "the weights have classifier.new, for which the model has no place" in said(new)
    assert "the weights have cls.bias, which" in said({**tensors, "base_model.model.cls.bias": more})
    assert "begin with base_model.model." in said({**tensors, "classifier.new": more})
    place.rename(place.with_name("adapter_model.bin"))
    assert "adapter_model.bin is pickled, and a pickle can run code: convert it" in refused(words, capsys)
    assert "name the model that it belongs to with --onto" in refused(words[:3], capsys)
    assert "has an adapter already" in refused([*words[:4], str(adapter / "ours")], capsys)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_exported_nor_built_upon(value, adapter, tmp_path, capsys):
    known = checkpoint.read(adapter / "ours")
    tensors = {name: tensor.clone() for name, tensor in known.tensors().items()}
    name = next(name for name in tensors if name.endswith("lora_up"))
    tensors[name][0, 0] = value
    files = {each: known.data(each) for each in ("config.yaml", "tokenizer.json")}
    checkpoint.write(tmp_path / "broken", {**files, checkpoint.WEIGHTS: tensors})
    out = str(tmp_path / "out")
    for words in (
        ["export", str(tmp_path / "broken"), out],
        ["export", str(tmp_path / "broken"), out, "--to", "peft"],
        ["import", str(adapter / "adapter"), out, "--onto", str(tmp_path / "broken")],
    ):
        said = refused(words, capsys)
        assert f"'{name}' in model.safetensors holds numbers that are not finite: its training failed" in said
        assert not Path(out).exists()


def test_what_has_no_place_there_is_refused(adapter, tmp_path, capsys):
    found = interop.read(adapter / "base")
    out = str(tmp_path / "out")
    for more, said in (
        ({"pool": "mean"}, "model.pool is mean, and the bert there takes one token"),
        ({"pooler": False}, "model.pooler is false, and the bert there has a pooler"),
    ):
        shutil.rmtree(tmp_path / "ours", ignore_errors=True)
        tuned(tmp_path / "ours", found, tags=False, matrices=("query",), **more)
        assert said in refused(["export", str(tmp_path / "ours"), out, "--to", "peft"], capsys)
    assert run(["import", str(adapter / "base"), str(tmp_path / "plain")]) == 0
    said = refused(["export", str(tmp_path / "plain"), out, "--to", "peft"], capsys)
    assert "holds no LoRA adapter: train with tuning.method=lora" in said
    assert "add --to peft" in refused(["export", str(tmp_path / "plain"), out, "--onto", "x"], capsys)
