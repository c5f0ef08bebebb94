"""A Neural Turing Machine addresses its memory by content and by location, as its equations say."""

import numpy as np
import pytest
import torch

from regard.interpret.watch import watch
from regard.models.ntm import NTM, NTMConfig, by_content, interpolate, sharpen, shift_weights, write
from regard.models.per_step import PerStepConfig, RecurrentPerStep

SIZES = {"inputs": 3, "outputs": 2, "width": 6, "places": 7, "depth": 4}
KINDS = [
    {"controller": "lstm", "reads": 1, "writes": 1, "shifts": 1},
    {"controller": "lstm", "reads": 2, "writes": 3, "shifts": 2},
    {"controller": "feedforward", "reads": 2, "writes": 1, "shifts": 0},
]


def machine(**settings):
    """A machine in double precision whose heads are not all alike."""
    torch.manual_seed(0)
    model = NTM(NTMConfig(**{**SIZES, **settings})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def looks(*shape):
    return torch.randn(*shape, dtype=torch.float64).softmax(-1)


def test_a_boundless_strength_looks_up_the_nearest_place_alone():
    memory = torch.randn(2, 9, 5)
    wanted = torch.tensor([[3, 0], [8, 4]])
    key = memory.gather(1, wanted[..., None].expand(-1, -1, 5)) * torch.tensor([0.1, 7.0])[None, :, None]
    found = by_content(key, torch.full((2, 2, 1), 1e6), memory)
    assert torch.equal(found, torch.nn.functional.one_hot(wanted, 9).float()), "length does not matter, direction does"


def test_no_strength_looks_everywhere_alike():
    found = by_content(torch.randn(2, 1, 5), torch.zeros(2, 1, 1), torch.randn(2, 8, 5))
    assert torch.equal(found, torch.full((2, 1, 8), 1 / 8))


def test_a_shut_gate_keeps_the_last_weights_and_an_open_one_takes_the_new():
    found, last = looks(3, 2, 7), looks(3, 2, 7)
    gate = torch.zeros(3, 2, 1, dtype=torch.float64)
    assert torch.equal(interpolate(found, last, gate), last)
    assert torch.equal(interpolate(found, last, gate + 1), found)


@pytest.mark.parametrize(("shift", "by"), [((1, 0, 0), -1), ((0, 1, 0), 0), ((0, 0, 1), 1), ((0, 0, 0, 0, 1), 2)])
def test_a_shift_moves_weights_by_exactly_so_many_places_round_the_memory(shift, by):
    weights = looks(2, 3, 7)
    kernel = torch.tensor(shift, dtype=torch.float64).expand(2, 3, -1)
    assert torch.equal(shift_weights(weights, kernel), weights.roll(by, -1))


def test_sharpening_is_a_power_that_never_divides_zero_by_zero():
    weights, power = looks(4, 9), 1 + 5 * torch.rand(4, 1, dtype=torch.float64)
    raised = weights**power
    torch.testing.assert_close(sharpen(weights, power), raised / raised.sum(-1, keepdim=True))
    even = torch.full((1, 128), 1 / 128, requires_grad=True)
    sharp = sharpen(even, torch.full((1, 1), 60.0))  # (1 / 128) ** 60 is zero in single precision
    torch.testing.assert_close(sharp, even)
    one = torch.nn.functional.one_hot(torch.tensor([2]), 9).float().requires_grad_()
    sharpen(one, torch.ones(1, 1))[0, 2].backward()
    assert one.grad.isfinite().all()


def test_a_head_that_erases_all_and_adds_replaces_one_vector():
    memory, new = torch.randn(1, 5, 3), torch.randn(1, 1, 3)
    where = torch.nn.functional.one_hot(torch.tensor([[2]]), 5).float()
    after = write(memory, where, torch.ones(1, 1, 3), new)
    assert torch.equal(after[:, 2], new[:, 0])
    assert torch.equal(after[:, [0, 1, 3, 4]], memory[:, [0, 1, 3, 4]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def in_numpy(model, x, state):
    """One step of one example by the equations of the paper, head after head."""
    cfg = model.config
    w = {name: value.numpy() for name, value in model.step.state_dict().items()}
    hidden, read, weights, memory = (part[0].numpy() for part in state)
    given = np.concatenate([x, read])
    if cfg.controller == "lstm":
        h, c = hidden
        gates = w["controller.input.weight"] @ given + w["controller.input.bias"]
        i, f, g, o = np.split(gates + w["controller.state.weight"] @ h + w["controller.state.bias"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    else:
        h = np.tanh(w["controller.weight"] @ given + w["controller.bias"])
    told = (w["address.weight"] @ h + w["address.bias"]).reshape(cfg.reads + cfg.writes, -1)
    where = np.zeros_like(weights)
    for head, (numbers, last) in enumerate(zip(told, weights, strict=True)):
        key = np.tanh(numbers[: cfg.depth])
        strength, power, gate = numbers[cfg.depth : cfg.depth + 3]
        shift = softmax(numbers[cfg.depth + 3 :])
        likeness = [key @ row / np.linalg.norm(key) / np.linalg.norm(row) for row in memory]
        content = softmax(np.log1p(np.exp(strength)) * np.array(likeness))
        gated = sigmoid(gate) * content + (1 - sigmoid(gate)) * last
        moved = [
            sum(gated[(i - j) % cfg.places] * shift[j + cfg.shifts] for j in range(-cfg.shifts, cfg.shifts + 1))
            for i in range(cfg.places)
        ]
        raised = np.array(moved) ** (1 + np.log1p(np.exp(power)))
        where[head] = raised / raised.sum()
    change = (w["change.weight"] @ h + w["change.bias"]).reshape(cfg.writes, 2, cfg.depth)
    for at, (erase, _) in zip(where[cfg.reads :], change, strict=True):
        memory = memory * (1 - np.outer(at, sigmoid(erase)))
    for at, (_, add) in zip(where[cfg.reads :], change, strict=True):
        memory = memory + np.outer(at, add)
    return np.concatenate([h, (where[: cfg.reads] @ memory).ravel()]), where, memory


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_step_is_what_the_equations_say(kind):
    model = machine(**kind)
    state = model.step.start(2)
    for x in torch.randn(3, 2, 3, dtype=torch.float64):
        before = state
        shown, state = model.step(x, before)
        ours, where, memory = in_numpy(model, x[0].numpy(), before)
        np.testing.assert_allclose(shown[0].numpy(), ours, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.weights[0].numpy(), where, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.memory[0].numpy(), memory, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_gradients_are_those_of_finite_differences(kind):
    model = machine(**kind, width=3, places=5, depth=2)
    x = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    names, weights = zip(*model.named_parameters(), strict=True)

    def answer(x, *weights):
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), x)

    assert torch.autograd.gradcheck(answer, (x, *weights), fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_watched_sum_to_one_and_an_edit_of_them_counts(kind):
    model = machine(**kind).eval()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    with watch(model) as seen, torch.no_grad():
        watched = model(x)
    assert torch.equal(watched, model(x))
    for name, heads in (("step.read", kind["reads"]), ("step.write", kind["writes"])):
        assert [tuple(each.shape) for each in seen[name]] == [(heads, 5, 7)] * 2
        for each in seen[name]:
            torch.testing.assert_close(each.sum(-1), torch.ones(heads, 5, dtype=torch.float64))
    handle = model.step.read.weights.register_forward_hook(lambda _, given, weights: torch.zeros_like(weights))
    blind = model(x)
    handle.remove()
    assert not torch.allclose(blind, watched)


def test_the_future_and_other_sequences_change_nothing():
    model = machine().eval()
    x = torch.randn(3, 6, 3, dtype=torch.float64)
    whole = model(x)
    torch.testing.assert_close(model(x[:, :4]), whole[:, :4])
    torch.testing.assert_close(model(x[1:2]), whole[1:2])


def test_half_precision_around_it_changes_nothing():
    model = NTM(NTMConfig(**SIZES)).eval()
    x = torch.randn(2, 4, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(model(x), model.float()(x))
    assert model(x).dtype == torch.float32


def test_more_shifts_than_places_are_refused():
    with pytest.raises(ValueError, match=r"shifts of up to 2 either way are 5, and the memory has 4 places: lower"):
        NTMConfig(places=4, shifts=2)


def test_a_recurrent_network_answers_at_every_step():
    model = RecurrentPerStep(PerStepConfig(inputs=3, outputs=2, width=4, depth=2))
    assert model(torch.randn(2, 5, 3)).shape == (2, 5, 2)
