"""Clients of LibreTranslate, unmodified, against `regard serve`: libretranslatepy and deep-translator."""

from __future__ import annotations

import urllib.error
from typing import Any

import pytest

from tests.packages import require
from tests.serve.process import KEYS

pytestmark = pytest.mark.unchecked
STRANGER = "a-key-of-nobody-at-all"
TEXT = "Where is the station? I am tired & hungry; it costs 5 €."


@pytest.fixture(scope="module")
def libretranslatepy() -> Any:
    return require("libretranslatepy")


@pytest.fixture(scope="module")
def deep_translator() -> Any:
    return require("deep_translator")


@pytest.fixture
def french(box) -> str:
    return box["en-fr"].translate(TEXT, to="fr")


def test_libretranslatepy_translates_detects_and_lists_languages(served, libretranslatepy, french):
    client = libretranslatepy.LibreTranslateAPI(served.url)
    assert client.translate(TEXT, "en", "fr") == french
    assert client.translate(TEXT, "auto", "fr") == french
    [guess] = client.detect("Où est la gare ?")
    assert guess["language"] == "fr"
    assert 50 < guess["confidence"] <= 100
    assert [(entry["code"], entry["targets"]) for entry in client.languages()] == [("en", ["fr"]), ("fr", ["en"])]


def test_libretranslatepy_is_told_the_status_of_what_is_refused(served, libretranslatepy):
    client = libretranslatepy.LibreTranslateAPI(f"{served.url}/")
    for target, text in (("de", "x"), ("fr", "x" * 20_001)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            client.translate(text, "en", target)
        assert 400 <= caught.value.code < 500
        caught.value.close()


def test_deep_translator_translates_texts_and_batches(served, deep_translator, french):
    translator = deep_translator.LibreTranslator(
        source="English", target="French", api_key="any", custom_url=f"{served.url}/"
    )
    assert translator.translate(TEXT) == french
    assert translator.translate_batch([TEXT, "Good morning."])[0] == french
    unsure = deep_translator.LibreTranslator(source="auto", target="fr", api_key="any", custom_url=f"{served.url}/")
    assert unsure.translate(TEXT) == french


def test_keys_of_these_clients_are_read_and_wrong_ones_refused(guarded, libretranslatepy, deep_translator):
    asked = {"source": "en", "target": "fr", "custom_url": f"{guarded.url}/"}
    known = libretranslatepy.LibreTranslateAPI(guarded.url, KEYS[0])
    assert known.languages() == [], "a model whose files named no languages"
    translation = known.translate("Le roi dort.", "en", "fr")
    assert deep_translator.LibreTranslator(api_key=KEYS[0], **asked).translate("Le roi dort.") == translation
    for key in (STRANGER, None):
        with pytest.raises(urllib.error.HTTPError) as caught:
            libretranslatepy.LibreTranslateAPI(guarded.url, key).translate("Le roi dort.", "en", "fr")
        assert caught.value.code == 401
        caught.value.close()
    with pytest.raises(deep_translator.exceptions.ServerException, match="ERR_KEY_INVALID"):
        deep_translator.LibreTranslator(api_key=STRANGER, **asked).translate("Le roi dort.")
    log = guarded.log.read_text()
    assert "POST /translate 200" in log
    assert not [text for text in (*KEYS, STRANGER, "Le roi") if text in log], "a log holds no key and no text"
