"""The page as a file: what is embedded is what was watched, nothing in it can call out, and text stays text."""

import base64
import gzip
import hashlib
import html
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.interpret.draw import page
from regard.interpret.trace import Item, Trace, Weights

SOURCE = [Item(" Le", word=0), Item(" chat", word=1), Item("<eos>", special=True)]
TARGET = [Item(" The", word=0), Item(" cat", word=1)]


def trace(text: str = "Le chat", answer: str = "The cat", heads: int = 2) -> Trace:
    values = torch.rand(heads, 2, 3).softmax(-1)
    weights = [Weights("decoder.0.cross", "target", "source", values)]
    return Trace("demo", "translation", {"source": SOURCE, "target": TARGET}, weights, {"text": text, "answer": answer})


def data(text: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def blob(text: str, ref: dict) -> np.ndarray:
    data = base64.b64decode(re.search(rf'id="blob-{ref["blob"]}">(.*?)</script>', text)[1])
    if ref.get("packed"):
        planes = np.frombuffer(zlib.decompress(data, -zlib.MAX_WBITS), np.uint8)
        data = np.ascontiguousarray(planes.reshape(int(ref["type"][1]), -1).T).tobytes()
    return np.frombuffer(data, dtype=f"<{ref['type']}").reshape(ref["shape"])


def test_every_weight_is_in_the_file():
    given = trace()
    text = page.render(given)
    [attention] = data(text)["attentions"]
    assert attention["shape"] == [2, 3]
    for ref, values in zip(attention["heads"], given.weights[0].values, strict=True):
        assert np.array_equal(blob(text, ref), values.numpy())


def test_very_many_weights_are_kept_in_half_the_bits(monkeypatch):
    monkeypatch.setattr(page, "MOST", 5)
    given = trace()
    text = page.render(given)
    ref = data(text)["attentions"][0]["heads"][1]
    assert ref["type"] == "f2"
    assert np.allclose(blob(text, ref), given.weights[0].values[1].numpy(), atol=1e-3)


def test_large_tensors_are_packed_and_every_number_is_kept():
    store = page.Blobs()
    for kind, values in (
        ("f4", torch.randn(130, 140)),
        ("f2", torch.randn(190, 180).half()),
        ("u1", torch.ones(260, 260)),
    ):
        ref = store.add("x", values, kind)
        assert ref["packed"]
        assert np.array_equal(blob(store.elements[-1], ref), values.numpy())
    softmaxed = (3 * torch.randn(512, 512)).softmax(-1)
    store.add("weights", softmaxed, "f2")
    assert len(store.elements[-1]) * 144 < 90e6, "of 12 x 12 heads"


def test_the_policy_allows_this_script_and_this_style_and_nothing_else():
    text = page.render(trace())
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', text)[1])
    for part, tag in (("script-src", '<script type="module">'), ("style-src", "<style>")):
        inner = text.split(tag, 1)[1].split("</s", 1)[0]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{part} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"https?:|unsafe|\*", policy)


def test_nothing_in_the_page_names_another_place():
    text = page.render(trace())
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", text)
    assert not re.search(r"https?://|@import|url\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts", text)


def test_the_page_without_data_stays_small():
    empty = Trace("m", "t", {"a": [Item("a")]}, [Weights("x", "a", "a", torch.ones(1, 1, 1))])
    assert len(gzip.compress(page.render(empty).encode())) < 150_000


def test_text_cannot_become_code():
    evil = "</script><script>alert(1)</script><!-- {{script}}"
    text = page.render(trace(text=evil, answer=evil), title=evil)
    assert "alert(1)</script>" not in text.replace(html.escape(evil), "")
    assert data(text)["facts"]["text"] == evil
    assert text.count("<title>") == 1


def test_measures_stand_per_head_or_alone_and_built_in_ones_are_there():
    given = {"AER": {"decoder.0.cross": [0.25, 0.5]}, "AER of the diagonal": 0.6}
    found = data(page.render(trace(), measures=given))
    assert found["measures"]["AER"] == {"decoder.0.cross": [0.25, 0.5]}
    assert found["numbers"] == {"AER of the diagonal": 0.6}
    assert set(found["measures"]) == {"entropy", "diagonality", "AER"}
    assert len(found["measures"]["entropy"]["decoder.0.cross"]) == 2


def test_gold_links_are_read_in_both_forms():
    wanted = [[0, 0, True], [1, 1, False]]
    assert data(page.render(trace(), gold="1p1 0-0"))["gold"] == wanted
    assert data(page.render(trace(), gold=({(0, 0)}, {(0, 0), (1, 1)})))["gold"] == wanted


def test_a_saved_page_is_the_rendered_one(tmp_path: Path):
    given = trace()
    page.save(given, tmp_path / "page.html", title="été")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.render(given, title="été")


def test_a_notebook_shows_the_page_in_a_frame_without_rights():
    given = trace()
    shown = given._repr_html_()
    assert shown.startswith('<iframe title="The cat" sandbox="allow-scripts"')
    inner = re.search(r'srcdoc="(.*?)"', shown, re.S)[1]
    assert html.unescape(inner) == page.render(given)


def test_an_empty_trace_and_an_unknown_language_are_refused():
    with pytest.raises(ValueError, match="nothing was watched"):
        page.render(Trace("m", "t", {}, []))
    with pytest.raises(ValueError, match="choose en or fr"):
        page.render(trace(), lang="de")


SENTENCE = re.compile(r'(?:"([^"]+)"|(\w+)): "((?:[^"\\]|\\.)*)"')


def sentences(language: str) -> dict[str, str]:
    """Every sentence of one language by its name, whichever screen it belongs to."""
    paths = sorted((page.WEB / "strings").glob(f"*.{language}.js"))
    found = [
        (quoted or name, text) for path in paths for quoted, name, text in SENTENCE.findall(path.read_text("utf-8"))
    ]
    assert len(dict(found)) == len(found), "each name stands once"
    return dict(found)


def glossary(language: str) -> dict[str, list[str]]:
    """What explains each term: its name, its sentence, and what counts as good."""
    text = (page.WEB / "strings" / f"glossary.{language}.js").read_text("utf-8")
    entries = re.findall(r'^  (?:"([^"]+)"|(\w+)): (\[.*\]),$', text, re.MULTILINE)
    return {quoted or name: json.loads(entry) for quoted, name, entry in entries}


def test_both_languages_say_the_same_things_with_the_same_gaps():
    english, french = sentences("en"), sentences("fr")
    assert list(english) == list(french)
    for name in english:
        gaps = [sorted(re.findall(r"\{(\w+)\}", text)) for text in (english[name], french[name])]
        assert gaps[0] == gaps[1], name
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in page.WEB.rglob("*.js")) < 400


def test_every_term_has_a_sentence_in_both_languages():
    english, french = glossary("en"), glossary("fr")
    assert list(english) == list(french)
    for entries in (english, french):
        for name, (term, sentence, good) in entries.items():
            assert term, name
            assert sentence.endswith("."), name
            assert not good or good.endswith("."), name


def test_french_has_no_break_where_none_may_be():
    french = [*sentences("fr").values(), *(part for entry in glossary("fr").values() for part in entry)]
    assert len(french) > 200
    assert [text for text in french if re.search(r" [;:!?»%]|« ", text)] == []


def test_sides_of_a_matrix_have_words_of_their_own_where_a_control_has_the_same_name():
    for side in ("step", "place", "row", "above", "left", "omics"):  # of memories, pixels and omics
        assert f"{side}_side" in sentences("en"), "place alone is how heads are ordered, row how colours are scaled"
    for module in ("matrix", "ribbon", "alignment", "image"):
        assert not re.search(
            r"say\((?:[\w.]+\.)?(?:query|key)\)", (page.WEB / f"{module}.js").read_text(encoding="utf-8")
        )
