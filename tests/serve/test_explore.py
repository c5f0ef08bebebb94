"""`regard.explore`: the explorer of models from Python, in a thread that ends when it is told to."""

import builtins
import threading
import webbrowser
from pathlib import Path

import httpx
import pytest

import regard
from tests.serve.harness import make_eye

pytestmark = pytest.mark.unchecked
SMALL = Path(__file__).parent.parent / "checkpoints" / "format-1"


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses


def test_a_loaded_model_is_explored_and_stays_usable_meanwhile(opened, capsys):
    translator, before = regard.load(SMALL), set(threading.enumerate())
    with regard.explore(translator) as explorer, httpx.Client(base_url=explorer.url, trust_env=False) as client:
        assert opened == [explorer.url]
        assert capsys.readouterr().out == f"the explorer is at {explorer.url}\n"
        assert repr(explorer) == f"<Explorer at {explorer.url}>"
        assert f'href="{explorer.url}"' in explorer._repr_html_()
        assert explorer.url.startswith("http://127.0.0.1:")
        assert "/explorer.js" in client.get("/").text
        question = {"inputs": "Le chat noir dort."}
        assert client.get("/v1/explorer").json()["models"][0]["name"] == translator.name
        [answer] = client.post("/v1/translate", json=question).json()["answers"]
        assert answer == translator.answer(["Le chat noir dort."])[0].plain()
        assert client.post("/v1/explain", json=question | {"view": True}).json()["view"]["stepped"]
    assert repr(explorer) == "<Explorer, stopped>"
    explorer.stop()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("regard-")]


def test_folders_and_loaded_models_are_explored_together_without_a_browser(opened):
    with regard.explore([SMALL, make_eye()], browser=False) as explorer:
        models = httpx.get(f"{explorer.url}/v1/explorer", trust_env=False).json()["models"]
    assert [model["verb"] for model in models] == ["translate", "classify"]
    assert opened == []


@pytest.mark.parametrize(
    ("model", "words"),
    [([], "there is no model"), (3, "not as int"), ("no/such/folder", "no/such/folder")],
)
def test_what_is_no_model_is_refused_before_anything_is_started(model, words):
    with pytest.raises(ValueError, match=words):
        regard.explore(model)
    assert not [thread for thread in threading.enumerate() if thread.name == "regard-explorer"]


def test_a_taken_port_is_said(opened):
    with regard.explore(SMALL) as explorer:
        port = int(explorer.url.rpartition(":")[2])
        with pytest.raises(ValueError, match=f"port {port}: is another program there"):
            regard.explore(SMALL, port=port)


def test_without_the_packages_of_a_server_it_says_how_to_get_them(monkeypatch):
    whole_import = builtins.__import__

    def refuse(name: str, *rest: object, **named: object) -> object:
        if name == "regard.serve.explore":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return whole_import(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"uvicorn is missing: pip install 'regard\[serve\]'"):
        regard.explore(SMALL)
