"""Files of every kind that somebody may hand to a command, the right kind or not, each under a name that suits it."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save

from tests.data.images.drawing import draw, fill

ANIMALS = ("cat", "dog", "horse", "king")
FRENCH = {"cat": "chat", "dog": "chien", "horse": "cheval", "king": "roi"}
PLACES = (("house", "maison"), ("school", "école"), ("beach", "plage"), ("town", "ville"), ("forest", "forêt"))
REVIEWS = (("wonderful", "positive"), ("dreadful", "negative"))
MISSING = "missing.txt"


def sentences() -> list[tuple[str, str]]:
    """Return twenty short English sentences with their French translations."""
    return [
        (f"The {animal} is in the {english}.", f"Le {FRENCH[animal]} est dans la {french}.")
        for english, french in PLACES
        for animal in ANIMALS
    ]


def labelled() -> list[tuple[str, str]]:
    """Return forty texts with one of two labels."""
    return [(f"A {word} film about a {animal}, part {n}", label) for n in range(5) for animal in ANIMALS
            for word, label in REVIEWS]  # fmt: skip


def plain_text() -> bytes:
    return _lines(english for english, _ in sentences())


def wrapped_text() -> bytes:
    paragraph = "There was once a king who had never seen the sea, and who asked every\ntraveller to describe it to him"
    return _lines(f"{paragraph},\nuntil winter number {n} came and nobody travelled any more.\n" for n in range(6))


def reviews_csv() -> bytes:
    return _lines(["text,label", *(f'"{text}",{label}' for text, label in labelled())])


def numbers_csv() -> bytes:
    return _lines(["length,width,price", *(f"{n}.5,{n % 5}.25,{3 * n + n % 5}.75" for n in range(24))])


def french_csv() -> bytes:
    """A table as a French Excel saves it: a byte order mark, semicolons, decimal commas, CRLF."""
    rows = ["Longueur;Largeur;Prix", *(f"{n},5;{n % 5},25;{3 * n + n % 5},75" for n in range(24))]
    return b"\xef\xbb\xbf" + "".join(f"{row}\r\n" for row in rows).encode()


def _french_reviews() -> str:
    labels = {"positive": "très réussi", "negative": "raté"}
    rows = [f"Un film à voir, numéro {n} : {labels[label]};{label}" for n, (_, label) in enumerate(labelled())]
    return "".join(f"{row}\r\n" for row in ["Critique;Étiquette", *rows])


def latin_csv() -> bytes:
    return _french_reviews().encode("latin-1")


def utf16_csv() -> bytes:
    return _french_reviews().encode("utf-16")


def pairs_tsv() -> bytes:
    return _lines(["English\tFrench", *("\t".join(pair) for pair in sentences())])


def records() -> bytes:
    return _lines(json.dumps({"text": text, "label": label}) for text, label in labelled())


def ratings() -> bytes:
    return _lines(["text1\ttext2\tscore", *(f"{a}\t{b}\t{n % 5}.5" for n, (a, b) in enumerate(sentences()))])


def choices() -> bytes:
    rows = (f"{english}\tIt sleeps\tIt runs\t{n % 2}" for n, (english, _) in enumerate(sentences()))
    return _lines(["premise\tchoice1\tchoice2\tlabel", *rows])


def captions() -> bytes:
    pictures = (f"photos/{label}/0{n}.png,a {label} wall" for n in range(4) for label in ("blue", "red"))
    return _lines(["path,caption", *pictures])


def squad() -> bytes:
    questions = []
    for number, (english, _) in enumerate(sentences()):
        place = english.split()[-1].rstrip(".")
        answer = {"text": place, "answer_start": english.index(place)}
        asked = {"id": str(number), "question": f"Where is animal {number}?", "answers": [answer]}
        questions.append({"context": english, "qas": [asked]})
    return json.dumps({"version": "1.1", "data": [{"title": "Animals", "paragraphs": questions}]}).encode()


def conll() -> bytes:
    tags = {"The": "DET", "is": "VERB", "in": "ADP", "the": "DET"}
    return _lines(
        "".join(f"{word} {tags.get(word, 'NOUN')}\n" for word in english.rstrip(".").split()) + ". PUNCT\n"
        for english, _ in sentences()
    )


def tmx() -> bytes:
    units = (
        f'<tu><tuv xml:lang="en"><seg>{english}</seg></tuv><tuv xml:lang="fr"><seg>{french}</seg></tuv></tu>'
        for english, french in sentences()
    )
    header = '<header srclang="en" segtype="sentence" datatype="plaintext" o-tmf="none" adminlang="en"/>'
    return _lines(['<?xml version="1.0" encoding="UTF-8"?>', '<tmx version="1.4">', header, "<body>", *units,
                   "</body>", "</tmx>"])  # fmt: skip


def markdown() -> bytes:
    table = ["| Animal | Place |", "| --- | --- |", "| cat | house |"]
    return _lines(["# A day", "", "The **cat** is in the house:", "", "- first", "- second", "", "```python",
                   "print(1)", "```", "", *table])  # fmt: skip


def subtitles() -> bytes:
    return _lines(f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n<i>{sentences()[n][0]}</i>\n" for n in range(1, 6))


def html() -> bytes:
    body = "".join(f"<p>{english}</p>\n" for english, _ in sentences()[:5])
    return f"<!DOCTYPE html>\n<html><head><title>A day</title></head>\n<body>\n{body}</body></html>\n".encode()


def png() -> bytes:
    return _encoded("PNG")


def cut_jpeg() -> bytes:
    whole = _encoded("JPEG")
    return whole[: len(whole) // 2]


def noise() -> bytes:
    return np.random.default_rng(0).integers(0, 256, 4096, np.uint8).tobytes()


def docx() -> bytes:
    text = "".join(f"<w:p><w:r><w:t>{english}</w:t></w:r></w:p>" for english, _ in sentences())
    parts = {
        "[Content_Types].xml": '<?xml version="1.0"?><Types/>',
        "word/document.xml": f'<?xml version="1.0"?><w:document><w:body>{text}</w:body></w:document>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without the date of today
    return buffer.getvalue()


def pdf() -> bytes:
    stream = b"BT /F1 12 Tf (The cat is in the house.) Tj ET"
    body = b"1 0 obj << /Type /Catalog >> endobj\n2 0 obj << /Length %d >>\nstream\n%s\nendstream endobj\n"
    return b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + body % (len(stream), stream) + b"trailer << /Root 1 0 R >>\n%%EOF\n"


def gzipped_text() -> bytes:
    return gzip.compress(plain_text(), mtime=0)


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, values=np.arange(12.0).reshape(3, 4), names=np.array(["a", "b", "c"]))
    return buffer.getvalue()


def safetensors() -> bytes:
    return save({"embedding.weight": torch.arange(12.0).reshape(3, 4)})


def recipe() -> bytes:
    return b"task: regression\ndata:\n  train: numbers.csv\n  target: price\ntraining:\n  steps: 1\n  device: cpu\n"


def script() -> bytes:
    return b'"""Train a model."""\n\nimport regard\n\nregard.train(["a.fr", "a.en"])\nprint("done")\n'


FILES: dict[str, Callable[[], bytes]] = {
    "plain.txt": plain_text,
    "wrapped.txt": wrapped_text,
    "reviews.csv": reviews_csv,
    "numbers.csv": numbers_csv,
    "french.csv": french_csv,
    "latin.csv": latin_csv,
    "utf16.csv": utf16_csv,
    "pairs.tsv": pairs_tsv,
    "records.jsonl": records,
    "ratings.tsv": ratings,
    "choices.tsv": choices,
    "captions.csv": captions,
    "squad.json": squad,
    "tagged.conll": conll,
    "memory.tmx": tmx,
    "notes.md": markdown,
    "film.srt": subtitles,
    "page.html": html,
    "picture.png": png,
    "cut.jpg": cut_jpeg,
    "empty.txt": bytes,
    "noise.bin": noise,
    "letter.docx": docx,
    "paper.pdf": pdf,
    "story.txt.gz": gzipped_text,
    "arrays.npz": npz,
    "weights.safetensors": safetensors,
    "recipe.yaml": recipe,
    "script.py": script,
}
OTHERS = ("photos", "nothing", "checkpoint", "dangling.txt", "pipe", MISSING)
KINDS = (*FILES, *OTHERS)


def lay(place: Path, checkpoint: Path) -> None:
    """Write one of every kind into a folder; `checkpoint` is copied. The last kind is a name without a file."""
    for name, content in FILES.items():
        (place / name).write_bytes(content())
    fill(place / "photos", 4, ("blue", "red"))
    (place / "nothing").mkdir()
    shutil.copytree(checkpoint, place / "checkpoint")
    (place / "dangling.txt").symlink_to("nowhere.txt")
    os.mkfifo(place / "pipe")


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _encoded(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(draw("red", 7)).save(buffer, form)
    return buffer.getvalue()
