"""The text steps of a translator need no torch: whoever writes the hypotheses, they prepare and finish texts."""

import json
import subprocess
import sys

from regard import shipped
from tests.documents import ROOT

STEPS = """
import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import NamedTuple


class NoTorch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("there is no torch here")


sys.meta_path.insert(0, NoTorch())

import numpy as np

from regard.data import languages, sentences, truecase
from regard.data.normalise import TextConfig
from regard.data.tokenizers import Tokenizer
from regard.tasks.translation import (
    alternatives, answers, copying, lost_names, lost_text, model_calls, phrases, pipeline, splicing
)
from regard.tasks.translation.documents import (
    attributes, document, document_files, entities, glossary, markdown, markup, tag_placement, terms
)
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pipeline import TextTranslator


class Written(NamedTuple):
    tokens: list
    score: float
    finished: bool


class Looks(NamedTuple):
    tables: list

    def collect(self):
        return enumerate(self.tables)


def answer(call):
    if isinstance(call, model_calls.SearchCall):
        texts = [translator.source.decode(ids) for ids in call.sources]
        calls.append(("search", texts))
        written = translator.target.encode_many([ANSWERS.get(text, text) for text in texts], written=True)
        hypotheses = [[Written(ids, -1.0, True)] for ids in written]
        if call.on_finished is None:
            return hypotheses
        call.on_finished(range(len(hypotheses)), hypotheses)
    elif isinstance(call, model_calls.LookCall):
        calls.append(("look", len(call.pairs)))
        sides = [(1 + max(pair.answer_words), 1 + max(pair.source_words)) for pair in call.pairs]
        return [Looks([np.eye(*side) for side in sides])]
    elif isinstance(call, model_calls.LinkCall):
        calls.append(("link", len(call.sources)))
        return [[(word, word) for word in range(len(text.split()))] for text in call.sources]
    else:
        calls.append(("score", len(call.sources)))
        return [model_calls.TargetScore([-1.0] * (len(ids) + 1), []) for ids in call.targets]


def run(steps):
    result = None
    while True:
        try:
            result = answer(steps.send(result))
        except StopIteration as end:
            return end.value


folder, calls = Path(sys.argv[1]), []
tokenizer = Tokenizer.parse((folder / "tokenizer.json").read_text(encoding="utf-8"), TextConfig(normalise="full"))
decoding = DecodingConfig(copy="all", keep=True)
translator = TextTranslator((tokenizer, tokenizer), decoding, context=256, crossing=("decoder.1.cross",), name="en-fr")
translator.reads = ("en", "fr")
ANSWERS = {
    "I met Szymanski.": "Je rencontrai Machin.",
    "Open the door.": "Ouvrez la porte.",
    "The old man sleeps.": "Le vieil homme dort.",
    "The station is closed.": "La gare est close.",
}
plain = run(translator.translate_stepwise(["I met Szymanski. OPEN THE DOOR.", "Où est la gare ?"], "fr", decoding))
page = run(
    document.translate_stepwise(
        translator, ["<p>The <b>old</b> man sleeps.</p> The station is closed."], html=True, to="fr",
        terms=glossary.Terms.of([("station", "halte")]),
    )
)
said = [one.text for one in (*plain, *page)]
print(json.dumps({"texts": said, "kept": plain[1].kept, "calls": calls, "torch": "torch" in sys.modules}))
"""


def test_a_translation_is_prepared_and_finished_where_torch_cannot_be_imported():
    folder = shipped.FOLDER / "en-fr"
    done = subprocess.run(
        [sys.executable, "-c", STEPS, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["texts"] == [
        "Je rencontrai Szymanski. OUVREZ LA PORTE.",
        "Où est la gare ?",
        "<p>Le <b>vieil</b> homme dort.</p> La halte est close.",
    ]
    assert found["kept"] == 1
    assert not found["torch"]
    assert found["calls"][:2] == [["search", ["I met Szymanski.", "Open the door."]], ["look", 1]]
    assert {kind for kind, _ in found["calls"][2:]} == {"search", "link", "score"}
