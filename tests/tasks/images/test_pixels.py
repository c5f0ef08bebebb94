"""Pictures as tokens and back, tables to beat, completions, bits per dimension, and what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import checkpoint, recipe
from regard.cli import run
from regard.tasks.pixels import baselines, dataset, image_grid
from regard.tasks.pixels.task import image_layout, nats_per_image
from regard.tasks.pixels.tokenizer import PixelTokenizer, fit_palette, nearest_colours

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

GREY, COLOUR = PixelTokenizer(4, 1), PixelTokenizer(3, 3)
BRIEF = {"steps": 2, "device": "cpu", "tensorboard": False, "threads": 1}
SMALL = {"width": 8, "heads": 2, "hidden": 16, "depth": 1}


def drawn(count: int, size: int, channels: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8, generator=_chance(seed))


def _chance(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_picture_comes_back_from_its_tokens_row_by_row_and_red_green_blue():
    for tokenizer in (GREY, COLOUR):
        pixels = drawn(2, tokenizer.size, tokenizer.channels)
        tokens = tokenizer.encode(pixels)
        assert tokens.shape == (2, tokenizer.length)
        assert torch.equal(tokenizer.decode(tokens), pixels)
    assert tokens[1, 3 * 3 * 2 + 3 * 1 + 2] == pixels[1, 2, 2, 1], "row 2, column 1, blue"
    assert GREY.shift_right(torch.arange(16)[None]).tolist() == [[256, *range(15)]]


def test_the_nearest_colour_is_that_of_float64_and_a_palette_loses_what_lies_between():
    pixels, palette = drawn(2, 5, 3), drawn(1, 4, 3, 1).flatten(2)[0].T
    tokenizer = PixelTokenizer(5, 3, palette)
    apart = pixels.permute(0, 2, 3, 1).flatten(1, 2).numpy()[:, :, None].astype(float) - palette.numpy()
    assert torch.equal(tokenizer.encode(pixels), torch.from_numpy((apart**2).sum(-1).argmin(-1)))
    assert (tokenizer.length, tokenizer.vocab, tokenizer.unit.key) == (25, 17, "bits_per_colour")
    again = tokenizer.decode(tokenizer.encode(pixels))
    assert torch.equal(tokenizer.encode(again), tokenizer.encode(pixels))


def test_k_means_finds_heaps_of_colours_and_leaves_no_colour_idle():
    middles = torch.tensor([[20, 30, 200], [200, 40, 30], [30, 220, 60], [128, 128, 128]])
    noise = torch.randint(-6, 7, (4, 200, 3), generator=_chance(0))
    points = (middles[:, None] + noise).flatten(0, 1).to(torch.uint8)
    for seed in range(4):
        palette = fit_palette(points, 4, seed=seed)
        own = nearest_colours(points, palette)
        assert len(own.unique()) == 4
        means = torch.stack([points[own == number].double().mean(0) for number in range(4)])
        assert (palette.double() - means).abs().max() <= 1, "each is the mean of its own, rounded"
    assert torch.equal(fit_palette(points, 4), fit_palette(points, 4))
    with pytest.raises(ValueError, match=r"1 different colours: set data\.colours to no more, or null"):
        fit_palette(points[:1], 2)


def test_tables_are_counted_as_one_would_by_hand():
    tokenizer = PixelTokenizer(2, 1, torch.tensor([[0], [255]], dtype=torch.uint8))
    pictures = torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0]])
    tables = baselines.count_tables(tokenizer, iter([pictures[:2], pictures[2:]]))
    assert torch.allclose(tables[baselines.HISTOGRAM].exp()[0], torch.tensor([2.5, 1.5], dtype=torch.float64) / 4)
    assert torch.allclose(tables[baselines.LEFT_NEIGHBOUR].exp()[0], torch.tensor([2.5, 2.5], dtype=torch.float64) / 5)
    assert torch.allclose(tables[baselines.LEFT_NEIGHBOUR].exp()[2], torch.tensor([4.5, 2.5], dtype=torch.float64) / 7)
    found = baselines.bits_per_image(tokenizer, tables, torch.tensor([[0, 1, 0, 0]]))
    by_hand = -sum(math.log2(p) for p in (2.5 / 4, 3.5 / 4, 2.5 / 4, 3.5 / 4))
    assert math.isclose(float(found[baselines.HISTOGRAM]), by_hand)
    by_hand = -sum(math.log2(p) for p in (4.5 / 7, 2.5 / 5, 4.5 / 7, 2.5 / 5))
    assert math.isclose(float(found[baselines.LEFT_NEIGHBOUR]), by_hand)


def test_a_left_neighbour_is_of_the_same_channel():
    pixels = drawn(3, 3, 3)
    tokens = COLOUR.encode(pixels)
    rows = baselines._table_rows(COLOUR, tokens)[baselines.LEFT_NEIGHBOUR].view(
        3, 3, 3, 3
    )  # picture, row, column, channel
    left = pixels.permute(0, 2, 3, 1)[:, :, :-1].long()
    assert torch.equal(rows[:, :, 1:] - torch.arange(3) * 257, left)
    assert torch.equal(rows[:, :, 0] - torch.arange(3) * 257, torch.full((3, 3, 3), 256))


def photos(folder: Path, count: int = 12, *, size: int = 4, channels: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, pixels in enumerate(drawn(count, size, channels).permute(0, 2, 3, 1).numpy()):
        Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small model of each kind after two steps: grey, and with a palette."""
    place = tmp_path_factory.mktemp("pixels")
    grey, colour = photos(place / "grey"), photos(place / "colour", size=8, channels=3)
    found = {}
    for name, data, model in (
        ("gpt", {"train": str(grey), "size": 4}, {**SMALL, "name": "image-gpt"}),
        ("axial", {"train": str(colour), "colours": 5}, {**SMALL, "name": "axial", "above": 1}),
    ):
        settings = {
            "task": "pixels",
            "data": {**data, "batch_size": 4, "validation_share": 0.2},
            "model": model,
            "training": BRIEF,
        }
        found[name] = recipe.train(settings, out=place / name, quiet=True).folder
    return {**found, "grey": grey, "colour": colour}


def test_a_palette_is_kept_and_a_run_that_goes_on_keeps_it(trained, tmp_path):
    data = checkpoint.read(trained["axial"] / "best").config["data"]
    assert (len(data["palette"]), data["size"], data["channels"]) == (5, 8, 3)
    settings = {
        "task": "pixels",
        "data": {"train": str(photos(tmp_path / "other", size=8, channels=3))},
        "training": BRIEF,
    }
    again = recipe.train(settings, out=tmp_path / "run", quiet=True, start=trained["axial"]).folder
    assert checkpoint.read(again / "best").config["data"]["palette"] == data["palette"]
    settings["data"]["size"] = 4
    with pytest.raises(ValueError, match="knows pictures of 8 x 8 in 5 tokens, not like these: leave out --from"):
        recipe.train(settings, out=tmp_path / "smaller", quiet=True, start=trained["axial"])


def test_every_byte_of_a_pixel_is_counted_as_a_token(trained, tmp_path):
    data = {"train": str(trained["colour"]), "size": 4, "batch_size": 4, "validation_share": 0.2}
    settings = {"task": "pixels", "data": data, "model": {**SMALL, "name": "image-gpt"}, "training": BRIEF}
    result = recipe.train(settings, out=tmp_path / "run", quiet=True).result
    assert result.counts == {"tokens": result.step * 4 * (4 * 4 * 3)}


def test_bits_are_those_of_the_model_and_the_first_row_is_kept(trained):
    for name, kind in (("gpt", "grey"), ("axial", "colour")):
        painter = regard.load(trained[name], device="cpu")
        picture = trained[kind] / "3.png"
        tokens = painter.encode_image(picture)
        found = painter.draw(picture, keep=1, samples=3, seed=5)
        assert [one.kept_rows for one in found] == [1, 1, 1]
        for one in found:
            again = painter.encode_image(one.pixels)
            places = painter.tokenizer.size * painter.tokenizer.tokens_per_pixel
            assert torch.equal(again[:, :places], tokens[:, :places])
            with torch.no_grad():
                rest = nats_per_image(painter.model, painter.tokenizer, again) - _begun(painter, again, places)
            # the token that begins a picture is never drawn, but has its share of the probability
            assert math.isclose(-one.score, float(rest), rel_tol=1e-4)
        assert [one.plain() for one in painter.draw(picture, keep=1, samples=3, seed=5)] == [
            one.plain() for one in found
        ]


def _begun(painter, tokens: torch.Tensor, places: int) -> torch.Tensor:
    """How improbable the first tokens of pictures are."""
    tokenizer = painter.tokenizer
    layout = image_layout(*tokens.shape)
    scores = painter.model.logits(painter.model(tokenizer.shift_right(tokens).flatten(), layout=layout)).log_softmax(-1)
    return -scores.gather(1, tokens.flatten()[:, None]).view_as(tokens)[:, :places].sum(1)


def test_scores_stand_beside_tables_of_the_training_pictures(trained):
    painter = regard.load(trained["gpt"], device="cpu")
    scores = painter.evaluate(trained["grey"], train=str(trained["grey"]), most=5)
    assert list(scores.metrics) == ["bits per dimension", baselines.HISTOGRAM, baselines.LEFT_NEIGHBOUR]
    tokens = next(dataset.tokenize_images(dataset.read([_file(trained["grey"])], GREY, None, part="test"), GREY))[:5]
    with torch.no_grad():
        expected = float(nats_per_image(painter.model, GREY, tokens).mean()) / 16 / math.log(2)
    assert math.isclose(scores.metrics["bits per dimension"], expected, rel_tol=1e-6)
    assert len(scores) == 5
    [note] = painter.evaluate(trained["grey"]).notes
    assert "name training pictures" in note
    notes = regard.load(trained["axial"], device="cpu").evaluate(trained["colour"]).notes
    assert any("not bits per dimension" in note for note in notes)


def _file(path: Path):
    from regard.data.images.sources import PictureFile

    return PictureFile(path=str(path))


def test_a_command_completes_a_picture_and_draws_others(trained, tmp_path, capsys):
    out = tmp_path / "grid.png"
    picture = str(trained["grey"] / "3.png")
    assert run(["draw", str(trained["gpt"]), picture, "--keep", "upper", "--samples", "4", "-o", str(out)]) == 0
    with Image.open(out) as grid:
        assert grid.size == (6 * (112 + image_grid.GAP) + image_grid.GAP, 112 + 2 * image_grid.GAP)
        pixels = np.asarray(grid)
    cells = [pixels[6:118:28, 6 + n * 118 : 118 + n * 118 : 28] for n in range(6)]
    whole = np.asarray(Image.open(picture))
    assert (cells[0] == whole).all()
    assert (cells[1][2:] == image_grid.GREYED).all()
    assert all((cell[:2] == whole[:2]).all() for cell in cells)
    assert len({cell.tobytes() for cell in cells[2:]}) == 4
    assert run(["generate", str(trained["axial"]), "--samples", "2", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert [np.array(json.loads(line)["pixels"]).shape for line in lines] == [(8, 8, 3)] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{colour}/0.png", "-o", "x.png"], "a colour picture of 8 x 8, and the model knows grey ones of 4 x 4"),
        (["{grey}/0.png", "--keep", "left", "-o", "x.png"], "keep left: a picture is written row by row from above"),
        (["{grey}/0.png", "--keep", "4", "-o", "x.png"], "so give upper, or rows from 0 to 3"),
        (["--keep", "upper", "-o", "x.png"], "--keep goes with a picture to complete: name one"),
        (["{grey}/none.png", "-o", "x.png"], "missing file"),
        (["{grey}/0.png"], "draws: name a picture to draw into, -o drawn.png, or --json"),
        (["{grey}/0.png", "-o", "x.txt"], "cannot draw a txt file"),
        (["{grey}/0.png", "--length", "3", "-o", "x.png"], "--length is for texts"),
        (["{grey}/0.png", "-o", "x.png", "-s", "fit=cut"], "options.fit must be one of crop, squeeze"),
    ],
)
def test_what_cannot_be_completed_is_refused_in_a_line(words, said, trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [word.format(**trained) for word in words]
    assert run(["generate", str(trained["gpt"]), *given]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_pictures_of_another_size_or_depth_are_measured_only_when_it_is_said_how(trained):
    painter = regard.load(trained["gpt"], device="cpu")
    with pytest.raises(ValueError, match="give one like that, or -s fit=crop"):
        painter.evaluate(trained["colour"])
    assert painter.evaluate(trained["colour"], fit="crop", most=2).metrics
    with pytest.raises(ValueError, match=r"an array of shape .* a grey picture of 5 x 4, and the model knows"):
        painter.draw(np.zeros((4, 5), np.uint8))
    with pytest.raises(ValueError, match="is measured on pictures: name a folder"):
        painter.evaluate()


def test_where_a_model_looked_is_told_of_one_row(trained):
    for name, kind, queries in (("gpt", "grey", 4), ("axial", "colour", 8)):
        painter = regard.load(trained[name], device="cpu")
        trace = painter.look(trained[kind] / "0.png", row=2)
        assert len(trace.items["target"]) == queries
        for weights in trace.weights:
            assert weights.values.shape[1:] == (len(trace.items[weights.query]), len(trace.items[weights.key]))
            assert torch.allclose(weights.values.sum(-1), torch.ones(()), atol=1e-5)
    with pytest.raises(ValueError, match=r"the model knows colour ones of 8 x 8: give one like that$"):
        painter.look(trained["grey"] / "0.png")  # the command has no setting to name as a remedy
    with pytest.raises(ValueError, match="row 0: choose one from 1 to 7"):
        painter.look(trained["colour"] / "0.png", row=0)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="channels must be 3, of colours, or 1, of grey"):
        recipe.resolve({"task": "pixels", "data": {"train": "a", "channels": 2}})
    with pytest.raises(ValueError, match=r"data\.colours must be a whole number from 2 to 4,096"):
        recipe.resolve({"task": "pixels", "data": {"train": "a", "colours": 1}})
    with pytest.raises(ValueError, match=r"model\.name must be one of image-gpt, axial, not 'bert'"):
        recipe.resolve({"task": "pixels", "data": {"train": "a"}, "model": {"name": "bert"}})


def test_a_folder_without_pictures_and_too_few_colours_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    settings = {"task": "pixels", "data": {"train": str(tmp_path / "empty")}, "training": BRIEF}
    with pytest.raises(ValueError, match="holds no pictures: name a folder with PNG"):
        recipe.train(settings, out=tmp_path / "run", quiet=True)
    settings["data"] = {"train": str(photos(tmp_path / "grey")), "colours": 4000, "size": 4}
    with pytest.raises(ValueError, match=r"different colours: set data\.colours"):
        recipe.train(settings, out=tmp_path / "other", quiet=True)
