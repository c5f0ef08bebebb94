"""MOMA against its equations in float64, DeePROG's attention against torch's; missing omics; both overfit a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.interpret.watch import watch
from regard.models.omics import MOMA, DeePROG, DeePROGConfig, MOMAConfig, hide_omics

SIZES = (6, 5, 4)
MODELS = {
    "moma": lambda **more: MOMA(MOMAConfig(inputs=SIZES, classes=3, modules=4, **more)),
    "deeprog": lambda **more: DeePROG(DeePROGConfig(inputs=SIZES, classes=3, width=8, heads=2, **more)),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(1)
    return MODELS[request.param]().eval()


def cohort(count: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    present = torch.ones(count, len(SIZES), dtype=torch.bool)
    present[2, 1] = present[3, 0] = present[3, 2] = False
    return torch.randn(count, sum(SIZES)), present


def by_hand(model: MOMA, x: np.ndarray, there: np.ndarray) -> list[np.ndarray]:
    """The equations of the paper for one sample, module by module, in double precision."""
    parts = np.split(x, np.cumsum(SIZES)[:-1])
    units = []
    for own, part in zip(model.maps, parts, strict=True):
        plane = (own.weight.detach().double().numpy() @ part).reshape(-1, 2)
        units.append(plane / np.linalg.norm(plane, axis=1, keepdims=True))
    answers = []
    for a, head in enumerate(model.heads):
        read = [units[a]] if model.config.own else []
        for b in range(len(SIZES)):
            if b != a and there[b]:
                scores = np.exp(units[b] @ units[a].T)
                read.append(scores / scores.sum(1, keepdims=True) @ units[a])
            elif b != a:
                read.append(np.zeros_like(units[a]))
        weight, bias = head.weight.detach().double().numpy(), head.bias.detach().double().numpy()
        answers.append(weight @ np.stack(read).reshape(-1) + bias)
    return answers


@pytest.mark.parametrize("own", [True, False])
def test_moma_is_what_its_equations_say(own: bool) -> None:
    torch.manual_seed(0)
    model = MODELS["moma"](own=own).eval()
    values, present = cohort()
    with torch.no_grad():
        found = model(values, present)
    for sample, there in enumerate(present.numpy()):
        expected = by_hand(model, values[sample].double().numpy(), there)
        for omic in np.flatnonzero(there):
            np.testing.assert_allclose(found.logits[sample, omic].numpy(), expected[omic], atol=2e-6)
    assert torch.equal(found.counted, present)


def test_watched_moma_answers_the_same_and_its_weights_are_softmaxed_cosines() -> None:
    torch.manual_seed(0)
    model, (values, present) = MODELS["moma"]().eval(), cohort()
    with torch.no_grad():
        plain = model(values, present).logits
        with watch(model) as seen:
            watched = model(values, present).logits
        vectors = F.normalize(model.vectors(values), dim=-1)
    assert torch.allclose(plain, watched, atol=1e-6)
    weights = seen["attention"][0].unflatten(1, (3, 4))  # (omics, looking omics, looking modules, modules)
    cosines = F.cosine_similarity(vectors[0, 2][:, None], vectors[0, 1][None], dim=-1)
    assert torch.allclose(weights[1, 2], cosines.softmax(-1), atol=1e-6)
    assert (seen["attention"][2].unflatten(1, (3, 4))[:, 1] == 0).all(), "a missing omic looks nowhere"


def test_attention_over_omics_is_that_of_torch_with_missing_ones_as_padding() -> None:
    torch.manual_seed(0)
    model, (values, present) = MODELS["deeprog"]().eval(), cohort()
    ours, theirs = model.attention, nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
        parts = values.split(SIZES, -1)
        x = torch.stack([own(part).tanh() for own, part in zip(model.encoders, parts, strict=True)], 1)
        mixed, weights = theirs(x, x, x, key_padding_mask=~present, average_attn_weights=False)
        h = x + mixed
        mean = torch.stack([row[there].mean(0) for row, there in zip(h, present, strict=True)])
        with watch(model) as seen:
            found = model(values, present)
    assert torch.allclose(found.logits[:, 0], model.output(mean), atol=1e-5)
    for own, other, there in zip(seen["attention"], weights, present, strict=True):
        assert torch.allclose(own[:, there], other[:, there], atol=1e-6)


def test_what_stands_in_a_missing_omic_changes_no_answer(model: nn.Module) -> None:
    values, present = cohort()
    other = values.clone()
    other[2, 6:11] = 100.0  # the second omic of sample 2, which has none
    other[3, :6] = -5.0
    with torch.no_grad():
        one, two = model(values, present).probabilities, model(other, present).probabilities
        full = model(values, torch.ones_like(present)).probabilities
    assert torch.equal(one, two)
    assert torch.allclose(one.sum(-1), torch.ones(len(one)))
    assert not torch.allclose(one[2], full[2])
    assert torch.allclose(one[0], full[0], atol=1e-6)


def test_gradients_stay_finite_when_omics_are_missing_or_all_features_are_zero(model: nn.Module) -> None:
    values, present = cohort()
    values[0] = 0.0
    model.train()
    model(values, present).loss(torch.zeros(7, dtype=torch.long)).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_answers_that_do_not_count_add_nothing_to_loss_or_probability() -> None:
    values, present = cohort()
    model = MODELS["moma"]().eval()
    found, targets = model(values, present), torch.arange(7) % 3
    each = F.cross_entropy(found.logits[3, 1][None], targets[3:4])
    assert torch.allclose(found.loss(targets)[3], each)
    assert torch.allclose(found.probabilities[3], found.logits[3, 1].softmax(-1))


def test_omics_are_hidden_as_often_as_asked_and_never_all() -> None:
    torch.manual_seed(0)
    present = torch.ones(4000, 3, dtype=torch.bool)
    present[:10, 1:] = False
    left = hide_omics(present, 0.3)
    assert left.any(-1).all()
    assert not (left & ~present).any()
    rate = 0.7 * (1 - 0.3**3) / (1 - 0.3**3) + 0.3**3  # a sample that would lose all keeps all
    assert float(left[10:].float().mean()) == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_omics_learns_a_batch_by_heart(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name](hide=0.0)
    values, present = torch.randn(16, sum(SIZES)), torch.ones(16, 3, dtype=torch.bool)
    targets = torch.arange(16) % 3
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(values, present).loss(targets).mean()
        loss.backward()
        optimizer.step()
    assert (model(values, present).probabilities.argmax(-1) == targets).all()
    assert float(loss.detach()) < 0.1


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted(name: str) -> None:
    for more in ({}, {"own": False}) if name == "moma" else ({},):
        model = MODELS[name](**more)
        assert model.config.parameters == sum(parameter.numel() for parameter in model.parameters())
