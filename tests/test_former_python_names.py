"""Python names that other versions had still work, and warn."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from regard.config.former_python_names import FORMER_MODULES
from regard.models.parts.cells import Layers
from regard.tasks.answering.answerer import Reply
from regard.tasks.scenes import digit_scenes
from regard.tasks.word2vec.vectors import WordVectors


@pytest.mark.parametrize("former", FORMER_MODULES)
def test_a_module_is_found_by_its_former_name(former, monkeypatch):
    current = import_module(FORMER_MODULES[former])
    spec = current.__spec__
    monkeypatch.delitem(sys.modules, former, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{former} is called {FORMER_MODULES[former]} now"):
        module = import_module(former)
    monkeypatch.delitem(sys.modules, former)
    assert module is current
    assert module.__spec__ is spec
    assert module.__name__ == FORMER_MODULES[former]


def test_the_ways_to_import_a_former_module_all_lead_to_the_current_one():
    code = (
        "from regard.interpret import plots\nfrom regard.interpret.draw import plots as current\n"
        "import regard.interpret.plots\nassert plots is current is regard.interpret.plots\n"
        "from regard.interpret.plots import save\nassert save is current.save"
    )
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("DeprecationWarning") == 1  # by the line that imported it first
    assert "<string>:1" in done.stderr


def test_an_unknown_module_is_still_unknown():
    with pytest.raises(ModuleNotFoundError):
        import_module("regard.models.nowhere")


def test_former_attributes_are_the_current_ones():
    reply = Reply("Who?", None, None, None, 0.75, no_answer=0.25)
    with pytest.warns(DeprecationWarning, match=r"Reply\.none is called Reply\.no_answer now"):
        assert reply.none == 0.25
    assert reply == Reply("Who?", None, None, None, 0.75, 0.25)
    layers = Layers("gru", 3, 4)
    with pytest.warns(DeprecationWarning, match=r"Layers\.written_out is called Layers\.to_stepwise now"):
        assert isinstance(layers.written_out(), Layers)


def test_former_names_in_a_module_are_the_current_ones():
    with pytest.warns(DeprecationWarning, match="is called regard.tasks.scenes.digit_scenes.DigitImageConfig now"):
        assert digit_scenes.PictureConfig is digit_scenes.DigitImageConfig
    scene = digit_scenes.scene_dataset(digit_scenes.DigitFramesConfig(), "valid")[0]
    with pytest.warns(DeprecationWarning, match=r"DigitFrames\.seen is called DigitFrames\.visible_counts now"):
        assert scene.seen is scene.visible_counts
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = digit_scenes.nothing


def test_word_vectors_have_their_former_names():
    vectors = WordVectors(["cat", "dog"], np.eye(2, dtype=np.float32))
    with pytest.warns(DeprecationWarning, match=r"WordVectors\.place is called WordVectors\.index_of now"):
        assert vectors.place("dog") == 1
    with pytest.warns(DeprecationWarning, match=r"WordVectors\.units is called WordVectors\.unit_vectors now"):
        assert vectors.units is vectors.unit_vectors
