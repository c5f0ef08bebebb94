"""Pictures are varied as their places say, whatever the batch; what is switched off changes nothing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import config
from regard.data.images.augmentation import OPERATIONS, Augment, AugmentConfig, apply_colour_operation, swap_neighbours
from regard.data.images.seeded_random import Draws, beta_quantiles

EVERYTHING = AugmentConfig(
    shift=0.125, scale=0.5, flip=True, operations=2, magnitude=0.5, mixup=0.4, cutmix=1.0, mixed=0.9, erase=0.3
)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


def made(how: AugmentConfig, seed: int = 1, channels: int = 3) -> Augment:
    return Augment(how, mean=MEAN[:channels], std=STD[:channels], seed=seed)


def pictures(count: int = 24, size: int = 12, channels: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8, generator=generator)
    return pixels, torch.arange(count) % 10, torch.arange(count) + 2 * 10**10


def smooth(count: int = 8, size: int = 16) -> torch.Tensor:
    """Pictures on which half a pixel makes little difference."""
    rows, columns = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    waves = [0.5 + 0.4 * torch.sin(3 * columns + n) * torch.cos(2 * rows) for n in range(3 * count)]
    return (torch.stack(waves).unflatten(0, (count, 3)) * 255).round().byte()


@pytest.mark.parametrize("sizes", [(24,), (2, 22), (8, 8, 8), (10, 4, 10)])
def test_a_place_has_the_same_pixels_in_any_batch(sizes: tuple[int, ...]) -> None:
    augment = made(EVERYTHING)
    pixels, labels, places = pictures()
    whole = augment(pixels, labels, places)
    parts = [
        augment(*part) for part in zip(*(each.split(list(sizes)) for each in (pixels, labels, places)), strict=True)
    ]
    for name in ("pixels", "labels", "others", "share"):
        assert torch.equal(getattr(whole, name), torch.cat([getattr(part, name) for part in parts])), name


def test_another_place_or_seed_gives_other_pixels() -> None:
    pixels, labels, places = pictures()
    one = made(EVERYTHING)(pixels, labels, places).pixels
    assert not torch.allclose(one, made(EVERYTHING)(pixels, labels, places + 24).pixels)
    assert not torch.allclose(one, made(EVERYTHING, seed=2)(pixels, labels, places).pixels)
    assert not torch.allclose(one, made(EVERYTHING)(pixels, labels, places + 2**32).pixels), "high bits count too"


def test_nothing_asked_for_is_nothing_done() -> None:
    augment = made(AugmentConfig())
    pixels, labels, places = pictures()
    shown = augment(pixels, labels, places)
    mean, std = (np.array(each)[:, None, None] for each in (MEAN, STD))
    assert np.allclose(shown.pixels.numpy(), (pixels.numpy() / 255 - mean) / std, atol=1e-6)
    assert torch.equal(shown.share, torch.ones(24))
    assert torch.equal(shown.others, labels)


def test_randaugment_of_no_magnitude_is_the_identity() -> None:
    pixels, labels, places = pictures()
    still = made(AugmentConfig(operations=3, magnitude=0.0))
    assert torch.equal(still(pixels, labels, places).pixels, still.plain(pixels))
    x = pixels.float() / 255
    for number in range(len(OPERATIONS)):
        chosen = torch.full((24,), number)
        assert torch.allclose(apply_colour_operation(x, chosen, torch.zeros(24)), x, atol=1e-6), OPERATIONS[number]


def test_flips_flip_half_of_the_pictures() -> None:
    pixels, _, _ = pictures(400, 8)
    augment = made(AugmentConfig(flip=True))
    shown = augment(pixels, torch.zeros(400, dtype=torch.long), torch.arange(400)).pixels
    plain = augment.plain(pixels)
    same = (shown - plain).abs().amax((1, 2, 3)) < 1e-4
    turned = (shown - plain.flip(-1)).abs().amax((1, 2, 3)) < 1e-4
    assert torch.equal(same, ~turned)
    assert 160 < int(same.sum()) < 240


def test_a_shift_is_a_crop_of_the_mirrored_picture_by_whole_pixels() -> None:
    pixels, labels, places = pictures(200, 8, 1)
    augment = made(AugmentConfig(shift=0.25), channels=1)
    shown, plain = augment(pixels, labels, places).pixels, augment.plain(pixels)
    wide = torch.from_numpy(np.pad(plain.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="symmetric"))
    met = set()
    for number in range(200):
        fits = [
            (row, column)
            for row, column in itertools.product(range(5), range(5))
            if torch.allclose(wide[number, :, row : row + 8, column : column + 8], shown[number], atol=1e-3)
        ]
        assert len(fits) == 1
        met.update(fits)
    assert len(met) == 25, "every shift occurs"


def test_a_resized_crop_shows_part_of_the_picture_enlarged() -> None:
    ramp = torch.linspace(0, 255, 32).round().byte().expand(64, 3, 32, 32)
    shown = made(AugmentConfig(scale=0.25))(ramp, torch.zeros(64, dtype=torch.long), torch.arange(64)).pixels
    shares = (shown[:, 0, 0, -1] - shown[:, 0, 0, 0]) * STD[0]
    assert (shares > 0.4).all()
    assert (shares <= 1.01).all()
    assert 0.65 < float(shares.mean()) < 0.9


def test_mixup_mixes_labels_as_it_mixes_pixels() -> None:
    pixels, labels, places = pictures()
    augment = made(AugmentConfig(mixup=1.0))
    shown, plain = augment(pixels, labels, places), augment.plain(pixels)
    share = shown.share[:, None, None, None]
    assert torch.allclose(shown.pixels, share * plain + (1 - share) * swap_neighbours(plain), atol=1e-5)
    assert shown.others.tolist() == [int(label) for label in labels.view(-1, 2).flip(1).flatten()]
    assert len(set(shown.share.tolist())) == 24


def test_cutmix_takes_a_rectangle_and_its_share_of_the_label() -> None:
    pixels = torch.zeros(64, 3, 16, 16, dtype=torch.uint8)
    pixels[1::2] = 255
    shown = made(AugmentConfig(cutmix=1.0))(pixels, torch.arange(64), torch.arange(64))
    bright = (shown.pixels > made(AugmentConfig()).plain(pixels[:2]).mean()).float().mean((1, 2, 3))
    own = torch.where(torch.arange(64) % 2 == 1, bright, 1 - bright)
    assert torch.allclose(own, shown.share, atol=1e-6)
    assert float(shown.share.min()) < 0.4
    assert float(shown.share.max()) > 0.9


def test_only_the_share_asked_for_is_mixed_or_erased() -> None:
    pixels, _, _ = pictures(2000, 8)
    places, labels = torch.arange(2000), torch.zeros(2000, dtype=torch.long)
    share = made(AugmentConfig(mixup=1.0, cutmix=1.0, mixed=0.5))(pixels, labels, places).share
    assert 0.4 < float((share < 1).float().mean()) < 0.6
    augment = made(AugmentConfig(erase=0.25))
    blank = (augment(pixels, labels, places).pixels == 0).float().mean((1, 2, 3))
    assert 0.2 < float((blank > 0.01).float().mean()) < 0.3
    assert float(blank.max()) < 0.45


def test_every_operation_does_something_and_stays_within_the_shades() -> None:
    x = smooth() / 255.0
    for number, name in enumerate(OPERATIONS):
        found = apply_colour_operation(x, torch.full((8,), number), torch.full((8,), 0.8))
        changed = name in OPERATIONS[6:]
        assert torch.equal(found, x) != changed, name
        assert float(found.min()) >= 0, name
        assert float(found.max()) <= 1, name


def test_gentle_geometry_moves_a_smooth_picture_only_a_little() -> None:
    pixels = smooth()
    augment = made(AugmentConfig(operations=2, magnitude=0.02))
    shown = augment(pixels, torch.zeros(8, dtype=torch.long), torch.arange(8)).pixels
    assert float((shown - augment.plain(pixels)).abs().mean()) < 0.1


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 3.0])
def test_shares_are_drawn_from_beta(alpha: float) -> None:
    drawn = Draws(0, torch.arange(20_000)).beta(torch.from_numpy(beta_quantiles(alpha)))
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) <= 1
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(drawn.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.05)


def test_draws_are_even_and_do_not_follow_one_another() -> None:
    draws = Draws(7, torch.arange(50_000))
    columns = torch.stack([draws.uniform() for _ in range(4)])
    assert torch.allclose(columns.mean(1), torch.tensor(0.5), atol=0.01)
    assert torch.allclose(columns.var(1), torch.tensor(1 / 12), atol=0.005)
    lagged = torch.stack([*columns, columns[0].roll(1), columns[0].roll(2)])
    assert float((torch.corrcoef(lagged) - torch.eye(6)).abs().max()) < 0.02
    counts = torch.bincount(draws.whole(13), minlength=13)
    assert int(counts.min()) > 0.9 * 50_000 / 13


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"scale": 0}, {"magnitude": 1.5}, {"mixup": -1}, {"operations": 99}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            config.build(AugmentConfig, wrong)
    assert replace(AugmentConfig(), mixup=1.0).mixes
