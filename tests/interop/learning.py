"""Small models of other people's families that `transformers` itself trains for a few hundred steps."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, pre_tokenizers, trainers
from tokenizers import models as kinds
from torch import Tensor

LINES = [
    "the dog ran after the cat",
    "the cat ran up the oak",
    "an owl saw both of them",
    "the owl said nothing",
    "the dog went home",
    "the cat came down",
]
STEPS, BATCH, WINDOW, STRIDE = 200, 4, 20, 10
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # RoBERTa counts places from its pad on, which is 1

Batches = Iterator[dict[str, Tensor]]


def learn(model: Any, batches: Batches) -> list[float]:
    """Train a model by a plain loop; the loss of every step."""
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=5e-3, fused=True)
    losses = []
    model.train()
    for batch in islice(batches, STEPS):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def spell(folder: Path, vocab: int) -> list[int]:
    """Save a byte-level tokenizer trained on the text to a folder; the text in its tokens."""
    text = "\n".join([*LINES, ""])
    made = Engine(kinds.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator([text], trainers.BpeTrainer(vocab_size=vocab, special_tokens=SPECIAL, show_progress=False))
    made.save(str(folder / "tokenizer.json"))
    return made.encode(text).ids


def causal(ids: list[int]) -> Batches:
    """Windows in which each next token is to be told."""
    return ({"input_ids": tokens, "labels": tokens} for tokens in _windows(ids))


def masked(ids: list[int]) -> Batches:
    """Windows of which a third is hidden."""
    draw = torch.Generator().manual_seed(2)
    for tokens in _windows(ids):
        hidden = torch.rand(tokens.shape, generator=draw) < 1 / 3
        read = tokens.masked_fill(hidden, SPECIAL.index("<mask>"))
        yield {"input_ids": read, "labels": tokens.masked_fill(~hidden, -100)}


def _windows(ids: list[int]) -> Iterator[Tensor]:
    """Batches of windows of a text that repeats."""
    draw = torch.Generator().manual_seed(1)
    text = torch.tensor(ids * 2)
    while True:
        starts = STRIDE * torch.randint(0, len(ids) // STRIDE, (BATCH, 1), generator=draw)
        yield text[starts + torch.arange(WINDOW)]


def pairs(read: Callable[[str], list[int]], written: Callable[[str], list[int]], pad: int) -> Batches:
    """Every line with the one that follows it, all of them together in one padded batch."""
    sources = [torch.tensor(read(line)) for line in LINES]
    targets = [torch.tensor(written(line)) for line in (*LINES[1:], LINES[0])]
    source = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=pad)
    target = torch.nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=-100)
    while True:
        yield {"input_ids": source, "attention_mask": (source != pad).long(), "labels": target}
