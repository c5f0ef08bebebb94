"""Recurrent cells keep their equations, their limits, and torch's company; padding changes nothing."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.models.parts.cells import CELLS, FUSED, GRU, LSTM, RNN, Fused, GRUBefore, Layers, StepwiseLayer

WIDTH, INPUTS = 5, 3
GATED = {"gru": GRU, "gru_before": GRUBefore}
HIGH = 40.0  # a sigmoid of it is 1 to the last bit of a float32


def forced(cell, *, reset, update):
    """The cell with its gates nailed to 0 or 1."""
    with torch.no_grad():
        for number, gate in enumerate((reset, update)):
            rows = slice(number * WIDTH, (number + 1) * WIDTH)
            for part in (cell.input, cell.state):
                part.weight[rows] = 0
                part.bias[rows] = HIGH if gate else -HIGH
    return cell


def plain(cell):
    """The simple cell with the weights that a gated one makes its new state from."""
    twin = RNN(INPUTS, WIDTH)
    with torch.no_grad():
        for mine, theirs in zip(twin.parameters(), cell.parameters(), strict=True):
            mine.copy_(theirs[2 * WIDTH :])
    return twin


@pytest.mark.parametrize("kind", GATED)
def test_a_gated_cell_that_updates_all_and_resets_nothing_is_the_simple_one(kind):
    cell = forced(GATED[kind](INPUTS, WIDTH), reset=1, update=1)
    x, state = torch.randn(4, INPUTS), torch.randn(4, 1, WIDTH)
    assert torch.allclose(cell(x, state), plain(cell)(x, state), atol=1e-6)


@pytest.mark.parametrize("kind", GATED)
@pytest.mark.parametrize("reset", [0, 1])
def test_a_gated_cell_that_updates_nothing_copies_its_state(kind, reset):
    cell = forced(GATED[kind](INPUTS, WIDTH), reset=reset, update=0)
    state = torch.randn(4, 1, WIDTH)
    assert torch.equal(cell(torch.randn(4, INPUTS), state), state)


@pytest.mark.parametrize("kind", GATED)
def test_a_gated_cell_that_updates_all_and_resets_all_forgets(kind):
    cell = forced(GATED[kind](INPUTS, WIDTH), reset=0, update=1)
    x = torch.randn(4, INPUTS)
    one, other = (cell(x, torch.randn(4, 1, WIDTH)) for _ in range(2))
    assert torch.equal(one, other)
    simple = plain(cell)
    if kind == "gru":  # the bias of the product is reset with it
        nn.init.zeros_(simple.state.bias)
    assert torch.allclose(one, simple(x, torch.zeros(4, 1, WIDTH)), atol=1e-6)


def test_resetting_before_and_after_the_product_are_two_things():
    before, after = GRUBefore(INPUTS, WIDTH), GRU(INPUTS, WIDTH)
    after.load_state_dict(before.state_dict())
    x, state = torch.randn(4, INPUTS), torch.randn(4, 1, WIDTH)
    assert not torch.allclose(before(x, state), after(x, state), atol=1e-3)
    for cell in (before, after):  # open, neither resets anything
        forced(cell, reset=1, update=0)
        cell.input.bias.data[WIDTH : 2 * WIDTH] = cell.state.bias.data[WIDTH : 2 * WIDTH] = 0.0
    assert torch.allclose(before(x, state), after(x, state), atol=1e-6)


def test_resetting_before_the_product_is_what_its_equation_says():
    cell = GRUBefore(INPUTS, WIDTH).double()
    x, h = torch.randn(INPUTS).double(), torch.randn(WIDTH).double()
    (w_r, w_u, w), (v_r, v_u, v) = (part.weight.split(WIDTH) for part in (cell.input, cell.state))
    b_r, b_u, b = (cell.input.bias + cell.state.bias).split(WIDTH)
    r = torch.sigmoid(w_r @ x + v_r @ h + b_r)
    u = torch.sigmoid(w_u @ x + v_u @ h + b_u)
    n = torch.tanh(w @ x + v @ (r * h) + b)
    assert torch.allclose(cell(x[None], h[None, None])[0, 0], u * n + (1 - u) * h)


def test_an_lstm_carries_the_cell_it_was_given():
    cell = LSTM(INPUTS, WIDTH)
    with torch.no_grad():
        for part in (cell.input, cell.state):
            part.weight.zero_()
            part.bias.copy_(torch.tensor([-HIGH, HIGH, 0.0, HIGH]).repeat_interleave(WIDTH))  # i, f, g, o
    h, c = torch.randn(4, WIDTH), torch.randn(4, WIDTH)
    shown, carried = cell(torch.randn(4, INPUTS), torch.stack([h, c], 1)).unbind(1)
    assert torch.equal(carried, c)
    assert torch.allclose(shown, torch.tanh(c), atol=1e-6)


@pytest.mark.parametrize("kind", FUSED)
def test_every_cell_is_torchs_own_with_its_weights_where_torch_has_one(kind):
    theirs = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](INPUTS, WIDTH)
    layer = Fused(kind, INPUTS, WIDTH)
    layer.whole.load_state_dict({f"{name}_l0": weight for name, weight in theirs.state_dict().items()})
    cell = layer.to_stepwise().cells[0]
    x, state = torch.randn(4, INPUTS), torch.randn(4, CELLS[kind].parts, WIDTH)
    given = tuple(state.unbind(1)) if kind == "lstm" else state[:, 0]
    answer = theirs(x, given)
    expected = torch.stack(answer, 1) if kind == "lstm" else answer[:, None]
    assert torch.allclose(cell(x, state), expected, atol=1e-6)


def test_the_gate_of_torch_says_how_much_stays_and_ours_how_much_is_new():
    layer = Fused("gru", INPUTS, WIDTH)
    with torch.no_grad():
        layer.whole.bias_ih_l0[WIDTH : 2 * WIDTH] = HIGH  # torch's z is 1: all of the old state stays
    [cell] = layer.to_stepwise().cells
    assert torch.equal(cell.input.bias[WIDTH : 2 * WIDTH], torch.full((WIDTH,), -HIGH))
    state = torch.randn(2, 1, WIDTH)
    assert torch.equal(cell(torch.randn(2, INPUTS), state), state)


SHAPES = list(itertools.product(CELLS, [False, True], [1, 2]))


def layers(kind, bidirectional, depth, **settings):
    return Layers(kind, INPUTS, WIDTH, depth=depth, bidirectional=bidirectional, **settings).double()


@pytest.mark.parametrize(("kind", "bidirectional", "depth"), [shape for shape in SHAPES if shape[0] in FUSED])
def test_fused_layers_and_written_ones_agree_in_outputs_states_and_gradients(kind, bidirectional, depth):
    fused = layers(kind, bidirectional, depth)
    written = fused.to_stepwise()
    assert {type(layer) for layer in written.layers} == {StepwiseLayer}
    x, lengths = torch.randn(4, 6, INPUTS).double(), torch.tensor([6, 2, 0, 4])
    first = torch.randn(4, fused.parts, WIDTH).double()
    found = []
    for some in (fused, written):
        given, begin = x.clone().requires_grad_(), first.clone().requires_grad_()
        seen, state = some(given, begin, lengths)
        (seen.sin().sum() + state.cos().sum()).backward()
        found.append((seen, state, given.grad, begin.grad))
    for mine, theirs in zip(*found, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-10)


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", FUSED)
def test_ragged_sequences_are_read_as_torch_reads_packed_ones(kind, bidirectional, blank, device):
    layer = Fused(kind, INPUTS, WIDTH, bidirectional=bidirectional).double().to(device)
    lengths, parts = torch.tensor([4, 6, 1, 2]), (1 + bidirectional) * (1 + (kind == "lstm"))
    shape = {"dtype": torch.float64, "device": device, "requires_grad": True}
    x, drawn = torch.randn(4, 6, INPUTS, **shape), torch.randn(4, parts, WIDTH, **shape)
    state = torch.zeros_like(drawn) if blank else drawn

    def packed():
        first = state.transpose(0, 1).contiguous()
        given = tuple(first.chunk(2)) if kind == "lstm" else first
        answer, last = layer.whole(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False), given)
        seen, _ = pad_packed_sequence(answer, batch_first=True, total_length=6)
        return seen, (torch.cat(last) if kind == "lstm" else last).transpose(0, 1)

    outcomes = []
    for seen, after in (packed(), layer(x, None if blank else state, lengths.to(device))):
        loss = (seen * torch.linspace(-1, 1, 6, device=device)[:, None]).sum() + after.square().sum()
        wanted = [x, *layer.parameters(), *([] if blank else [drawn])]
        outcomes.append([seen, after, *torch.autograd.grad(loss, wanted)])
    for expected, mine in zip(*outcomes, strict=True):
        assert torch.allclose(mine, expected, atol=1e-12)


@pytest.mark.parametrize("kind", FUSED)
def test_stacks_are_those_of_torch(kind):
    theirs = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](
        INPUTS, WIDTH, num_layers=2, bidirectional=True, batch_first=True
    )
    mine = Layers(kind, INPUTS, WIDTH, depth=2, bidirectional=True)
    for number, layer in enumerate(mine.layers):
        own = {name.replace("_l0", f"_l{number}"): weight for name, weight in layer.whole.named_parameters()}
        for name, weight in own.items():
            weight.data.copy_(getattr(theirs, name))
    x = torch.randn(2, 4, INPUTS)
    expected, last = theirs(x)
    seen, state = mine(x)
    assert torch.allclose(seen, expected, atol=1e-6)
    h = last[0] if kind == "lstm" else last
    assert torch.allclose(mine.last(state), torch.cat([h[-2], h[-1]], -1), atol=1e-6)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("padding", [9.0, 1e6])
@pytest.mark.parametrize(("kind", "bidirectional", "depth"), SHAPES)
def test_padding_and_company_change_nothing(kind, bidirectional, depth, padding, fused):
    some = layers(kind, bidirectional, depth, fused=fused)
    texts = [torch.randn(length, INPUTS).double() for length in (3, 5, 1)]
    batch = torch.full((4, 6, INPUTS), padding).double()
    for line, text in zip(batch, texts, strict=False):
        line[: len(text)] = text
    seen, state = some(batch, lengths=torch.tensor([3, 5, 1, 0]))
    for number, text in enumerate(texts):
        alone, end = some(text[None])
        assert torch.allclose(seen[number, : len(text)], alone[0], atol=1e-10)
        assert torch.allclose(state[number], end[0], atol=1e-10)
        assert seen[number, len(text) :].eq(0).all()
    assert state[3].eq(0).all()
    assert seen[3].eq(0).all()


@pytest.mark.parametrize("kind", CELLS)
def test_stepping_is_reading_at_once(kind):
    some = layers(kind, False, 2)
    x = torch.randn(2, 4, INPUTS).double()
    expected, end = some(x)
    state, seen = some.blank(x), []
    for place in range(4):
        shown, state = some.step(x[:, place], state)
        assert torch.allclose(some.last(state), shown)
        seen.append(shown)
    assert torch.allclose(torch.stack(seen, 1), expected, atol=1e-10)
    assert torch.allclose(state, end, atol=1e-10)


def test_beams_step_side_by_side():
    some = layers("lstm", False, 2)
    x, state = torch.randn(2, 3, INPUTS).double(), torch.randn(2, 3, some.parts, WIDTH).double()
    seen, after = some.step(x, state)
    for beam in range(3):
        alone, end = some.step(x[:, beam], state[:, beam])
        assert torch.allclose(seen[:, beam], alone)
        assert torch.allclose(after[:, beam], end)


@pytest.mark.parametrize("fused", [True, False])
def test_features_are_dropped_between_layers_in_training_only(fused):
    some = Layers("gru", INPUTS, WIDTH, depth=2, dropout=0.5, fused=fused)
    single = Layers("gru", INPUTS, WIDTH, dropout=0.5, fused=fused)
    x = torch.randn(2, 4, INPUTS)
    assert not torch.equal(some(x)[0], some(x)[0])
    assert torch.equal(single(x)[0], single(x)[0]), "nothing is dropped before the first layer or after the last"
    some.eval()
    assert torch.equal(some(x)[0], some(x)[0])


def test_nobody_and_nothing_are_read_without_complaint():
    some = Layers("gru", INPUTS, WIDTH)
    for shape in ((0, 4, INPUTS), (2, 0, INPUTS)):
        seen, state = some(torch.randn(shape), lengths=torch.zeros(shape[0], dtype=torch.int64))
        assert seen.shape == (*shape[:2], WIDTH)
        assert state.eq(0).all()


def test_writing_out_leaves_the_fused_layers_alone():
    fused = Layers("gru", INPUTS, WIDTH)
    before = copy.deepcopy(fused.state_dict())
    fused.to_stepwise()
    assert all(torch.equal(before[name], weight) for name, weight in fused.state_dict().items())
