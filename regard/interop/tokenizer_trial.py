"""Trial of a foreign tokenizer.json in a separate process with limits of memory and time, before it is used.

That process runs this file. It imports nothing of Regard, so that it starts quickly, and a panic, an abort, endless
work or exhausted memory in the library affects that process alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

MEMORY, MEMORY_PER_BYTE = 1 << 29, 48  # bytes of memory: a base, and an amount per byte of the file
SECONDS, BYTES_PER_SECOND = 10, 2_000_000  # seconds of the processor
PATIENCE = 20  # limit of elapsed time, as a multiple of processor time, for busy machines
TEXTS = (
    "a\U0010fffd \U000e0fff",  # rare characters
    "The quick brown fox, 1234.5 times: it's <s>here</s> [CLS] l'été déjà\n\tÇa va? ﬁn ½ € 😀 漢字 العربية हिन्दी ไทย",
    "",
    " ",
    "a" * 1000,
    "word " * 200,
)
BLOCK = 64  # characters that are normalised at a time
GROWTH, SPARE = 20, 1000  # limits of growth of a text: factor, and characters
FRAME = 64  # special tokens that may be added to a text


def try_tokenizer(text: str) -> None:
    """Raise ValueError, in one line, for a tokenizer.json that the library cannot use safely."""
    data = text.encode("utf-8", "surrogatepass")
    memory = MEMORY + MEMORY_PER_BYTE * len(data)
    seconds = SECONDS + len(data) // BYTES_PER_SECOND
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
    command = [sys.executable, "-P", __file__]
    try:
        process = subprocess.run(
            command,
            input=b"%d %d\n" % (memory, seconds) + data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=PATIENCE * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"the tokenizer takes more than {seconds} seconds for a few short texts") from None
    try:
        answer = json.loads(process.stdout) if process.returncode == 0 else None
    except ValueError:
        answer = None
    if answer is None:
        raise ValueError(_explain_death(process.returncode, memory, seconds))
    if "error" in answer:
        raise ValueError(f"the tokenizer cannot be used: {answer['error'][:500]}")


def _explain_death(status: int, memory: int, seconds: int) -> str:
    """Return the likely reason why the process died: the time limit or the memory limit."""
    if -status in (24, 9):  # SIGXCPU, and SIGKILL a second later
        return f"the tokenizer takes more than {seconds} seconds for a few short texts"
    return f"the tokenizer takes more than {memory / (1 << 30):.2g} GiB of memory for a few short texts, or crashes"


def main() -> None:
    """Read the limits and a tokenizer from standard input, and print {} or the reason why it cannot be used."""
    memory, seconds = map(int, sys.stdin.buffer.readline().split())
    text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):  # not available on this system
        pass
    try:
        check(text)
        answer = {}
    except MemoryError:
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        answer = {"error": " ".join(str(error).split()) or type(error).__name__}
    os.write(1, json.dumps(answer).encode())


def check(text: str) -> None:
    """Raise an error if a tokenizer fails, is not deterministic, or makes a text excessively longer."""
    from tokenizers import Tokenizer

    engine = Tokenizer.from_str(text)
    engine.encode_special_tokens = True
    alphabet = "".join(map(chr, range(0x3000)))
    for sample in (alphabet, *TEXTS, *_literals(json.loads(text))):
        for start in range(0, len(sample), BLOCK):
            _check_growth(engine, sample[start : start + BLOCK])
    ids = []
    for sample in TEXTS:
        plain = engine.encode(sample, add_special_tokens=False)
        frames = len(engine.encode(sample).ids) - len(plain.ids), len(engine.encode(sample, sample).ids)
        if max(frames[0], frames[1] - 2 * len(plain.ids)) > FRAME:
            raise ValueError(f"it puts more than {FRAME} tokens around every text")
        longest = max((len(token) for token in plain.tokens), default=0)
        decoded = engine.decode(plain.ids, skip_special_tokens=False)
        if len(decoded) > (GROWTH + longest) * len(plain.ids) + SPARE:
            raise ValueError(f"its decoder makes {len(decoded):,} characters of {len(plain.ids):,} tokens")
        ids.append(plain.ids)
    batch = engine.encode_batch_fast(list(TEXTS), add_special_tokens=False)
    if [coded.ids for coded in batch] != ids:
        raise ValueError("it gives the same text other tokens every time")


def _check_growth(engine: Any, text: str) -> None:
    normalised = text if engine.normalizer is None else engine.normalizer.normalize_str(text)
    if len(normalised) > GROWTH * len(text) + SPARE:
        raise ValueError(f"its normalizer makes {len(normalised):,} characters of {len(text)}")


def _literals(part: Any) -> Iterator[str]:
    """Yield the strings that the steps match and insert, which are likely to trigger excessive growth."""
    pairs = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, inner in pairs:
        if name in ("content", "prepend", "String", "Regex") and isinstance(inner, str):
            yield inner
        elif name not in ("vocab", "merges", "added_tokens", "special_tokens", "precompiled_charsmap"):
            yield from _literals(inner)


if __name__ == "__main__":
    main()
