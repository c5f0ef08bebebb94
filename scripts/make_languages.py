"""Learn the table by which `regard/data/languages.py` tells languages apart.

    pip download --no-deps -d wheels django wagtail django-allauth django-cms django-oscar djangorestframework \\
        stopwordsiso jupyterlab-language-pack-{cs-CZ,de-DE,es-ES,fr-FR,it-IT,nl-NL,pl-PL,pt-BR,ro-RO}
    python scripts/make_languages.py wheels --lines en=common-voice-en.txt.gz fr=common-voice-fr.txt.gz \\
        --columns en,fr=tatoeba/fra.txt.gz en,de=tatoeba/deu.txt.gz en,fr=python-docs-fr.tsv.gz \\
        en,fr=react-docs-fr.tsv.gz en,fr=libreoffice-help.tsv.gz en,fr=gnome-user-docs.tsv.gz \\
        en,fr=kubernetes-docs-fr.tsv.gz en,fr=rust-book-fr.tsv.gz en,fr=lexicon-osm-id.tsv.gz \\
        en,fr=opensource-guide.tsv.gz

The wheels (BSD or MIT) hold the translated messages of programs and lists of small words; the files hold sentences, one
a line or in columns. One in ten sentences of the files is left out, so that the table can be measured on it.
"""

import argparse
import gettext
import gzip
import io
import json
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from regard.data.holdout import share
from regard.data.language_names import LANGUAGES
from regard.data.languages import BUCKETS, SCALE, TABLE, features

MESSAGES = re.compile(r"/locale/([a-z]{2})(?:_[A-Za-z]+)?/LC_MESSAGES/[\w.-]+\.mo$")
PLACEHOLDER = re.compile(r"<[^>]*>|%\(\w+\)[a-z]|%[a-z]|\{[^}]*\}|&\w+;|\S*[@/\\_]\S*")
NORWEGIAN = {"nb": "no", "nn": "no"}
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)  # words of a sample
SMALL = 0.15  # of the samples are small words in a row
HELD = 0.1  # of the sentences of the files, which are left out
ROUNDS = 2
BATCH = 1024
RATE = 0.02
DROPPED = 0.2  # of the features of a sample, so that none is relied on alone
STRENGTH = 1e-6  # of weight decay


def messages(wheels: Path) -> dict[str, set[str]]:
    """What programs say, by language, with the English that was translated."""
    found: dict[str, set[str]] = {code: set() for code in LANGUAGES}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                match = MESSAGES.search(name)
                code = NORWEGIAN.get(match[1], match[1]) if match else None
                if code not in found:
                    continue
                catalogue = gettext.GNUTranslations(io.BytesIO(archive.read(name)))._catalog  # type: ignore[attr-defined]
                for original, text in catalogue.items():
                    original = original[0] if isinstance(original, tuple) else original
                    if original and text != original:
                        found["en"].add(_clean(original))
                        found[code].add(_clean(text))
    return found


def small_words(wheels: Path) -> dict[str, list[str]]:
    """The small words of each language."""
    [wheel] = wheels.glob("stopwordsiso-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        lists = json.loads(archive.read("stopwordsiso/stopwords-iso.json"))
    return {code: sorted(lists[code]) for code in LANGUAGES if code in lists}


def sentences(path: str) -> list[list[str]]:
    """The lines of a file as columns."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def _clean(text: str) -> str:
    return " ".join(PLACEHOLDER.sub(" ", text.replace("&", "").replace("\x04", " ")).split())


def samples(asked: argparse.Namespace, rng: random.Random) -> list[tuple[str, int]]:
    """Texts of one to sixteen words with the number of their language, as many as there are of each."""
    texts = {code: sorted(own) for code, own in messages(asked.wheels).items()}
    for given, columns in [*((each, False) for each in asked.lines), *((each, True) for each in asked.columns)]:
        codes, _, path = given.partition("=")
        for cells in sentences(path):
            for code, text in zip(codes.split(","), cells, strict=False) if columns else [(codes, cells[0])]:
                if share(text, "") >= HELD:
                    texts[code].append(text)
    words = small_words(asked.wheels)
    found: list[tuple[str, int]] = []
    for number, code in enumerate(LANGUAGES):
        own = [text for text in texts[code] if re.search(r"[^\W\d_]{2}", text)]
        print(f"{code}: {len(own):,} texts, {sum(len(text.split()) for text in own):,} words")
        for _ in range(asked.samples):
            tokens = rng.choice(own).split()
            if code in words and rng.random() < SMALL:
                tokens = rng.choices(words[code], k=rng.randint(1, 8))
            length = min(len(tokens), rng.choice(LENGTHS))
            start = rng.randrange(len(tokens) - length + 1)
            found.append((" ".join(tokens[start : start + length]), number))
    return found


def learn(found: list[tuple[str, int]], rng: random.Random) -> np.ndarray:
    """A logistic regression over hashed letters and words."""
    rng.shuffle(found)
    read = [features(text) for text, _ in found]
    flat = torch.from_numpy(np.concatenate(read))
    ends = torch.tensor([0, *map(len, read)]).cumsum(0)
    wanted = torch.tensor([number for _, number in found])
    table = torch.zeros(BUCKETS, len(LANGUAGES), requires_grad=True)
    optimizer = torch.optim.Adam([table], lr=RATE)
    starts = [start for _ in range(ROUNDS) for start in range(0, len(found), BATCH)]
    for step, start in enumerate(starts):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / len(starts))
        offsets = ends[start : start + BATCH + 1]
        ids = flat[offsets[0] : offsets[-1]]
        kept = (torch.rand(len(ids)) > DROPPED).float()
        logits = functional.embedding_bag(ids, table, offsets[:-1] - offsets[0], mode="sum", per_sample_weights=kept)
        loss = functional.cross_entropy(logits, wanted[start : start + BATCH]) + STRENGTH * table.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} of {len(starts)}: {loss.item():.4f}", flush=True)
    weights = table.detach()
    weights -= weights.mean(1, keepdim=True)
    return (weights * SCALE).round().clamp(-127, 127).to(torch.int8).numpy()


def main() -> None:
    """Read, learn, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--lines", nargs="*", default=[], metavar="CODE=FILE")
    parser.add_argument("--columns", nargs="*", default=[], metavar="CODE,CODE=FILE")
    parser.add_argument("--samples", type=int, default=40_000, help="samples of each language")
    parser.add_argument("--out", type=Path, default=TABLE)
    asked = parser.parse_args()
    rng = random.Random(1)
    torch.manual_seed(1)
    table = learn(samples(asked, rng), rng)
    asked.out.write_bytes(table.tobytes())
    print(f"{asked.out}: {asked.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
