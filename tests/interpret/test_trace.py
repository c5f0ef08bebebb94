"""Traces and pictures: what is saved is what is read, and pixels equal numbers."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.attention.positions import sinusoidal_table
from regard.cli.trace_views import View, show
from regard.interpret import trace
from regard.interpret.draw import plots
from regard.interpret.trace import Item, Trace, Weights


@pytest.fixture
def example() -> Trace:
    items = {
        "source": [Item("Le", word=0), Item(" chat", word=1), Item("<eos>", special=True)],
        "target": [Item("The", word=0), Item(" cat", word=1)],
        "patches": [Item("", box=(0.0, 0.0, 0.5, 0.5))],
    }
    weights = [Weights("decoder.0.cross", "target", "source", torch.rand(4, 2, 3))]
    return Trace("demo", "translation", items, weights, {"score": -1.5})


def test_a_trace_comes_back_as_it_was_saved(example: Trace, tmp_path: Path):
    example.save(tmp_path / "one.json")
    back = trace.load(tmp_path / "one.json")
    assert back.items == example.items
    assert back.facts == example.facts
    assert torch.equal(back.find("decoder.0.cross").values, example.find("decoder.0.cross").values)
    head = json.loads((tmp_path / "one.json").read_text())
    assert head["format"] == 1
    assert head["weights"] == [{"name": "decoder.0.cross", "axes": ["head", "target", "source"], "shape": [4, 2, 3]}]


def test_words_that_look_at_a_picture_look_as_their_pieces_do_on_average(monkeypatch, capsys):
    boxes = [Item("1,1", word=0, box=(0.0, 0.0, 0.5, 1.0)), Item("1,2", word=1, box=(0.5, 0.0, 1.0, 1.0))]
    written = [Item("sit", word=0), Item("ting", word=0), Item(" dog", word=1), Item("<end>", special=True)]
    values = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.25, 0.75]]])
    weights = [Weights("decoder.0.cross", "target", "source", values)]
    lists = {"source": boxes, "target": written}
    pictures = {"source": torch.zeros(2, 2, 3, dtype=torch.uint8)}
    trace = Trace("m", "captions", lists, weights, {"answer": "sitting dog"}, pictures=pictures)
    words = trace.by_words()
    assert [item.text for item in words.items["target"]] == ["sitting", "dog", "<end>"]
    assert words.items["source"] is boxes, "regions of a picture are no pieces of words"
    assert words.weights[0].values.equal(torch.tensor([[[0.75, 0.25], [0.0, 1.0], [0.25, 0.75]]]))
    assert words.by_words() is words
    for level, lines in ((None, 2), ("subword", 3)):
        show(trace, View(None, None, level, False, False), output=None)
        said = capsys.readouterr().out
        assert said.count("(highest ") == lines, "pieces are shown where they are asked for"
        assert said.count(", an equal share 50.0%)") == lines, "a map alike everywhere shades like a sure one"
    monkeypatch.setattr(plots, "LINES", 1)
    with pytest.warns(UserWarning, match="1 more lines are not drawn: give a page"):
        plots.plot_on_picture(words)


def test_another_format_is_refused(example: Trace, tmp_path: Path):
    example.save(tmp_path / "one.json")
    head = json.loads((tmp_path / "one.json").read_text()) | {"format": 2}
    (tmp_path / "one.json").write_text(json.dumps(head))
    with pytest.raises(ValueError, match="format 2"):
        trace.load(tmp_path / "one.json")


def test_weights_must_fit_the_items(example: Trace):
    with pytest.raises(ValueError, match="2 x 2 for 2 x 3"):
        Trace("demo", "translation", example.items, [Weights("x", "target", "source", torch.rand(4, 2, 2))])


def test_the_pixels_of_an_alignment_are_its_numbers(example: Trace, tmp_path: Path):
    weights = example.find("decoder.0.cross").values.mean(0)
    figure = plots.alignment(weights, queries=["The", " cat"], keys=["Le", " chat", "$"], title="an alignment")
    assert np.allclose(figure.axes[0].images[0].get_array(), weights.numpy())
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["The", "cat"]
    plots.save(figure, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="choose png"):
        plots.save(figure, tmp_path / "picture.txt")


def test_a_position_table_is_drawn_place_by_feature():
    figure = plots.positions({"sinusoidal": (sinusoidal_table(50, 32), "position", "feature")})
    assert figure.axes[0].images[0].get_array().shape == (50, 32)


@pytest.mark.parametrize(("rows", "columns"), [(25, 128), (128, 25), (128, 128), (500, 300), (40, 40), (3, 4)])
def test_labels_of_a_large_matrix_do_not_overlap(rows, columns):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    places = [str(place) for place in range(max(rows, columns))]
    figure = plots.alignment(torch.rand(rows, columns), queries=places[:rows], keys=places[:columns])
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    assert max(figure.get_size_inches()) <= 15
    for axis, along, count in ((axes.xaxis, "x0", columns), (axes.yaxis, "y0", rows)):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        starts = sorted(getattr(box, along) for box in boxes)
        assert min(b - a for a, b in pairwise(starts)) >= min(12, *(box.height for box in boxes))
        texts = [label.get_text() for label in axis.get_ticklabels()]
        assert texts == places[:count] if count <= 40 else 10 <= len(texts) < count
        assert [int(text) for text in texts] == list(axis.get_ticklocs())
