"""SAGAN by the numbers: spectral norms, class-conditional norms, attention, losses, sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from regard.models.parts import batch_norm, spectral_norm
from regard.models.parts.batch_norm import ClassNorm
from regard.models.parts.spectral_norm import SpectralNorm, add_spectral_norm, spectra
from regard.models.sagan import SAGAN, Attention, SAGANConfig, flattery, freeze_weights, hinge

SMALL = SAGANConfig(classes=3, size=8, noise=4, widths=(16, 8, 8))
NO, YES = torch.tensor(False), torch.tensor(True)


def convolution() -> nn.Conv2d:
    """One with a spectral norm, in double precision."""
    torch.manual_seed(1)
    own = nn.Conv2d(3, 5, 3).double()
    add_spectral_norm(own)
    return own.double()


def only(module: nn.Module) -> SpectralNorm:
    [norm] = spectra(module)
    return norm


def weight_of(module: nn.Module) -> torch.Tensor:
    return module.parametrizations.weight.original  # type: ignore[union-attr, return-value]


def test_the_norm_settles_at_the_largest_singular_value_that_numpy_finds():
    module = convolution()
    for _ in range(300):
        spectral_norm.forget(spectra(module))
        _ = module.weight
        spectral_norm.settle(spectra(module), veto=NO)
    largest = np.linalg.svd(weight_of(module).detach().flatten(1).numpy(), compute_uv=False)[0]
    sigma = (weight_of(module) / module.weight).detach().numpy()
    np.testing.assert_allclose(sigma, largest, rtol=1e-9)
    assert np.linalg.svd(module.weight.detach().flatten(1).numpy(), compute_uv=False)[0] == pytest.approx(1, rel=1e-9)


def test_one_step_is_that_of_torch_with_its_gradient():
    ours, theirs = convolution(), nn.Conv2d(3, 5, 3).double()
    with torch.no_grad():
        theirs.weight.copy_(weight_of(ours))
        theirs.bias.copy_(ours.bias)  # type: ignore[union-attr, arg-type]
    parametrizations.spectral_norm(theirs)
    known = theirs.parametrizations.weight[0]  # type: ignore[union-attr, index]
    with torch.no_grad():
        known._u.copy_(only(ours).left)
        known._v.copy_(only(ours).right)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    spectral_norm.forget(spectra(ours))
    answers = [each(x) for each in (ours, theirs)]
    for answer in answers:
        answer.square().sum().backward()
    spectral_norm.settle(spectra(ours), veto=NO)
    torch.testing.assert_close(*answers)
    torch.testing.assert_close(weight_of(ours).grad, weight_of(theirs).grad)
    torch.testing.assert_close(only(ours).left, known._u)
    torch.testing.assert_close(only(ours).right, known._v)
    for each in (ours, theirs):
        each.eval()
    torch.testing.assert_close(ours(x), theirs(x))


def test_vetoed_frozen_and_ungraded_rounds_leave_no_trace():
    module = convolution()
    before = only(module).left.clone()
    spectral_norm.forget(spectra(module))
    first = module.weight
    assert torch.equal(first, module.weight), "all rows of a step use the same weights"
    spectral_norm.settle(spectra(module), veto=YES)
    assert torch.equal(only(module).left, before)
    spectral_norm.forget(spectra(module))
    with torch.no_grad():
        _ = module.weight
    with freeze_weights(module):
        _ = module.weight
    spectral_norm.settle(spectra(module), veto=NO)
    assert torch.equal(only(module).left, before)
    spectral_norm.forget(spectra(module))
    _ = module.weight
    spectral_norm.settle(spectra(module), veto=NO)
    assert not torch.equal(only(module).left, before)


def test_a_class_norm_is_batch_normalisation_with_the_scale_of_each_class():
    norm, known = ClassNorm(4, 3).double(), nn.BatchNorm2d(4).double()
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    x, labels = torch.randn(6, 4, 5, 5, dtype=torch.float64), torch.tensor([0, 2, 1, 1, 0, 2])
    answer = norm(x, labels)
    batch_norm.settle([norm], veto=NO)
    with torch.no_grad():
        plain = known(x)
        each = norm.weight[labels][:, :, None, None] * plain + norm.bias[labels][:, :, None, None]
    torch.testing.assert_close(answer, each)
    torch.testing.assert_close(norm.running_mean, known.running_mean)
    torch.testing.assert_close(norm.running_var, known.running_var)
    with torch.no_grad():  # one class alone is plain batch normalisation with its weights
        known.weight.copy_(norm.weight[1])
        known.bias.copy_(norm.bias[1])
    for one in (norm, known):
        one.eval()
    torch.testing.assert_close(norm(x, torch.ones(6, dtype=torch.int64)), known(x))


def test_a_norm_that_runs_without_gradients_remembers_nothing():
    norm = ClassNorm(4, 3)
    with torch.no_grad():
        norm(torch.randn(6, 4, 5, 5), torch.zeros(6, dtype=torch.int64))
    assert not norm.seen.any()
    norm(torch.randn(6, 4, 5, 5), torch.zeros(6, dtype=torch.int64))
    assert norm.seen.any()


def test_a_gain_of_zero_is_no_attention():
    torch.manual_seed(0)
    whole = SAGAN(SMALL)
    plain = SAGAN(SAGANConfig(classes=3, size=8, noise=4, widths=(16, 8, 8), attention=False))
    lacking = plain.load_state_dict({k: v for k, v in whole.state_dict().items() if ".attention." not in k})
    assert not lacking.missing_keys
    noise, labels = torch.randn(4, 4), torch.tensor([0, 1, 2, 0])
    assert torch.equal(whole(noise, labels), plain(noise, labels))
    assert torch.equal(whole.judge(plain(noise, labels), labels), plain.judge(plain(noise, labels), labels))
    with torch.no_grad():
        whole.generator.attention.gain.fill_(0.5)  # type: ignore[union-attr]
    assert not torch.allclose(whole(noise, labels), plain(noise, labels))


def test_attention_is_what_numpy_computes():
    torch.manual_seed(2)
    module = Attention(16).double()
    with torch.no_grad():
        module.gain.fill_(0.7)
    x = torch.randn(2, 16, 3, 4, dtype=torch.float64)
    inner = module.attention
    names = (inner.query, inner.key, inner.value, inner.output)
    q, k, v, o = (each.weight.detach().numpy() for each in names)
    assert (len(q), len(k), len(v)) == (2, 2, 8), "an eighth for queries and keys, half for values"
    for one, answer in zip(x.numpy(), module(x).detach().numpy(), strict=True):
        places = one.reshape(16, 12).T
        scores = (places @ q.T) @ (places @ k.T).T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        mixed = weights @ (places @ v.T) @ o.T
        np.testing.assert_allclose(answer, one + 0.7 * mixed.T.reshape(16, 3, 4), rtol=1e-10)


def test_losses_by_hand():
    real, made = torch.tensor([2.0, 0.5, -1.0]), torch.tensor([-2.0, 0.5, -0.25])
    assert hinge(real, made) == (0 + 0.5 + 2.0) + (0 + 1.5 + 0.75)
    assert flattery(made) == 2.0 - 0.5 + 0.25


@pytest.mark.parametrize(
    ("size", "channels", "maps", "attended"),
    [(28, 1, [(256, 7), (128, 14), (128, 28)], 14), (32, 3, [(256, 8), (128, 16), (128, 32)], 16)],
)
def test_the_maps_double_and_attention_looks_over_the_middle_one(size, channels, maps, attended):
    model, seen = SAGAN(SAGANConfig(classes=10, size=size, channels=channels)).eval(), []
    generator = model.generator
    for block in generator.blocks:
        block.register_forward_hook(lambda _, given, answer: seen.extend([given[0].shape[1:], answer.shape[1:]]))
    for part in (generator, model.discriminator):
        part.attention.register_forward_hook(lambda _, given, answer: seen.append(tuple(given[0].shape[2:])))
    with torch.no_grad():
        picture = model(torch.randn(1, 128), torch.tensor([3]))
        judged = model.judge(picture, torch.tensor([3]))
    *shapes, looked = seen
    assert looked == (attended, attended)
    assert (attended, attended) in shapes
    told = [tuple(shape) for shape in shapes if len(shape) == 3]
    assert [told[0], told[1], told[3]] == [(width, side, side) for width, side in maps]
    assert tuple(picture.shape) == (1, channels, size, size)
    assert judged.shape == (1,)
    assert model.config.grid == (attended, attended)


def test_sizes_that_cannot_be_are_refused_in_a_line():
    with pytest.raises(ValueError, match=r"pictures of 30 x 30 cannot be doubled to from 3 maps: .*\(3[02]|28\)"):
        SAGANConfig(classes=2, size=30)
    with pytest.raises(ValueError, match="widths has 1 maps"):
        SAGANConfig(classes=2, size=8, widths=(8,))
    with pytest.raises(ValueError, match="attention over 4 features"):
        SAGANConfig(classes=2, size=8, widths=(8, 4, 8))
    model = SAGAN(SMALL)
    with pytest.raises(ValueError, match="pictures of 3 x 8 x 8, and the model reads 1 x 8 x 8"):
        model.judge(torch.zeros(1, 3, 8, 8), torch.tensor([0]))
