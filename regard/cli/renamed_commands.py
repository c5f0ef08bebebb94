"""Old names of commands and options: some are answered with the new name, others still work."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

RENAMED = {
    "similar": "words similar MODEL WORD",
    "analogy": "words analogy MODEL A B C",
    "map": "words map MODEL WORD",
    "vectors": "words export MODEL -o FILE",
    "positions": "lab positions",
    "gradients": "lab gradients",
    "agreement": "lab agreement",
    "perplexity": "evaluate MODEL FILE",
    "samples": "runs samples RUN",
    "data units": "lab tokenizers FILE",
    "data cmudict": "data make cmudict FILE FOLDER",
    "data agreement": "data make agreement FOLDER",
    "evaluate --source": "evaluate MODEL SOURCE TARGET",
    "evaluate --target": "evaluate MODEL SOURCE TARGET",
    "evaluate --pairs": "evaluate MODEL PAIRS",
    "evaluate --tokenize": "evaluate -s tokenize=NAME",
    "evaluate --plot": "evaluate -o FILE.png",
    "evaluate --page": "evaluate --against OTHER -o FILE.html",
    "compare --test": "compare MODEL OTHER -i SOURCE -i TARGET",
    "compare --pairs": "compare MODEL OTHER -i PAIRS",
    "compare --tokenize": "compare -s tokenize=NAME",
    "compare --out": "compare -o FILE.png",
    "explain --against": "judge MODEL PICTURES --against OTHER",
    "locate --draw": "locate -o FILE.png",
    "words map --out": "words map -o FILE.png",
    "words analogy --file": "evaluate MODEL FILE",
    "words similar --score": "evaluate MODEL FILE",
    "words export --out": "words export -o FILE",
    "cost --plot": "lab complexity -o FILE.png",
    "cost --length": "lab complexity --length",
    "cost --width": "lab complexity --width",
    "cost --window": "lab complexity --window",
    "cost --measure": "lab complexity",
    "cost --no-measure": "lab complexity --no-measure",
    "lab positions --plot": "lab positions SCHEME -o FILE.png",
    "lab gradients --plot": "lab gradients -o FILE.png",
    "lab agreement --plot": "lab agreement -o FILE.png",
    "lab tokenizers --plot": "lab tokenizers -o FILE.png",
}
"""What an error message suggests instead."""

MOVED = {
    "explain": {"--judge": "judge", "--probe": "probe"},
    "generate": {"--keep": "draw", "--label": "draw", "--count": "draw"},
}
"""Options that belong to a command of their own now, which is run in place of the old one."""


USE_DRAW = "regard generate is for texts: use regard draw for pictures, which does the same"


def follow_moved(words: Sequence[str]) -> list[str]:
    """Return the words of a command, in those of the new one if an option was moved: judge MODEL DIR."""
    if not words:
        return []
    verb, *rest = words
    names = [word.partition("=")[0] for word in rest[: rest.index("--") if "--" in rest else None]]
    for option, command in MOVED.get(verb, {}).items():
        if option in names:
            return [command, *(_move_option_last(rest, option) if option.endswith(command) else rest)]
    return list(words)


def _move_option_last(words: Sequence[str], option: str) -> list[str]:
    """Return the words with the values of an option at their end, where arguments are, instead of behind its name."""
    others: list[str] = []
    values: list[str] = []
    remaining = iter(words)
    for word in remaining:
        name, mark, value = word.partition("=")
        if name == option:
            values += [value] if mark else islice(remaining, 1)
        else:
            others.append(word)
    return [*others, *values]
