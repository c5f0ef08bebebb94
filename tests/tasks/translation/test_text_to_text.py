"""Text to text: a T5 learns what is asked of it by a prefix, as `transformers` would, and is used like any model."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import checkpoint, interop, models, recipe
from regard.cli import run
from regard.tasks.translation.text_to_text import TextToText
from tests.interop import test_t5

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

WORDS = ("ab", "cd", "ef", "gh")
TEXTS = [" ".join(pair) for pair in itertools.product(WORDS, repeat=2)]
NEXT = dict(itertools.pairwise([*WORDS, WORDS[0]]))
SIZES = {"width": 64, "heads": 2, "depth": 16, "hidden": 64, "encoder": 1, "decoder": 1, "dropout": 0.0}
BRIEF = ["training.steps=2", "training.eval_every=2", "training.tensorboard=false", "--device", "cpu"]


def write(folder: Path) -> dict[str, Path]:
    """A file of the words that follow others, and one of labels."""
    made = {"next": [f"{text}\t{' '.join(NEXT[word] for word in text.split())}" for text in TEXTS]}
    made["label"] = [f"{text}\t{'yes' if 'ab' in text else 'no'}" for text in TEXTS]
    for name, lines in made.items():
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: folder / f"{name}.tsv" for name in made}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    """A T5 that has learnt two tasks at once."""
    folder = tmp_path_factory.mktemp("texts")
    files = write(folder)
    label = {"path": str(files["label"]), "prefix": "has ab: "}
    settings = {
        "task": "text-to-text",
        "data": {
            "train": (asked := [{"path": str(files["next"]), "prefix": "next:"}, label]),
            "valid": asked,
            "batch_tokens": 512,
        },
        "tokenizer": {"kind": "words", "min_frequency": 1},
        "model": SIZES,
        "optim": {"learning_rate": 4e-3, "warmup": 5},
        "training": {"steps": 160, "eval_every": 40, "save_every": 160, "tensorboard": False, "device": "cpu"},
    }
    recipe.train(settings, out=folder / "run", quiet=True)
    return folder / "run", files


def test_two_tasks_are_learnt_at_once_and_told_apart_by_their_prefixes(learnt: Any, capsys: Any) -> None:
    folder, files = learnt
    trained = regard.load(folder, device="cpu")
    assert trained.reply("next: gh cd") == "ab ef"
    assert trained.reply(["has ab: gh ab", "has ab: gh cd"]) == ["yes", "no"]
    for name, ask in (("next", "next:"), ("label", "has ab:")):
        scores = trained.evaluate(files[name], ask=ask)
        assert scores.metrics["exact match, %"] == scores.details["exact_match"] == 100
        assert {"BLEU", "chrF"} <= scores.metrics.keys()
    assert run(["predict", str(folder), "gh cd", "-s", "ask=next:", "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "ab ef"
    assert run(["predict", str(folder), "gh cd", "--device", "cpu"]) == 1
    assert "begin it with one of 'next:', 'has ab:', or set ask" in capsys.readouterr().err


def test_a_batch_changes_no_answer_and_each_task_is_scored(learnt: Any, tmp_path: Path) -> None:
    folder, _ = learnt
    trained = regard.load(folder, device="cpu")
    asked = [f"{prefix} {text}" for text in TEXTS[::3] for prefix in ("next:", "has ab:")]
    alone = [trained.reply(text) for text in asked]
    assert trained.reply(asked) == alone
    assert trained.reply("has ab: gh ab", beams=3) == "yes"
    long = "has ab: ab " + "cd " * 1000
    assert trained.encode(long) == [*trained.source.encode(long)[:511], trained.end], "the beginning of a long text"
    assert trained.reply(long).strip() in ("yes", "no")
    lines = [f"{text}\t{answer}" for text, answer in zip(asked, alone, strict=True)]
    (tmp_path / "both.tsv").write_text("\n".join(lines))
    [table, *_] = trained.evaluate(tmp_path / "both.tsv").tables
    assert [row[:2] for row in table.rows] == [("next:", "100.0"), ("has ab:", "100.0")]


def test_where_it_looked_is_shown(learnt: Any, capsys: Any) -> None:
    folder, _ = learnt
    assert run(["explain", str(folder), "next: gh cd", "--json", "--device", "cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "decoder.0.cross" in str(told)
    trace = regard.load(folder, device="cpu").look("next: gh cd")
    assert trace.task == "text-to-text"
    assert trace.facts["answer"] == "ab ef"


def settings(file: Path) -> dict[str, Any]:
    return {
        "task": "text-to-text",
        "data": {"train": {"path": str(file), "prefix": "next:"}, "batch_tokens": 512},
        "training": {"steps": 2, "eval_every": 2, "tensorboard": False, "device": "cpu"},
    }


@pytest.mark.parametrize("case", ["1.0", "1.1"])
def test_the_loss_is_that_of_transformers(case: str, tmp_path: Path) -> None:
    file = write(tmp_path)["next"]
    theirs = test_t5.lay(tmp_path / "theirs", case)
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    parent = checkpoint.read(tmp_path / "ours")
    asked = settings(file)
    asked["model"] = TextToText.model_settings(asked, parent)
    how = recipe.resolve(asked)[1]
    prepared = TextToText.prepare(how, parent)
    how = TextToText.fill_sizes(how, prepared)
    model = models.revive(parent.config["model"], parent.tensors())
    task = TextToText(how, prepared, model)
    batch = task.batch(0)
    step = task.step(batch, "model")
    sources = batch.source.split(batch.source_row.lengths.tolist())
    answers = batch.labels.split(batch.target_row.lengths.tolist())
    assert batch.target[0] == 0, "pad begins an answer"
    assert prepared.source_tokenizer.decode(sources[0].tolist()).startswith("next ")  # it has no colon
    with torch.no_grad():
        losses = [theirs(one[None], labels=other[None]).loss for one, other in zip(sources, answers, strict=True)]
    expected = sum(float(loss) * len(answer) for loss, answer in zip(losses, answers, strict=True))
    assert float(step.loss.detach()) == pytest.approx(expected, rel=1e-5)
    assert int(step.weight) == sum(map(len, answers))


@pytest.mark.parametrize("case", ["1.0", "1.1"])
def test_a_t5_of_others_goes_on_with_its_body_its_tokenizer_and_rows_to_spare(case: str, tmp_path: Path) -> None:
    file = write(tmp_path)["next"]
    test_t5.lay(tmp_path / "theirs", case)
    assert run(["import", str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    words = ["train", "--task", "text-to-text", str(file), "--from", str(tmp_path / "ours"), "data.train.prefix=next:"]
    assert run([*words, *BRIEF, "tuning.method=lora", "--out", str(tmp_path / "run")]) == 0
    log = (tmp_path / "run" / "train.log").read_text()
    assert "tensors taken over\n" in log, "nothing is made anew"
    before, after = (checkpoint.read(place) for place in (tmp_path / "ours", tmp_path / "run" / "best"))
    assert after.config["model"]["vocab"] == 140
    assert after.text("tokenizer.json") == before.text("tokenizer.json")
    assert all(after.tensors()[name].equal(tensor) for name, tensor in before.tensors().items()), "LoRA leaves them"
    trained = regard.load(tmp_path / "run", device="cpu")
    assert trained.add_prefix("ab cd") == "next: ab cd", "the only thing that it is asked"
    assert trained.answer(["ab cd"])[0].plain().keys() == {"text", "answer", "score"}
    assert run(["export", str(tmp_path / "run"), str(tmp_path / "adapter"), "--to", "peft"]) == 0
    told = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    inner = ["wi"] if case == "1.0" else ["wi_0", "wi_1"]
    assert told["task_type"] == "SEQ_2_SEQ_LM"
    assert told["target_modules"] == ["q", "k", "v", "o", *inner, "wo"]


def test_an_exported_t5_begins_with_pad_as_it_learnt_to(learnt: Any, tmp_path: Path) -> None:
    from transformers import T5ForConditionalGeneration

    folder, _ = learnt
    assert run(["export", str(folder), str(tmp_path / "hf")]) == 0
    theirs = T5ForConditionalGeneration.from_pretrained(tmp_path / "hf").eval()
    trained = regard.load(folder, device="cpu")
    read = torch.tensor([trained.encode("next: gh cd")])
    written = theirs.generate(read, max_new_tokens=4, do_sample=False)[0].tolist()
    assert trained.target.decode(written) == "ab ef"
    assert interop.read(tmp_path / "hf").shape == trained.model.config


def test_answers_may_be_in_training_and_in_validation_alike_and_texts_may_not(tmp_path: Path) -> None:
    file = write(tmp_path)["label"]
    how = recipe.resolve(settings(file))[1]
    found = TextToText.prepare(how).report
    assert (found["train"]["pairs"], found["valid"]["pairs"]) == (14, 2)
    both = recipe.resolve(settings(file) | {"data": {"train": str(file), "apart": "both"}})[1]
    assert TextToText.prepare(both).report["train"]["pairs"] < 14, "all with a label that is held out would be left out"


def test_what_a_t5_cannot_do_is_said(tmp_path: Path, capsys: Any) -> None:
    asked = settings(write(tmp_path)["next"])
    with pytest.raises(ValueError, match="one tokenizer for what it reads and writes"):
        recipe.resolve({**asked, "tokenizer": {"joint": False}})
    with pytest.raises(ValueError, match=r"data.max_length is 600 tokens, more than model.context, 512"):
        recipe.resolve({**asked, "data": {**asked["data"], "max_length": 600, "batch_tokens": 2048}})
