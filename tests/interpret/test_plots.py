"""Maps and captions as figures: what is lit, titled and boxed."""

import torch

from regard.interpret.draw import plots
from regard.interpret.items import Item
from regard.interpret.trace import Trace, Weights


def test_maps_are_drawn_beside_pictures_with_a_box_around_what_was_asked():
    pictures = torch.full((2, 3, 8, 8), 200, dtype=torch.uint8)
    found = {"left": torch.zeros(2, 2, 2), "even": torch.full((2, 2, 2), 0.25)}
    found["left"][:, :, 0] = 0.5
    figure = plots.maps(pictures, found, names=["a", "b"], boxes=[[0.0, 0.0, 0.5, 1.0]] * 2)
    [first, lit, even, *_] = figure.axes
    assert [axes.get_title() for axes in (first, lit, even)] == ["", "left", "even"]
    shown = lit.images[0].get_array()
    assert shown[0, 0, 0] > 4 * shown[0, 7, 0]
    assert even.images[0].get_array().min() == even.images[0].get_array().max()
    assert len(first.lines) == 2
    assert first.get_ylabel() == "a"


def test_captions_of_several_models_are_rows_of_words_above_where_each_looked():
    picture = torch.full((4, 4, 3), 200, dtype=torch.uint8)
    regions = [Item(str(n), box=(n % 2 / 2, n // 2 / 2, n % 2 / 2 + 0.5, n // 2 / 2 + 0.5)) for n in range(4)]
    words = [Item("a"), Item("dog"), Item("</s>", special=True)]
    weights = Weights("decoder.0.cross", "target", "source", torch.eye(4)[None, :3])
    trace = Trace("m", "captions", {"source": regions, "target": words}, [weights], {}, pictures={"source": picture})
    figure = plots.captions({"soft": trace, "hard": trace})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["a", "dog"] * 2
    dog = figure.axes[1].images[0].get_array()
    assert dog[0, 3, 0] > dog[0, 0, 0], "the second word looked at the second region"


def test_crops_of_any_channels_are_drawn_from_their_darkest_to_their_brightest():
    """They are normalised as a model reads them, which matplotlib would clip where they are in colour."""
    for channels in (1, 3):
        scene = torch.randint(256, (2, channels, 8, 8), dtype=torch.uint8)
        cut = 5 * torch.randn(2, 1, channels, 4, 4) - 3
        figure = plots.crops(scene, torch.rand(2, 1, 4, 2), cut)
        for axes in figure.axes[2:]:
            light = axes.images[0].get_array()
            assert (light.min(), light.max()) == (0, 1)
            assert axes.images[0].get_clim() == (0, 1)
