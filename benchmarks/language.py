"""Speed of language models on one GPU, beside Hugging Face's in the same process.

    python -m benchmarks.language gpt alibi bert t5 t5-unbiased write --out language.json
    python -m benchmarks.language kernels      # attention alone: which kernel, which tiles
    python -m benchmarks.language cpu          # writing with a GPT of 10 M on two cores
    python -m benchmarks.language same --run runs/shakespeare-gpt --text input.txt   # greedy texts, fast and plain
    python -m benchmarks.language --tiny       # all of it in small, to see that it runs

Training is measured as people do it, by the recipe of a task (`regard bench`), and writing by `regard.load(...).write`.
The text is random words in one document, so that windows are whole; `--documents N` cuts it every N tokens or so.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks import language_peers as peers
from regard import bench, recipe
from regard.attention.positions import Relative

WORDS = {"bert": 30_510, "t5": 32_020, "t5-unbiased": 32_020}  # beside the special tokens, as in the papers
MOST = 50_290  # words of all others
GPT2 = {"name": "gpt", "width": 768, "heads": 12, "hidden": 3072, "depth": 12, "dropout": 0.0}
BERT = {"name": "bert", "width": 768, "heads": 12, "hidden": 3072, "depth": 12, "dropout": 0.1}
T5 = {"name": "t5", "width": 768, "heads": 12, "hidden": 3072, "encoder": 12, "decoder": 12, "dropout": 0.0}
TINY = {"width": 32, "heads": 2, "hidden": 64}
DEPTHS = {"gpt": {"depth": 2}, "bert": {"depth": 2}, "t5": {"encoder": 1, "decoder": 1, "depth": 16}}
SECTIONS = ("gpt", "alibi", "bert", "t5", "t5-unbiased", "write", "kernels", "cpu", "same")


def main() -> None:
    """Measure what was asked for, a line each, and write all of it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all if none is named")
    parser.add_argument("--out", type=Path, default=Path("language.json"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--documents", type=int, default=0, help="tokens of a document on average; 0: one document")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--run", type=Path, help="a trained GPT, for `same`")
    parser.add_argument("--text", type=Path, help="the text that prompts are taken from, for `same`")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    if strange := set(asked.sections) - set(SECTIONS):
        parser.error(f"unknown sections {', '.join(sorted(strange))}")
    asked.device = "cuda" if torch.cuda.is_available() and not asked.tiny else "cpu"
    asked.steps = 20 if asked.tiny else asked.steps
    results: dict[str, Any] = {"device": asked.device, "torch": str(torch.__version__)}
    if asked.device == "cuda":
        torch.set_float32_matmul_precision("high")
        results["device"] = torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        for section in asked.sections or SECTIONS[:-1]:
            words, amount = WORDS.get(section, MOST), 100_000 if section in ("write", "cpu", "same") else 2_000_000
            sizes = (200, 4_000) if asked.tiny else (words, amount)
            text = write_text(Path(folder) / section, *sizes, asked.documents)
            began = time.perf_counter()
            results[section] = run(section, text, asked)
            results[section]["seconds"] = round(time.perf_counter() - began, 1)
            print(json.dumps({section: results[section]}), flush=True)
            asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            if asked.device == "cuda":
                torch.cuda.empty_cache()


def run(section: str, text: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One section's figures, and those of the others' model where there is one."""
    small, beside = asked.tiny, not asked.no_peers
    if section in ("gpt", "alibi"):
        size = (2, 32) if small else (32, 1024)
        positions = "learned" if section == "gpt" else "alibi"
        found = trained("causal-lm", {**GPT2, "positions": positions}, text, asked, size)
        return found | (peers.gpt(*size, small=small) if beside and section == "gpt" else {})
    if section == "bert":
        size = (2, 32) if small else (256, 128)
        found = trained("masked-lm", BERT, text, asked, size, objective={"next_sentence": False})
        return found | (peers.bert(*size, small=small) if beside else {})
    if section.startswith("t5"):
        with unbiased() if section.endswith("unbiased") else as_it_is():
            return trained("span-corruption", T5, text, asked, (2, 64) if small else (64, 512))
    if section == "write":
        found = written(text, asked)
        return found | (peers.writing(small=small) if beside else {})
    if section == "kernels":
        from benchmarks import language_kernels

        return language_kernels.measure(small=small)
    return same(asked.run, asked.text, asked.device) if section == "same" else on_cpu(text, asked)


def write_text(folder: Path, words: int, amount: int, documents: int = 0) -> Path:
    """Random words in lines of twenty; a blank line ends a document where documents are asked for."""
    chance = random.Random(0)
    names = ["".join(chr(97 + number // 26**place % 26) for place in range(4)) for number in range(words)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "text.txt").open("w", encoding="utf-8") as file:
        file.write(" ".join(names) + "\n")  # each at least once
        for _ in range(amount // 20):
            file.write(" ".join(chance.choices(names, k=20)) + "\n")
            if documents and chance.random() < 20 / documents:
                file.write("\n")
    return folder / "text.txt"


def settings_of(
    task: str, model: dict[str, Any], text: Path, asked: argparse.Namespace, size: tuple[int, int]
) -> dict[str, Any]:
    """A recipe for so many windows of so many tokens."""
    windows, context = size
    shape = {**model, **(TINY | DEPTHS[model["name"]] if asked.tiny else {}), "context": max(context, 128)}
    return {
        "task": task,
        "model": shape,
        "data": {
            "train": {"path": str(text)},
            "context": context,
            "batch_size": windows,
            "validation_share": 0.02,
            "document": "blank" if asked.documents else "file",
        },
        "tokenizer": {"kind": "words", "vocab": 60_000, "min_frequency": 1},
        "optim": {"name": "adamw", "learning_rate": 1e-4, "warmup": 100, "schedule": "constant"},
        "training": {"device": asked.device, "threads": None if asked.device == "cuda" else 1},
    }


def trained(
    task: str, model: dict[str, Any], text: Path, asked: argparse.Namespace, size: tuple[int, int], **more: Any
) -> dict[str, Any]:
    """Tokens a second of a recipe, by the run's own figures."""
    settings = {**settings_of(task, model, text, asked, size), **more}
    if task == "causal-lm":
        settings["writing"] = {"length": 2, "samples": 1}
    nothing = bench.Limits("", 1.0, 1.0)
    found = bench.measure_training(settings, nothing, steps=asked.steps)
    memory = None if found.memory is None else round(found.memory / 2**30, 1)
    return {"tokens_per_second": round(found.rate), "ms_per_step": round(found.milliseconds, 2), "peak_gib": memory}


@contextmanager
def unbiased() -> Iterator[None]:
    """T5 without what its tables add to scores, which no setting takes away."""
    Relative.biased = False
    try:
        yield
    finally:
        Relative.biased = True


@contextmanager
def as_it_is() -> Iterator[None]:
    """Nothing changed."""
    yield


def written(text: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second of `write`, greedy and drawn, by one and by many, and whether fast and plain texts agree."""
    writer = begun({**GPT2, "positions": "learned"}, text, asked, context=1024)
    words = text.read_text(encoding="utf-8").split()
    length, prompt = (8, " ".join(words[:4])) if asked.tiny else (256, " ".join(words[:31]))
    prompts = [" ".join(words[at : at + 10]) for at in range(0, 80, 10)]
    plain = [writer.write(each, length=length // 4, samples=1, temperature=0.0)[0].text for each in prompts]
    writer.ready.warm()
    fast = [writer.write(each, length=length // 4, samples=1, temperature=0.0)[0].text for each in prompts]
    found: dict[str, Any] = {"same_greedy_texts": f"{sum(a == b for a, b in zip(plain, fast, strict=True))} of 8"}
    ways = {"greedy": {"temperature": 0.0}, "top_p": {"temperature": 1.0, "top_p": 0.9}}
    ways["top_k"] = {"temperature": 1.0, "top_k": 50}
    for samples in (1, 2) if asked.tiny else (1, 64):
        for name, how in ways.items():
            seconds = timed(lambda n=samples, how=how: writer.write(prompt, length=length, samples=n, **how), asked)
            found[f"{name}_{samples}"] = round(samples * length / seconds)
    return found


def same(run: Path, text: Path, device: str, *, prompts: int = 200, length: int = 48) -> dict[str, Any]:
    """How many prompts go on with the same greedy text on the fast and on the plain path."""
    from regard import load

    whole = text.read_text(encoding="utf-8")
    begins = [whole[at : at + 40] for at in range(0, len(whole) - 40, (len(whole) - 40) // prompts)][:prompts]
    plain, fast = load(run, device=device), load(run, device=device)
    plain.ready = lambda examples: plain.model
    fast.ready.warm()
    texts = [
        [writer.write(each, length=length, samples=1, temperature=0.0)[0].text for each in begins]
        for writer in (plain, fast)
    ]
    return {"prompts": prompts, "tokens": length, "same": sum(a == b for a, b in zip(*texts, strict=True))}


def begun(model: dict[str, Any], text: Path, asked: argparse.Namespace, *, context: int) -> Any:
    """A model of these sizes after two steps, loaded as anybody would; its texts are all of one length."""
    from regard import load

    settings = settings_of("causal-lm", model, text, asked, (2, 32))
    settings["model"]["context"] = context
    short = {
        "steps": 2,
        "eval_every": bench.NEVER_STEP,
        "save_every": bench.NEVER_STEP,
        "average": 0,
        "tensorboard": False,
    }
    short["compile"] = "off"
    settings |= {"writing": {"length": 2, "samples": 1}, "training": {**settings["training"], **short}}
    outcome = recipe.train(settings, out=text.parent / "written", quiet=True)
    writer = load(outcome.best, device=asked.device)
    writer.eos = None
    return writer


def timed(action: Callable[[], Any], asked: argparse.Namespace, *, runs: int = 3) -> float:
    """The median time of an action after it was done thrice, which captures what is captured."""
    spent = []
    for number in range(3 + runs):
        began = time.perf_counter()
        action()
        if asked.device == "cuda":
            torch.cuda.synchronize()
        spent += [time.perf_counter() - began] if number >= 3 else []
    return statistics.median(spent)


def on_cpu(text: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Greedy tokens a second on two cores with a GPT of 10 M: `write`, what is below it, and Hugging Face, by turns."""
    from regard.decoding.generate import generate

    torch.set_num_threads(2)
    asked.device, length = "cpu", 8 if asked.tiny else 128
    sizes = TINY | {"depth": 2} if asked.tiny else {"width": 384, "heads": 6, "hidden": 1536, "depth": 6}
    small = write_text(text.parent / "small", 490, 4_000)
    writer = begun({**GPT2, **sizes, "positions": "learned"}, small, asked, context=512)
    model, words = writer.model, small.read_text(encoding="utf-8").split()
    prompt = " ".join(words[:31])  # and the token that opens a text
    tokens = torch.tensor([writer._window(writer.begin(prompt))])
    lean, vocab = writer.ready(1), model.config.vocab
    ways: dict[str, Callable[[], Any]] = {
        "write": lambda: writer.write(prompt, length=length, samples=1, temperature=0.0),
        "stream": lambda: list(writer.stream(prompt, length=length, temperature=0.0)),
        "lean": lambda: generate(lean, (tokens,), limit=length, eos=None),
        "plain": lambda: generate(model, (tokens,), limit=length, eos=None),
    }
    if not asked.no_peers:
        ways["hugging_face"] = other = peers.writing_on_cpu(tokens, length, {**sizes, "vocab": vocab})
        ways["hugging_face_one_thread"] = lambda: alone(other)
    found = {"parameters": sum(weight.numel() for weight in model.parameters()), "vocab": vocab}
    spent = by_turns(ways, rounds=2 if asked.tiny else 7)
    found |= {name: round(length / seconds, 1) for name, seconds in spent.items()}
    if not asked.no_peers:
        found["times_hugging_face"] = round(spent["hugging_face"] / spent["write"], 2)
    return found


def by_turns(ways: dict[str, Callable[[], Any]], *, rounds: int) -> dict[str, float]:
    """The median time of each action, all in turns after one that does not count: what else runs, runs beside all."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, action in ways.items():
            began = time.perf_counter()
            action()
            spent[name] += [time.perf_counter() - began] if number else []
    return {name: statistics.median(each) for name, each in spent.items()}


def alone(action: Callable[[], Any]) -> None:
    """An action on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    action()
    torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
