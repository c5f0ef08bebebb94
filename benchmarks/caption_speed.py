"""Captions a second of a Transformer captioner, beside transformers' VisionEncoderDecoder of the same sizes.

    python -m benchmarks.caption_speed --out caption_speed.json
    python -m benchmarks.caption_speed --toy                     small ones, on any machine

A ViT reads pictures of 224 x 224 and decoder blocks write exactly 20 tokens with four beams, 64 pictures at a time, in
half precision, with random weights. Regard is asked through `caption`, from arrays of bytes to
texts; transformers' `generate` gets normalised pixels that lie on the GPU and gives tokens. Both are timed by turns,
the median counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import ledger

LENGTH, BEAMS = 20, 4
FULL = {"size": 224, "patch": 16, "width": 384, "heads": 6, "hidden": 1536, "depth": 12}
TOY = {"size": 32, "patch": 8, "width": 32, "heads": 2, "hidden": 64, "depth": 1}
WRITER = {"width": 512, "heads": 8, "hidden": 2048, "decoder": 4}
SMALL = {"width": 32, "heads": 2, "hidden": 64, "decoder": 1}
VOCAB = 2_700  # about Flickr8k's words that occur five times


def main() -> None:
    """Time both, print captions a second and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("caption_speed.json"))
    asked = parser.parse_args()
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder, writer = (TOY, SMALL) if asked.toy else (FULL, WRITER)
    sides = {"regard": ours(asked, encoder, writer, place), "transformers": theirs(asked, encoder, writer, place)}
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(asked.turns + 1):
        for name, write in sides.items():
            began = time.perf_counter()
            write()
            if place.type == "cuda":
                torch.cuda.synchronize()
            if turn:  # in the first everything is set up
                found[name].append(asked.pictures / (time.perf_counter() - began))
    speeds = {name: round(statistics.median(each), 1) for name, each in found.items()}
    ledger.record(asked.out, ["captions/s"], {**speeds, "ratio": round(speeds["regard"] / speeds["transformers"], 2)})


def ours(
    asked: argparse.Namespace, encoder: dict[str, int], writer: dict[str, int], place: torch.device
) -> Callable[[], Any]:
    """Regard's captioner, from bytes to texts."""
    from regard.data.tokenizers import TokenizerConfig
    from regard.data.tokenizers import train as trained
    from regard.models.captioner import TransformerCaptioner, TransformerCaptionerConfig
    from regard.models.vit import ViTConfig
    from regard.tasks.captions.writer import CaptionWriter

    words = [" ".join(f"w{number}" for number in range(first, first + 10)) for first in range(0, VOCAB, 10)]
    tokenizer = trained(words, TokenizerConfig(kind="words", min_frequency=1))
    model = TransformerCaptioner(
        TransformerCaptionerConfig(encoder=ViTConfig(**encoder, pooling="class"), vocab=tokenizer.vocab, **writer)
    )
    data = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    face = CaptionWriter(model.to(place).eval(), tokenizer, data)
    size = encoder["size"]
    pictures = list(np.random.default_rng(0).integers(0, 256, (asked.pictures, size, size, 3), np.uint8))
    how = {"beams": BEAMS, "longest": LENGTH, "minimum": LENGTH, "batch": asked.batch}
    return lambda: face.caption(pictures, **how)


def theirs(
    asked: argparse.Namespace, encoder: dict[str, int], writer: dict[str, int], place: torch.device
) -> Callable[[], Any]:
    """transformers' ViT and a GPT-2 that looks at it, from pixels to tokens."""
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        VisionEncoderDecoderModel,
        ViTConfig,
        ViTModel,
    )

    reads = ViTConfig(
        image_size=encoder["size"],
        patch_size=encoder["patch"],
        hidden_size=encoder["width"],
        num_attention_heads=encoder["heads"],
        intermediate_size=encoder["hidden"],
        num_hidden_layers=encoder["depth"],
    )
    writes = GPT2Config(
        n_embd=writer["width"],
        n_head=writer["heads"],
        n_inner=writer["hidden"],
        n_layer=writer["decoder"],
        vocab_size=VOCAB,
        n_positions=128,
        add_cross_attention=True,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    model = VisionEncoderDecoderModel(encoder=ViTModel(reads, add_pooling_layer=False), decoder=GPT2LMHeadModel(writes))
    half = torch.float16 if place.type == "cuda" else torch.float32
    model = model.to(place, half).eval()
    pixels = torch.randn(asked.pictures, 3, encoder["size"], encoder["size"], device=place, dtype=half)

    @torch.inference_mode()
    def write() -> None:
        for some in pixels.split(asked.batch):
            model.generate(
                pixel_values=some,
                num_beams=BEAMS,
                max_new_tokens=LENGTH,
                min_new_tokens=LENGTH,
                do_sample=False,
                decoder_start_token_id=0,
                pad_token_id=2,
            )

    return write


if __name__ == "__main__":
    main()
