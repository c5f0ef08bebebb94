"""Small models of every kind that attends, with random weights: what is looked at is as real as in a trained one."""

from pathlib import Path
from typing import Any

import torch

import regard
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.text_classifier import ENCODERS, Labeller
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig, train_tokenizer
from regard.tasks.text_labels.classifier import Classifier
from regard.tasks.text_labels.tagger import Tagger
from regard.tasks.translation.translator import Translator

CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "format-1"
TEXT = "le chat noir dort ici"
WRITING = ("transformer", "bahdanau", "luong_general")
LABELLING = ("class", "mean", "pooled transformer", "pooled recurrent", "pooled convolution", "tagger")


def model(kind: str) -> Any:
    """A translator, classifier or tagger in use."""
    torch.manual_seed(0)
    if kind == "transformer":
        return regard.load(CHECKPOINT, device="cpu")
    if kind in WRITING:
        known = regard.load(CHECKPOINT, device="cpu")
        shape = Seq2SeqConfig(vocab=known.source.vocab, width=16, embedding=16, attention=kind, context=64)
        return Translator(Seq2Seq(shape).eval(), (known.source, known.target), known.decoding, "small")
    return labeller(kind)


def labeller(kind: str) -> Classifier | Tagger:
    """One that says what a text is, or each of its words."""
    tokenizer = train_tokenizer([TEXT, "un chien blanc mange"], TextTokenizerConfig())
    name = kind.split()[-1] if kind.startswith("pooled") else "transformer"
    shape = {"vocab": tokenizer.vocab, "classes": 3, "embedding": 8, "per_token": kind == "tagger"}
    shape |= {"width": 8} if name != "convolution" else {"maps": 4, "widths": (1, 2)}
    shape |= {"heads": 2, "hidden": 16} if name == "transformer" else {}
    pool = {"class": "class", "mean": "mean", "tagger": "mean"}.get(kind, "attention")
    encoder = {"recurrent": "rnn-encoder", "convolution": "cnn-encoder", "transformer": "transformer-encoder"}[name]
    built = Labeller(ENCODERS[encoder][1](**shape, pool=pool)).eval()
    return (Tagger if kind == "tagger" else Classifier)(built, tokenizer, ["nom", "verbe", "autre"], {}, "small")
