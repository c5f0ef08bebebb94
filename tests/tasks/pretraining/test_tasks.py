"""What is minimised and what is measured, beside plain sums in float64 over documents that are read one by one."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import regard
from regard import checkpoint, models, recipe
from regard.attention.masks import Grid
from regard.metrics.likelihood import IGNORE
from regard.models.gpt import GPTConfig
from regard.tasks import TASKS
from regard.tasks.pretraining import causal, corruption, learning, masked
from regard.tasks.pretraining.writer import measure_surprisal
from regard.training.microbatch import MicroBatches
from tests.tasks.pretraining.making import LINES, made, settings

TASK = ["causal-lm", "masked-lm", "span-corruption"]


def alone(tokens):
    """One sequence by itself: its tokens and its layout."""
    ids = torch.as_tensor(tokens, dtype=torch.int64)[None]
    return ids, Grid(torch.tensor([ids.shape[1]]), ids.shape[1])


@torch.no_grad()
def nats(model, fed, labels):
    """The surprise of a GPT at each label, after tokens that are read by themselves."""
    ids, grid = alone(fed)
    chances = model.logits(model(ids, layout=grid))[0].log_softmax(-1)
    return -chances[torch.arange(len(labels)), torch.as_tensor(labels)]


def documents(corpus):
    """The tokens of each document, its end included."""
    bounds = corpus.starts.tolist()
    return [corpus.tokens[first:last].tolist() for first, last in pairwise(bounds)]


def parts(row, *values):
    """What belongs to each sequence of a row."""
    lengths = row.lengths[: int(row.count)].tolist()
    return zip(*(value[: sum(lengths)].split(lengths) for value in values), strict=True)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_loss_of_a_gpt_is_that_of_documents_read_one_by_one(fixed):
    task = made("causal-lm", double=True)
    task = type(task)(task.recipe, task.prepared, task.model, fixed=fixed)
    corpus, total, counted = task.prepared.train, 0.0, 0
    for row in range(task.rows):
        step, expected = task.step(task.batch(row), "model"), 0.0
        for first, last, number in zip(*(each.tolist() for each in task.source.windows.row(row)), strict=True):
            begin = int(corpus.starts[number])
            text = [corpus.opening, *corpus.tokens[begin : int(corpus.starts[number + 1])].tolist()]
            piece = text[first - begin : last - begin + 1]
            expected += float(nats(task.model, piece[:-1], piece[1:]).sum())
        assert step.loss.item() == pytest.approx(expected, rel=1e-9)
        total, counted = total + expected, counted + int(step.weight)
    assert counted == len(corpus.tokens), "every token is learnt once in an epoch"
    assert total / counted > 1


@torch.no_grad()
def test_smoothing_spreads_a_share_over_all_tokens():
    sharp, smooth = made("causal-lm", double=True), made("causal-lm", "objective.label_smoothing=0.2", double=True)
    batch = sharp.batch(0)
    chances = sharp.model.logits(sharp.model(batch.tokens, layout=batch.row)).log_softmax(-1)
    right = -chances[torch.arange(len(batch.labels)), batch.labels]
    expected = (0.8 * right - 0.2 * chances.mean(-1)).sum()
    assert smooth.step(batch, "model").loss.item() == pytest.approx(expected.item(), rel=1e-9)


def test_evaluation_is_one_pass_over_every_token_in_windows_that_do_not_overlap(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(f"{line} again, y" for line in LINES))
    (tmp_path / "valid.txt").write_text("".join(f"{line}\n" for line in LINES))
    files = {"train": str(tmp_path / "train.txt"), "valid": str(tmp_path / "valid.txt")}
    task = made("causal-lm", double=True, **files)
    task.model.train()
    corpus, total, counted = task.prepared.valid, 0.0, 0
    for text in documents(corpus):
        fed = [corpus.opening, *text[:-1]]
        for first in range(0, len(text), 12):
            total += float(nats(task.model.eval(), fed[first : first + 12], text[first : first + 12]).sum())
        counted += len(text)
    task.model.train()
    metrics = task.evaluate().metrics
    assert task.model.training
    assert counted == sum(len(line) + 1 for line in LINES)
    assert metrics["loss"] == pytest.approx(total / counted, rel=1e-9)
    size = (tmp_path / "valid.txt").stat().st_size
    assert metrics["bits_per_byte"] == pytest.approx(total / math.log(2) / size, rel=1e-9)


@pytest.mark.parametrize("stride", [1, 5, 12])
def test_a_stride_gives_each_token_what_the_window_holds_before_it(stride):
    task = made("causal-lm", double=True)
    corpus, total = task.prepared.valid, 0.0
    for text in documents(corpus):
        fed = [corpus.opening, *text[:-1]]
        for begin in range(0, len(text), stride):
            end = min(begin + stride, len(text))
            first = max(0, end - 12)
            total += float(nats(task.model, fed[first:end], text[first:end])[begin - first :].sum())
    found, spans = measure_surprisal(task.model, corpus, 12, stride=stride)
    assert found.nats == pytest.approx(total, rel=1e-9)
    assert found.tokens == len(corpus.tokens) == sum(count for _, count in spans)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("unit", ["tokens", "words"])
@torch.no_grad()
def test_the_loss_of_a_bert_is_that_of_its_masked_places_among_all_logits(unit, fixed):
    task = made("masked-lm", f"objective.unit={unit}", double=True)
    task = type(task)(task.recipe, task.prepared, task.model, fixed=fixed)
    batch = task.batch(1)
    truth = torch.full_like(batch.tokens, IGNORE)
    real = batch.labels != IGNORE
    truth[batch.places[real]] = batch.labels[real]
    expected, counted = 0.0, 0
    for tokens, labels in parts(batch.row, batch.tokens, truth):
        ids, grid = alone(tokens)
        chances = task.model.logits(task.model(ids, layout=grid))[0].log_softmax(-1)
        where = labels != IGNORE
        expected -= float(chances[where, labels[where]].sum())
        counted += int(where.sum())
    step = task.step(batch, "model")
    assert counted == int(step.weight)
    text = int(batch.row.filled) - 2 * int(batch.row.count)  # without what is put around each sequence
    assert 0 <= round(0.15 * text) - counted <= (0 if unit == "tokens" else 3)
    assert step.loss.item() == pytest.approx(expected, rel=1e-9)


@torch.no_grad()
def test_the_next_sentence_counts_as_much_as_the_masked_tokens():
    plain = "model.segments=2", "model.pooler=true", "model.next_sentence=true"
    task = made("masked-lm", "objective.next_sentence=true", *plain, double=True)
    batch = task.batch(0)
    assert {0, 1} <= set(batch.following.tolist())
    masked_only, second, told = 0.0, 0.0, 0
    truth = torch.full_like(batch.tokens, IGNORE)
    truth[batch.places] = batch.labels
    following = batch.following.tolist()
    for number, (tokens, kinds, labels) in enumerate(parts(batch.row, batch.tokens, batch.segments, truth)):
        ids, grid = alone(tokens)
        features = task.model(ids, layout=grid, segments=kinds[None])
        where = labels != IGNORE
        masked_only -= float(task.model.logits(features)[0].log_softmax(-1)[where, labels[where]].sum())
        if following[number] != IGNORE:
            told += 1
            pooled = (features[0, 0] @ task.model.pooler.weight.T + task.model.pooler.bias).tanh()
            answer = pooled @ task.model.next_sentence.weight.T + task.model.next_sentence.bias
            second -= float(answer.log_softmax(-1)[following[number]])
    step = task.step(batch, "model")
    mean = masked_only / int(step.weight) + second / told
    assert (step.loss / step.weight).item() == pytest.approx(mean, rel=1e-6)  # two logits are told apart in float32


@pytest.mark.parametrize("fixed", [False, True])
@torch.no_grad()
def test_the_loss_of_a_t5_is_that_of_pairs_read_one_by_one(fixed):
    task = made("span-corruption", double=True)
    task = type(task)(task.recipe, task.prepared, task.model, fixed=fixed)
    batch, expected, counted = task.batch(1), 0.0, 0
    source, target = (list(parts(row, *each)) for row, each in zip(
        batch.rows, ((batch.source,), (batch.target, batch.labels)), strict=True))  # fmt: skip
    for (read,), (_, labels) in zip(source, target, strict=True):
        begun = [task.prepared.tokenizer.pad, *labels[:-1].tolist()]
        inputs, layouts = zip(alone(read), alone(begun), strict=True)
        chances = task.model.logits(task.model(*inputs, layouts=layouts))[0].log_softmax(-1)
        expected -= float(chances[torch.arange(len(labels)), labels].sum())
        counted += len(labels)
    step = task.step(batch, "model")
    assert int(step.weight) == counted
    assert step.loss.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", TASK)
@torch.no_grad()
def test_halves_of_a_row_lose_what_the_row_does(name):
    task = made(name, double=True)
    batch = task.batch(0)
    halves = [task.step(half, "model") for half in task.split(batch)]
    whole = task.step(batch, "model")
    assert len(halves) == 2
    assert sum(float(half.loss) for half in halves) == pytest.approx(float(whole.loss), rel=1e-9)
    assert sum(int(half.weight) for half in halves) == int(whole.weight)


@pytest.mark.parametrize("name", TASK)
def test_evaluating_is_always_the_same_and_leaves_training_alone(name):
    task = made(name)
    task.model.train()
    state = torch.get_rng_state()
    first, again = task.evaluate(), task.evaluate()
    assert first == again
    assert torch.equal(torch.get_rng_state(), state)
    assert task.model.training
    assert all(math.isfinite(value) for value in first.metrics.values())


def test_a_bert_shows_gaps_with_what_stood_there():
    task = made("masked-lm")
    shown = task.evaluate().samples
    assert len(shown) == 3
    letters = {letter for line in LINES for letter in line}
    assert all("[MASK]" in each["text"] and each["right"] in letters for each in shown)


@pytest.mark.parametrize(("name", "sizes"), [
    ("causal-lm", causal.SIZES), ("masked-lm", masked.SIZES), ("span-corruption", corruption.SIZES)
])  # fmt: skip
def test_sizes_follow_the_amount_of_text(name, sizes):
    kind, found = recipe.resolve({"task": name, "data": {"text": "\n".join(LINES), "validation_share": 0.0}})
    prepared = kind.prepare(found, None)

    def suited(tokens):
        long = replace(prepared.train, tokens=np.broadcast_to(np.uint16(0), (tokens,)))
        return kind.default_settings(found, replace(prepared, train=long))

    amounts = [1000, *(round(size.most) + 1 for size in sizes[:-1])]
    chosen = [suited(amount) for amount in amounts]
    assert [each["model"]["width"] for each in chosen] == [size.model["width"] for size in sizes]
    assert len({size.model["width"] for size in sizes}) > 2
    assert all(each["model"]["context"] == 256 for each in chosen)
    steps = [each["training"]["steps"] for each in chosen]
    assert steps[0] == 200
    for amount, size, count in zip(amounts[1:], sizes[1:], steps[1:], strict=True):
        assert count == pytest.approx(max(200, size.epochs * amount / (256 * size.windows)), rel=0.02)
    small = kind.resolve({"task": name, "data": {"text": "x"}}, prepared)
    assert small.model.width == sizes[0].model["width"]
    assert small.model.vocab == prepared.tokenizer.vocab


@pytest.mark.parametrize("name", TASK)
def test_a_window_that_the_model_does_not_hold_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match=r"data\.context is 13, the model holds 12 tokens: set data\.context=12$"):
        made(name, context=13)
    made(name, context=11)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("causal-lm", ["writing.prompt=é"], "never seen 'é'"),
        ("causal-lm", ["data.context=1", "model.context=1"], "holds 1 token has no room to write"),
        ("masked-lm", ["model.masked=false"], "no head that guesses masked tokens"),
        ("masked-lm", ["objective.next_sentence=true", "model.segments=0"], "needs a model with next_sentence"),
        ("masked-lm", ["data.context=2"], "has no room for text"),
        ("span-corruption", ["data.context=1"], "has no room for a text with a gap"),
    ],
)
def test_what_cannot_be_learnt_is_said_in_one_line(name, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        made(name, *changes)
    assert "\n" not in str(error.value)


@pytest.mark.unchecked
@pytest.mark.parametrize("name", TASK)
def test_every_task_learns_to_spell(name, tmp_path):
    """A model that knows how often letters occur, but not in which order, loses 1.3 nats; an untrained one more."""
    steps = 80 if name == "span-corruption" else 60
    asked = settings(
        name,
        *("optim.name=adamw", "optim.learning_rate=0.01", "optim.warmup=5", "model.dropout=0", "model.width=32"),
        *(
            f"training.steps={steps}",
            f"training.eval_every={steps}",
            f"training.save_every={steps}",
            "training.log_every=1",
        ),
        text="masse\n" * 60,
        batch_size=8,
    )
    outcome = recipe.train(asked, out=tmp_path / "run", quiet=True)
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["loss"] > 1.6
    assert outcome.metrics["loss"] < 0.3
    model = regard.load(outcome.best, device="cpu")
    if name == "causal-lm":
        assert model.write("ma", temperature=0.0, length=9, samples=1)[0].text == "masse", "and there it ends"
    elif name == "masked-lm":
        assert [each.filled for each in model.fill(["ma[MASK]se", "[MASK]ass[MASK]"])] == ["masse", "masse"]
    else:
        assert model.restore("mass<extra_id_0>").spans == ["e"]


def test_a_model_with_room_for_more_tokens_than_its_tokenizer_has_is_trained_on(tmp_path):
    """Other people round the number of tokens up: T5's table has 32,128 rows and its tokenizer 32,100 tokens."""
    task = made("causal-lm")
    shape = replace(task.recipe.model, vocab=task.recipe.model.vocab + 5)
    files = type(task).checkpoint_files(shape, task.prepared.tokenizer)
    checkpoint.write(tmp_path / "theirs", {**files, checkpoint.WEIGHTS: checkpoint.weights(models.build(shape))})
    data = {"text": "\n".join(LINES), "context": 12, "validation_share": 0.0}
    asked = {"task": "causal-lm", "data": data, "training": {"steps": 1, "device": "cpu", "tensorboard": False}}
    outcome = recipe.train(asked, out=tmp_path / "run", start=str(tmp_path / "theirs"), quiet=True)
    again = recipe.train(
        recipe.settings(asked, "training.steps=2"),
        out=tmp_path / "run",
        start=str(tmp_path / "theirs"),
        resume=True,
        quiet=True,
    )
    assert [regard.load(each.best, device="cpu").model.config.vocab for each in (outcome, again)] == [shape.vocab] * 2


def test_every_task_of_the_wing_is_tested_here():
    assert {
        name for name, entry in TASKS.items() if entry.task.__module__.startswith("regard.tasks.pretraining")
    } == set(TASK)


def test_a_row_in_pieces_on_a_cpu_has_the_gradients_of_the_whole_row():
    learner = made("causal-lm", "model.dropout=0", double=True)
    gradients, pieces = [], []
    for limit in (None, 40):
        learner.piece_tokens = limit
        learner.model.zero_grad()
        with MicroBatches(learner, torch.device("cpu"), torch.float32, seed=0) as rows:
            taken = rows.take([0])
            done = [rows.backward(piece, "model", 0) for piece in taken]
        pieces.append(taken)
        total = sum(step.weight for _, step in done)
        gradients.append([parameter.grad / total for parameter in learner.model.parameters()])
    assert [len(taken) > 1 for taken in pieces] == [False, True]
    assert all(len(piece.batch.tokens) <= 40 for piece in pieces[1])
    assert sum(len(piece.batch.tokens) for piece in pieces[1]) == len(pieces[0][0].batch.tokens)
    torch.testing.assert_close(*gradients)


def test_what_a_cpu_keeps_for_one_backward_pass_does_not_grow_with_the_model(monkeypatch):
    small = made("causal-lm")
    assert small.piece_tokens > small.recipe.data.context * small.recipe.data.batch_size
    monkeypatch.setattr(learning, "ACTIVATIONS", 1 << 14)
    width, deep = small.recipe.model.width, made("causal-lm", "model.depth=2")
    assert deep.piece_tokens == max(12, (1 << 14) // (learning.PER_FEATURE * width * 2))


@pytest.mark.parametrize("vocab", [8_000, 20_688, 32_000])
def test_beside_a_large_model_a_cpu_keeps_less_of_a_row(vocab):
    size = {"vocab": vocab, "context": 256}
    small = GPTConfig(width=256, heads=4, hidden=1024, depth=4, **size)
    large = GPTConfig(width=512, heads=8, hidden=2048, depth=8, **size)
    vast = GPTConfig(width=1024, heads=16, hidden=4096, depth=24, **size)
    assert learning.piece_tokens(small, 256) > 1024
    tokens = learning.piece_tokens(large, 256)
    kept = tokens * (learning.PER_FEATURE * large.width * large.depth + 3 * vocab)
    assert 4 * large.parameters + kept <= learning.STEP_NUMBERS or tokens == 256
    assert learning.piece_tokens(vast, 256) == 256, "a window is never cut"
