"""The script that learns to tell languages apart: read from wheels and files, and learnt from very little."""

import gettext
import io
import json
import runpy
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np

from regard.data.language_names import LANGUAGES
from regard.data.languages import BUCKETS, features
from tests.documents import ROOT

TEXTS = {
    "de": ["Wo ist der Bahnhof?", "Ich habe keine Zeit, es ist schon spät.", "Die Seite wurde nicht gefunden."],
    "es": ["¿Dónde está la estación?", "No tengo tiempo, ya es muy tarde.", "No se encontró la página."],
}
ENGLISH = ["Where is the station?", "I have no time, it is late.", "The page %(name)s was <b>not</b> found."]


def catalogue(pairs: dict[str, str]) -> bytes:
    """A compiled catalogue of messages, by its format: a header, two tables of places, the texts."""
    originals = sorted(pairs)
    texts = [[one.encode() for one in column] for column in (originals, [pairs[one] for one in originals])]
    place = 28 + 16 * len(pairs)
    tables = []
    for column in texts:
        for one in column:
            tables.append(struct.pack("<II", len(one), place))
            place += len(one) + 1
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return head + b"".join(tables) + b"".join(one + b"\0" for column in texts for one in column)


def wheels(folder: Path) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(folder / "site-1-py3-none-any.whl", "w") as archive:
        for code in LANGUAGES:
            own = TEXTS.get(code, [f"{code} {one}" for one in ENGLISH])
            data = catalogue({"": "Content-Type: text/plain; charset=UTF-8\n", **dict(zip(ENGLISH, own, strict=True))})
            assert gettext.GNUTranslations(io.BytesIO(data)).gettext(ENGLISH[0]) == own[0]
            archive.writestr(f"site/locale/{'nb' if code == 'no' else code}/LC_MESSAGES/site.mo", data)
    with zipfile.ZipFile(folder / "stopwordsiso-1-py3-none-any.whl", "w") as archive:
        archive.writestr("stopwordsiso/stopwords-iso.json", json.dumps({"de": ["der", "die"], "es": ["el", "la"]}))
    return folder


def test_a_table_is_learnt_from_messages_small_words_and_sentences(tmp_path, monkeypatch, capsys):
    (tmp_path / "pairs.tsv").write_text("Good morning, everybody.\tBonjour à tous.\n" * 2, encoding="utf-8")
    words = ["--columns", f"en,fr={tmp_path / 'pairs.tsv'}", "--samples", "60", "--out", str(tmp_path / "table.bin")]
    monkeypatch.setattr(sys, "argv", ["make_languages.py", str(wheels(tmp_path / "wheels")), *words])
    runpy.run_path(str(ROOT / "scripts" / "make_languages.py"), run_name="__main__")
    assert "no: 3 texts" in capsys.readouterr().out, "Norwegian has two names"
    table = np.frombuffer((tmp_path / "table.bin").read_bytes(), np.int8).reshape(BUCKETS, len(LANGUAGES))
    codes = list(LANGUAGES)
    for code, texts in TEXTS.items():
        for text in texts:
            assert codes[int(table[features(text)].sum(0, dtype=np.int64).argmax())] == code
