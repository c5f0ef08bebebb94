"""Learning a text: the state is carried, gradients end with their window, and a stop in between changes nothing."""

import json
import os
import signal

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regard
from regard import checkpoint, recipe
from regard.data.tokenizers.units import UnitsConfig
from regard.models.rnn_lm import RecurrentLM, RecurrentLMConfig
from regard.tasks.rnn_lm.streams import StreamConfig, prepare
from regard.tasks.rnn_lm.task import Language, LanguageRecipe
from regard.tasks.rnn_lm.writer import LANE_STATE, measure_surprisal
from regard.training.loop import TrainingConfig
from regard.training.task import Task
from tests.documents import ROOT

TEXT = "the quick brown fox\njumps over the lazy dog\n" * 20
SETTINGS = {
    "task": "language",
    "data": {"text": TEXT, "batch_size": 3, "window": 8},
    "model": {"cell": "lstm", "width": 12, "depth": 2, "dropout": 0.2},
    "optim": {"learning_rate": 0.01, "warmup": 5},
    "training": {
        "steps": 60,
        "log_every": 20,
        "eval_every": 20,
        "save_every": 10,
        "device": "cpu",
        "tensorboard": False,
    },
    "writing": {"prompt": "the ", "length": 10},
}


def train(out, *changes: str, **how):
    return recipe.train(recipe.settings(SETTINGS, *changes), out=out, quiet=True, **how)


def made(lanes: int = 3, window: int = 8, rows: int = 1, **model) -> Language:
    data = StreamConfig(text=TEXT, batch_size=lanes, window=window)
    texts = prepare(data, UnitsConfig())
    shape = RecurrentLMConfig(vocab=texts.tokenizer.vocab, width=12, **model)
    found = LanguageRecipe(data=data, model=shape, training=TrainingConfig(accumulate=rows))
    return Language(found, texts, RecurrentLM(shape))


def test_rows_one_after_the_other_are_one_long_reading_of_every_lane():
    task = made()
    assert isinstance(task, Task)
    losses = [task.step(task.batch(row), "model").loss.item() for row in range(task.rows)]
    labels = np.array(task.texts.train.tokens[: 3 * task.lanes.length]).reshape(3, -1)
    inputs = np.concatenate([[[task.texts.tokenizer.end], *labels[:-1, -1:]], labels[:, :-1]], 1)
    features, state = task.model(torch.from_numpy(inputs).long())
    logits = task.model.logits(features).flatten(0, 1)
    whole = F.cross_entropy(logits, torch.from_numpy(labels).long().flatten(), reduction="sum")
    assert sum(losses) == pytest.approx(whole.item(), rel=1e-5)
    torch.testing.assert_close(task.model.get_buffer(LANE_STATE), state.detach())


def test_an_epoch_begins_with_a_blank_state():
    task = made()
    first = task.step(task.batch(0), "model").loss
    task.step(task.batch(1), "model")
    assert torch.equal(task.step(task.batch(task.rows), "model").loss, first)
    assert not torch.equal(task.step(task.batch(task.rows + 1), "model").loss, first)


def test_a_row_that_is_done_again_begins_where_it_began_also_in_halves():
    task = made(lanes=4)
    task.step(task.batch(0), "model")
    whole, carried = task.step(task.batch(1), "model").loss, task.model.get_buffer(LANE_STATE).clone()
    assert torch.equal(task.step(task.batch(1), "model").loss, whole)
    halves = task.split(task.batch(1))
    assert [half.first for half in halves] == [0, 2]
    torch.testing.assert_close(sum(task.step(half, "model").loss for half in halves), whole)
    torch.testing.assert_close(task.model.get_buffer(LANE_STATE), carried)
    assert len(task.split(task.split(halves[0])[0])) == 1


def test_a_lane_whose_state_is_broken_begins_anew():
    task = made()
    task.model.get_buffer(LANE_STATE)[1] = float("nan")
    task.step(task.batch(1), "model")
    broken = task.model.get_buffer(LANE_STATE)
    assert broken.isfinite().all()
    assert not broken[1].any()
    assert broken[0].any()


def test_gradients_end_with_their_window_so_memory_is_flat_in_the_length_of_the_text():
    """Counted are the tensors that autograd keeps for the way back: rows later it keeps as much as at the start."""
    task, kept = made(fused=False), []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[-1] += tensor.numel()
        return tensor

    for row in range(6):
        kept.append(0)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            step = task.step(task.batch(row), "model")
        step.loss.backward()
        assert not task.model.get_buffer(LANE_STATE).requires_grad
    assert len(set(kept)) == 1
    longer = made(window=16, fused=False)
    kept.append(0)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        longer.step(longer.batch(0), "model")
    assert kept[-1] > 1.5 * kept[0]  # it grows with the window alone


def test_the_held_out_text_is_measured_in_one_pass(monkeypatch):
    task = made(dropout=0.5)
    tokens = torch.tensor(task.texts.valid.tokens.tolist())
    task.model.eval()
    features, _ = task.model(torch.cat([torch.tensor([task.texts.tokenizer.end]), tokens[:-1]])[None])
    nats = F.cross_entropy(task.model.logits(features)[0], tokens, reduction="sum")
    task.model.train()
    monkeypatch.setattr("regard.tasks.rnn_lm.writer.SPAN", 7)
    found = measure_surprisal(task.model, task.texts.valid)
    assert task.model.training
    assert found.nats == pytest.approx(nats.item(), rel=1e-5)
    assert found.loss == pytest.approx(nats.item() / len(tokens), rel=1e-5)
    assert found.per_character == found.loss  # a token is a character


def test_evaluating_leaves_the_states_of_training_alone():
    task = made()
    task.step(task.batch(0), "model")
    before = task.model.get_buffer(LANE_STATE).clone()
    metrics = task.evaluate().metrics
    assert set(metrics) == {"loss", "nats_per_character"}
    assert torch.equal(task.model.get_buffer(LANE_STATE), before)


def state(directory):
    """All tensors of a checkpoint, those that only training needs too."""
    found = checkpoint.read(directory)
    return {**found.tensors(), **found.tensors("training.safetensors")}


def test_rows_of_a_step_that_is_done_again_begin_where_they_began():
    """As after an out-of-memory error in the last row: the step is done again from its first row."""
    task = made(rows=2, dropout=0.0)
    for row in (0, 1):
        task.step(task.batch(row), "model")  # the first step
    once = [task.step(task.batch(row), "model").loss for row in (2, 3)]
    again = [task.step(half, "model").loss for row in (2, 3) for half in task.split(task.batch(row))]
    torch.testing.assert_close(torch.stack(again).reshape(2, 2).sum(1), torch.stack(once))


@pytest.mark.parametrize("stop", [20, 30])
def test_a_run_that_was_stopped_goes_on_to_the_same_bit(tmp_path, stop):
    whole = train(tmp_path / "whole")
    first = train(tmp_path / "parts", f"training.steps={stop}", "optim.schedule=inverse_root")
    assert first.result.step == stop
    second = train(tmp_path / "parts", resume=True)
    assert second.result.step == 60
    one, other = (state(out.folder / "checkpoints" / "step-60") for out in (whole, second))
    assert one[f"state/{LANE_STATE}"].any()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.metrics == second.metrics


def test_an_interrupt_saves_and_the_run_goes_on_to_the_same_bit(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole")
    step = Language.step

    def interrupted(self, batch, part):
        if batch.row == 33:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, batch, part)

    with monkeypatch.context() as patch:
        patch.setattr(Language, "step", interrupted)
        assert train(tmp_path / "parts").result.reason == "interrupted"
    second = train(tmp_path / "parts", resume=True)
    one, other = (state(out.folder / "checkpoints" / "step-60") for out in (whole, second))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_leaves_samples_of_every_evaluation_and_a_model_that_writes(tmp_path):
    outcome = train(tmp_path / "run")
    assert "regard generate" in outcome.summary
    samples = sorted((tmp_path / "run" / "samples").iterdir())
    assert [path.name for path in samples] == ["step-20.json", "step-40.json", "step-60.json"]
    entries = json.loads(samples[-1].read_text())
    assert all(entry["prompt"] == "the " and entry["text"].startswith("the ") for entry in entries)
    writer = regard.load(tmp_path / "run", device="cpu")
    assert LANE_STATE not in dict(writer.model.named_buffers())
    again = [text.text for text in writer.write(samples=2)]
    assert len(again) == 2
    assert writer.measure("the fox\n").tokens == 8


@pytest.mark.unchecked
def test_a_language_model_learns_to_spell_masse(tmp_path):
    settings = recipe.settings(ROOT / "recipes" / "masse.yaml")
    outcome = recipe.train(settings, out=tmp_path / "run", quiet=True)
    writer = regard.load(outcome.best, device="cpu")
    assert [text.text for text in writer.write(temperature=0.0, samples=1)] == ["masse\nmasse\nmasse"]
    assert outcome.metrics["nats_per_character"] < 0.01
    assert writer.write("mas", temperature=0.0, length=2, samples=1)[0].text == "masse"


@pytest.mark.unchecked
@pytest.mark.parametrize("cell", ["rnn", "gru", "gru_before", "lstm"])
def test_every_cell_overfits_one_row(cell):
    task = made(lanes=2, window=12, cell=cell, depth=1)
    optimizer = torch.optim.Adam(task.model.parameters(), 0.05)
    for _ in range(150):
        optimizer.zero_grad()
        step = task.step(task.batch(0), "model")
        (step.loss / step.weight).backward()
        optimizer.step()
    assert step.loss.item() / step.weight < 0.1


def test_words_have_a_perplexity(tmp_path):
    outcome = train(tmp_path / "run", "tokenizer.kind=words", "training.steps=20", "writing.prompt=the")
    assert outcome.metrics["perplexity"] == pytest.approx(np.exp(outcome.metrics["loss"]), rel=1e-6)
    assert outcome.metrics["nats_per_character"] < outcome.metrics["loss"]


def test_cold_is_greedy_and_a_seed_repeats_itself():
    task = made()
    writer = task.writer()
    greedy = writer.write("the", temperature=0.0, length=20, samples=1)
    assert writer.write("the", temperature=1e-3, length=20, samples=1) == greedy
    assert writer.write("the", top_k=1, length=20, samples=1) == greedy
    assert writer.write("the", top_p=1e-6, length=20, samples=1) == greedy
    assert writer.write("the", min_p=1.0, length=20, samples=1) == greedy
    one, again, other = (writer.write("the", seed=seed, length=20, samples=3) for seed in (1, 1, 2))
    assert one == again != other
    assert all(text.text.startswith("the") and len(text.text) == 23 for text in one)


@pytest.mark.parametrize(
    ("prompt", "changes", "said"),
    [
        ("thé", {}, "never seen 'é'"),
        ("", {"top_k": 0}, "writing.top_k must be a whole number from 1 to 1e12, not 0"),
        ("", {"length": 0}, "writing.length must be a whole number from 1"),
        ("", {"temperature": -1.0}, "writing.temperature must be a number from 0 to 1e30, not -1.0"),
        ("", {"lenght": 3}, "did you mean length"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(prompt, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        made().writer().write(prompt, **changes)
    assert "\n" not in str(error.value)


def test_a_prompt_that_cannot_be_written_is_refused_before_anything_is_learnt(tmp_path):
    with pytest.raises(ValueError, match="never seen 'é'"):
        train(tmp_path / "run", "writing.prompt=é")
    with pytest.raises(ValueError, match=r"writing\.seed must be a whole number from -9\.2e18 to 9\.2e18, not 1"):
        train(tmp_path / "run", f"writing.seed={10**22}")
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_pieces_of_words_are_learnt_and_written_too(tmp_path):
    train(tmp_path / "run", "tokenizer.kind=bpe", "training.steps=20", "writing.prompt=the quick")
    [text] = regard.load(tmp_path / "run", device="cpu").write(length=5, samples=1)
    assert text.text.startswith("the quick")


def test_other_lanes_cannot_go_on_with_the_states_of_these(tmp_path):
    train(tmp_path / "run", "training.steps=10")
    with pytest.raises(ValueError, match=r"data\.batch_size: 3 -> 5"):
        train(tmp_path / "run", "data.batch_size=5", resume=True)


def test_what_is_streamed_is_what_is_written_and_a_stop_sequence_ends_it():
    writer = made().writer()
    [written] = writer.write("ma", length=30, samples=1, seed=3)
    pieces = list(writer.stream("ma", length=30, seed=3))
    assert "".join(pieces) == written.text
    assert len(pieces) > 5
    stop = written.text[8:10]
    [stopped] = writer.write("ma", length=30, samples=1, seed=3, stop=stop)
    assert stopped.text == written.text[: written.text.index(stop, 2)]
    assert "".join(writer.stream("ma", length=30, seed=3, stop=stop)) == stopped.text
    several = writer.write("ma", length=30, samples=2, seed=3, stop=stop)
    assert all(stop not in one.text[2:] for one in several)
