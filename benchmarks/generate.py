"""How fast a Transformer of base size translates on this machine, beside other runtimes with the same weights.

    python -m benchmarks.generate --systems regard ctranslate2 --out results.json

Random weights from a seed, source sentences of 28 tokens, answers of exactly 30 (the end is suppressed), from lists of
token ids to lists of token ids. Every system is warmed up, then timed several times; the median is reported.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.decoding.beam import Beam, search
from regard.models.inference.cuda import FusedDecoder
from regard.models.transformer import Transformer, TransformerConfig

PAD, BOS, EOS, SPECIAL = 0, 1, 2, 4
SIZES = {
    "base": {"width": 512, "heads": 8, "hidden": 2048, "encoder": 6, "decoder": 6, "vocab": 32768},
    "small": {"width": 64, "heads": 4, "hidden": 128, "encoder": 2, "decoder": 2, "vocab": 500},
}
SAMPLE = Path(__file__).parent.parent / "regard/samples/tatoeba-fra-eng.test.tsv.gz"
BARS = {(1, 1): 3500, (1, 64): 100_000, (1, 512): 300_000, (4, 1): 2500, (4, 64): 50_000, (4, 512): 150_000}


def build(size: str) -> Transformer:
    """Random weights from a seed, chosen so that answers differ from sentence to sentence."""
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**SIZES[size], dropout=0.0)).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "embedding" not in name:
            weight.mul_(4.0 if "query" in name or "key" in name else 2.0)
        if "outer.weight" in name:
            weight.sub_(weight.mean(1, keepdim=True))  # else all answers are the mean of what a relu lets through
    return model


def sentences(vocab: int, batch: int, length: int, seed: int = 0) -> list[list[int]]:
    """Random sources that end as sentences do."""
    chance = random.Random(seed)
    return [[*(chance.randrange(SPECIAL, vocab) for _ in range(length - 1)), EOS] for _ in range(batch)]


def timed(work: Callable[[], Any], *, device: str, most: float) -> list[float]:
    """Seconds of each of several runs, for about so many seconds in all."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - begin < most and len(times) < 50):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


class Regard:
    """Our own search over the model given."""

    def __init__(self, model: Any, device: str):
        self.model, self.device = model, device

    def __call__(self, source: list[list[int]], *, beams: int, length: int) -> list[Any]:
        """Hypotheses of exactly this length."""
        read = torch.tensor(source, device=self.device)
        lengths = torch.full((len(source),), read.shape[1], device=self.device)
        prompt = torch.full((len(source), 1), BOS, device=self.device)
        found = search(self.model, (read, lengths, prompt), Beam(beams=beams), limit=length, eos=None)
        return [own[0] for own in found]


def agreement(one: list[Any], other: list[Any]) -> dict[str, float]:
    """How alike two lists of hypotheses are: the share of equal texts, and the scores of those."""
    same = [abs(a.score - b.score) for a, b in zip(one, other, strict=True) if a.tokens == b.tokens]
    return {"equal": len(same) / len(one), "score_gap": max(same, default=0.0)}


def measure(name: str, run: Callable[..., Any], args: argparse.Namespace, ready: Callable[..., Any]) -> list[dict]:
    """Tokens per second of one system in every case."""
    rows = []
    for beams in args.beams:
        for batch in args.batches:
            source = ready(sentences(SIZES[args.size]["vocab"], batch, args.source))
            start = time.perf_counter()
            run(source, beams=beams, length=args.length)
            first = time.perf_counter() - start
            for _ in range(3):
                run(source, beams=beams, length=args.length)
            times = timed(
                lambda source=source, beams=beams: run(source, beams=beams, length=args.length),
                device=args.device,
                most=args.seconds,
            )
            middle = statistics.median(times)
            row = {"system": name, "beams": beams, "batch": batch, "tokens_per_second": batch * args.length / middle}
            row |= {"milliseconds": 1000 * middle, "best": 1000 * min(times), "first": 1000 * first, "runs": len(times)}
            bar = BARS.get((beams, batch))
            rows.append(row | {"bar": bar})
            speed = f"{row['tokens_per_second']:10,.0f} tok/s {row['milliseconds']:9.2f} ms"
            rest = f"(best {row['best']:.2f}, first {row['first']:.0f}) bar {bar}"
            print(f"{name:24} beams {beams} batch {batch:4} {speed} {rest}", flush=True)
    return rows


def compare(args: argparse.Namespace) -> list[dict]:
    """The fast path beside the plain one on real sentences, with the trained model that comes with Regard."""
    import regard
    from regard.decoding.batch import stream
    from regard.decoding.beam import SearchPolicy
    from regard.decoding.lane import Group

    translator = regard.load(device=args.device)
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    texts = [line.split("\t")[0] for line in lines][: args.compare]
    read = sorted((translator.encode(text, "fr") for text in texts), key=len, reverse=True)
    batches = [read[start : start + 256] for start in range(0, len(read), 256)]
    groups = [Group(padded_batch(batch, args.device), [2 * len(ids) + 10 for ids in batch]) for batch in batches]
    rows, models = [], {"plain float32": translator.model}
    for name in ("float32", *(["bfloat16", "float16"] if args.device == "cuda" else [])):
        models[f"fast {name}"] = FusedDecoder(translator.model, getattr(torch, name))
    for beams in args.beams:
        beam, truth = Beam(beams=beams), None
        for name, model in models.items():

            def work(model=model, beam=beam) -> list[Any]:
                if isinstance(model, FusedDecoder):
                    found = stream(model, groups, SearchPolicy(beam, EOS), rows=256)
                else:
                    found = [search(model, g.inputs, beam, limit=g.limit, eos=EOS) for g in groups]
                return [own[0] for group in found for own in group]

            answers = [work() for _ in range(3)][-1]
            truth = truth or answers
            taken = statistics.median(timed(work, device=args.device, most=0.2))
            row = {"model": name, "beams": beams, **agreement(truth, answers), "sentences": len(answers)}
            row |= {"sentences_per_second": len(answers) / taken}
            print("real sentences:", json.dumps(row), flush=True)
            rows.append(row)
    return rows


def padded_batch(read: list[list[int]], device: str) -> tuple[torch.Tensor, ...]:
    """Source, lengths and prompt."""
    longest = max(map(len, read))
    source = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in read], device=device)
    lengths = torch.tensor([len(ids) for ids in read], device=device)
    return source, lengths, torch.full((len(read), 1), BOS, device=device)


def marian(config: TransformerConfig, device: str, dtype: torch.dtype) -> Callable[..., Any]:
    """Hugging Face's Marian of the same size, with weights of its own."""
    from transformers import MarianConfig, MarianMTModel

    sizes = {"vocab_size": config.vocab, "d_model": config.width, "max_position_embeddings": 512}
    for side, layers in (("encoder", config.encoder), ("decoder", config.decoder)):
        sizes |= {f"{side}_layers": layers, f"{side}_attention_heads": config.heads, f"{side}_ffn_dim": config.hidden}
    tokens = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS, "forced_eos_token_id": None}
    made = MarianConfig(**sizes, **tokens, activation_function="relu", attn_implementation="sdpa")
    model = MarianMTModel(made).to(device, dtype).eval()

    def run(source: list[list[int]], *, beams: int, length: int) -> list[list[int]]:
        read = torch.tensor(source, device=device)
        span = {"max_new_tokens": length, "min_new_tokens": length}
        out = model.generate(
            input_ids=read, attention_mask=torch.ones_like(read), num_beams=beams, do_sample=False, **span
        )
        return out[:, 1:].tolist()

    return run


def profile(model: Transformer, args: argparse.Namespace, beams: int, batch: int) -> str:
    """The kernels of one replayed search, by the time they take."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    run = Regard(FusedDecoder(model.to(args.device), getattr(torch, args.precision)), args.device)
    source = sentences(SIZES[args.size]["vocab"], batch, args.source)
    for _ in range(4):
        run(source, beams=beams, length=args.length)
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        run(source, beams=beams, length=args.length)
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = {}
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels.setdefault(event.name[:90], []).append(event.device_time)
    lines = [f"profile of beams {beams} batch {batch}: {sum(map(sum, kernels.values())):.0f} us in kernels"]
    ranked = sorted(kernels.items(), key=lambda item: -sum(item[1]))[:22]
    lines += [f"{sum(t):9.0f} us {len(t):5} x {sum(t) / len(t):7.2f} us  {name}" for name, t in ranked]
    return "\n".join(lines)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--systems", nargs="*", default=["regard"], choices=["regard", "plain", "ctranslate2", "marian"]
    )
    parser.add_argument("--size", default="base", choices=list(SIZES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="float16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 64, 512])
    parser.add_argument("--beams", nargs="*", type=int, default=[1, 4])
    parser.add_argument("--source", type=int, default=28)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each case is measured")
    parser.add_argument("--compare", type=int, default=0, help="sentences on which fast and plain path are compared")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    model, dtype = build(args.size), getattr(torch, args.precision)
    machine = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    result: dict[str, Any] = {"machine": machine, "torch": torch.__version__, "settings": vars(args) | {"out": None}}
    rows: list[dict] = []
    for name in args.systems:
        if name in ("regard", "plain"):
            run = Regard(
                FusedDecoder(model.to(args.device), dtype) if name == "regard" else model.to(args.device, dtype),
                args.device,
            )
            rows += measure(f"{name} {args.precision}", run, args, lambda source: source)
            model = build(args.size)
        elif name == "ctranslate2":
            from benchmarks.ctranslate import CTranslate2

            folder = Path(tempfile.mkdtemp())
            peer = CTranslate2(model, folder, device=args.device, precision=args.precision, eos=EOS, bos=BOS)
            rows += measure(f"ctranslate2 {args.precision}", peer, args, peer.words)
        else:
            rows += measure(f"marian {args.precision}", marian(model.config, args.device, dtype), args, list)
    result["rows"] = rows
    if args.compare:
        result["agreement"] = compare(args)
    if args.profile:
        for beams, batch in [(beams, batch) for beams in args.beams for batch in args.batches if batch != 64]:
            print(profile(build(args.size), args, beams, batch), flush=True)
    if args.out:
        args.out.write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
