"""Gradient times input: equal to finite differences, and to embeddings differentiated by hand."""

from pathlib import Path

import pytest
import torch

import regard
from regard.interpret.measure import gradients
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.gradients import gradient_times_input, source_gradients
from tests.interpret.looking import TEXT, model

CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "format-1"
PAIR = "Le chat noir dort.", "The black cat sleeps."
STEP = 1e-6


@pytest.fixture(params=["transformer", "bahdanau", "luong_general"])
def reader(request: pytest.FixtureRequest) -> ForcedReader:
    trained = model(request.param)
    trained.model.double()
    return ForcedReader(trained)


def shifted_scores(reader: ForcedReader, read: list[int], written: list[int], shift: torch.Tensor) -> torch.Tensor:
    """The log-probability of each token written and of the end, with a shift of the vectors that are read."""
    teacher, shifts = reader.teacher, iter([shift])
    inputs, layouts = teacher.pack_pairs([read], [[teacher.begin, *written]])

    def move(_, __, vectors: torch.Tensor) -> torch.Tensor:
        change = next(shifts, None)  # only what is looked up first is read
        return vectors if change is None else vectors + change.reshape_as(vectors)

    handle = reader.model.embedding.register_forward_hook(move)
    with torch.no_grad():
        logits = reader.model.logits(reader.model(*inputs, layouts=layouts))
    handle.remove()
    return logits.log_softmax(-1)[range(len(written) + 1), [*written, teacher.end]]


def test_a_gradient_of_each_written_token_is_that_of_finite_differences(reader: ForcedReader):
    read, written = reader.encode(*PAIR)
    table, position = reader.model.embedding, 2
    vector = table.weight.detach()[read[position]] * getattr(table, "scale", 1.0)
    products = torch.zeros(len(written) + 1, len(vector), dtype=torch.float64)
    for feature in range(len(vector)):
        shift = torch.zeros(len(read), len(vector), dtype=torch.float64)
        shift[position, feature] = STEP
        rise = shifted_scores(reader, read, written, shift) - shifted_scores(reader, read, written, -shift)
        products[:, feature] = rise / (2 * STEP) * vector[feature]
    raw = raw_gradients(reader, read, written)
    torch.testing.assert_close(raw[:, position], products.norm(dim=-1), rtol=1e-5, atol=1e-8)


def raw_gradients(reader: ForcedReader, read: list[int], written: list[int]) -> torch.Tensor:
    """The norms of gradient times input, one written token after the other, without shares."""
    rows = []
    teacher = reader.teacher
    inputs, layouts = teacher.pack_pairs([read], [[teacher.begin, *written]])
    for place, label in enumerate([*written, teacher.end]):

        def run(place: int = place, label: int = label) -> torch.Tensor:
            logits = reader.model.logits(reader.model(*inputs, layouts=layouts)[place])
            return logits.log_softmax(-1)[label]

        rows.append(gradient_times_input(reader.model.embedding, inputs[0], run))
    return torch.stack(rows)


def test_many_rows_at_once_are_the_shares_of_rows_one_by_one(reader: ForcedReader, monkeypatch: pytest.MonkeyPatch):
    read, written = reader.encode(*PAIR)
    raw = raw_gradients(reader, read, written)
    shares = (raw / raw.sum(-1, keepdim=True)).float()
    torch.testing.assert_close(source_gradients(reader, read, written), shares, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(gradients, "ROOM", 2 * len(read))  # in several passes
    torch.testing.assert_close(source_gradients(reader, read, written), shares, rtol=1e-4, atol=1e-6)


def test_positions_count_as_constants_and_weights_keep_no_gradient():
    reader = ForcedReader(regard.load(CHECKPOINT, device="cpu"))
    read, written = reader.encode(*PAIR)
    source_gradients(reader, read, written)
    assert all(weight.grad is None for weight in reader.model.parameters())
    with torch.no_grad():
        reader.model.embedding.weight[read[1]] = 0.0  # a token without features; its position stays
    assert source_gradients(reader, read, written)[:, 1].max() == 0.0


def test_a_label_of_a_linear_model_has_the_gradient_computed_by_hand():
    table = torch.nn.Embedding(5, 3)
    output = torch.nn.Linear(3, 2)
    tokens = torch.tensor([4, 1, 1])
    result = gradient_times_input(table, tokens, lambda: output(table(tokens).mean(0))[1:])
    expected = (table.weight[tokens] * output.weight[1] / 3).norm(dim=-1)
    torch.testing.assert_close(result, expected.detach())


@pytest.mark.parametrize("kind", ["mean", "class", "pooled recurrent", "tagger"])
def test_the_words_of_a_label_weigh_as_in_one_gradient_after_the_other(kind: str):
    labeller = model(kind)
    text = labeller.label_text(TEXT)
    weights = labeller._weigh_gradients(text)
    assert weights.shape == (len(text.labels), len(text.encoded.tokens))
    inputs = labeller._model_inputs([text.encoded])
    for row, place, label in zip(weights, text.rows, text.labels, strict=True):

        def run(place: int = place, label: int = label) -> torch.Tensor:
            return labeller.model(*inputs).log_softmax(-1)[place, label]

        norms = gradient_times_input(labeller.model.embedding, inputs[0], run)
        torch.testing.assert_close(row, norms / norms.sum(), rtol=1e-4, atol=1e-6)
