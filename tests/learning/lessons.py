"""Small things that can be learnt, as files, and the settings that all lessons share."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

ADAM = {"name": "adam", "betas": [0.9, 0.999], "eps": 1e-8, "schedule": "cosine"}
WORDS = ("masse", "tasse", "basse", "lasse")
TOPICS = (tuple(f"sea{n}" for n in range(12)), tuple(f"mill{n}" for n in range(12)))


def training(steps: int) -> dict[str, Any]:
    """So many steps on a CPU, judged once at the end."""
    often = {"log_every": steps, "eval_every": steps, "save_every": steps}
    return {"steps": steps, **often, "device": "cpu", "tensorboard": False, "average": 0}


def digits(folder: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Files of strings of digits beside the same backwards, and strings that are in none of them."""
    chance = random.Random(0)
    strings = sorted({"".join(chance.choices("0123456789", k=chance.randint(2, 4))) for _ in range(4000)})
    chance.shuffle(strings)
    parts = {"train": strings[200:], "valid": strings[:20]}
    for name, listed in parts.items():
        (folder / f"{name}.tsv").write_text("".join(f"{one}\t{one[::-1]}\n" for one in listed), encoding="utf-8")
    return {name: {"path": str(folder / f"{name}.tsv")} for name in parts}, strings[20:200]


def rhymes(folder: Path) -> tuple[Path, float]:
    """Lines of one word each, of four that differ in their first letter; and how many nats a character holds."""
    chance = random.Random(0)
    (folder / "rhymes.txt").write_text("".join(f"{chance.choice(WORDS)}\n" for _ in range(3000)), encoding="utf-8")
    return folder / "rhymes.txt", math.log(len(WORDS)) / 6  # five letters and the line end


def negations(folder: Path) -> Path:
    """Texts with a "not" and a "good": bad where the one stands right before the other, fine where it does not."""
    chance = random.Random(0)
    return _distinct(folder / "negations.tsv", lambda: _negation(chance), count=1500)


def _negation(chance: random.Random) -> str:
    words = chance.choices(["the", "film", "was", "by", "man", "so"], k=chance.randint(2, 6))
    words.insert(chance.randrange(len(words) + 1), "good")
    place = words.index("good")
    bad = chance.random() < 0.5
    words.insert(place if bad else chance.choice([n for n in range(len(words) + 1) if n != place]), "not")
    return f"{' '.join(words)}\t{'bad' if bad else 'fine'}"


def infinitives(folder: Path) -> Path:
    """Sentences in which a word is a noun or a verb by what stands one or two words before it."""
    chance = random.Random(0)
    return _distinct(folder / "infinitives.txt", lambda: _sentence(chance), count=1500)


def _sentence(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randint(2, 4)):
        word, between = chance.choice(["run", "walk", "play", "look"]), "so/R " * (chance.random() < 0.3)
        parts.append(f"the/D {between}{word}/N" if chance.random() < 0.5 else f"to/P {between}{word}/V")
    return " ".join(parts)


def topics(folder: Path) -> Path:
    """Lines whose words all come from one of two topics."""
    chance = random.Random(0)
    lines = (" ".join(chance.choices(TOPICS[number % 2], k=10)) for number in range(3000))
    (folder / "topics.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / "topics.txt"


def waves(folder: Path) -> Path:
    """A table of two numbers and sin(3 x) z, which no straight line follows."""
    chance = random.Random(0)
    points = [(chance.uniform(-1.5, 1.5), chance.uniform(-1, 1)) for _ in range(1500)]
    rows = "".join(f"{x:.4f},{z:.4f},{math.sin(3 * x) * z:.5f}\n" for x, z in points)
    (folder / "waves.csv").write_text(f"x,z,y\n{rows}", encoding="utf-8")
    return folder / "waves.csv"


def _distinct(path: Path, line: Callable[[], str], *, count: int) -> Path:
    """A file of different lines, so that none is in two parts of it."""
    path.write_text("".join(f"{one}\n" for one in dict.fromkeys(line() for _ in range(count))), encoding="utf-8")
    return path
