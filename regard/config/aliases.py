"""Names of settings in other libraries, each with the name that Regard uses.

A table entry is one line. Targets are tried in order, and the first one that the recipe has is named; a target may be
several settings joined by `and`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from regard.config.describing import describe
from regard.config.fields import hints, sections
from regard.config.former_names import FORMER
from regard.config.words import join, suggest_name

RATE = ("optim.learning_rate",)
WIDTH = ("model.width",)
LAYERS = ("model.depth", "model.encoder and model.decoder")
BATCH = ("data.batch_size", "data.batch_tokens")
LENGTH = ("data.max_length", "tokenizer.max_length", "data.window", "model.context")
STEPS = ("training.steps", "training.epochs")
EPOCHS = ("training.epochs", "training.steps")
BEAMS = ("decoding.beams",)

USUAL: dict[str, tuple[str, ...]] = {
    # Optimizer.
    "lr": RATE,
    "learning_rate": RATE,
    "max_lr": RATE,
    "peak_lr": RATE,
    "optimizer": ("optim.name",),
    "optim_name": ("optim.name",),
    "adam_betas": ("optim.betas",),
    "adam_beta1": ("optim.betas",),
    "adam_beta2": ("optim.betas",),
    "beta1": ("optim.betas",),
    "beta2": ("optim.betas",),
    "epsilon": ("optim.eps",),
    "adam_epsilon": ("optim.eps",),
    "weight_decay": ("optim.weight_decay",),
    "decay": ("optim.weight_decay",),
    "wd": ("optim.weight_decay",),
    "warmup_steps": ("optim.warmup",),
    "num_warmup_steps": ("optim.warmup",),
    "warmup_updates": ("optim.warmup",),
    "scheduler": ("optim.schedule",),
    "lr_scheduler": ("optim.schedule",),
    "lr_scheduler_type": ("optim.schedule",),
    # Training.
    "max_steps": STEPS,
    "num_steps": STEPS,
    "max_updates": STEPS,
    "iterations": STEPS,
    "max_iters": STEPS,
    "epochs": EPOCHS,
    "max_epochs": EPOCHS,
    "num_epochs": EPOCHS,
    "n_epochs": EPOCHS,
    "num_train_epochs": EPOCHS,
    "minutes": ("training.seconds",),
    "hours": ("training.seconds",),
    "max_time": ("training.seconds",),
    "grad_accum": ("training.accumulate",),
    "accumulate_grad_batches": ("training.accumulate",),
    "gradient_accumulation": ("training.accumulate",),
    "gradient_accumulation_steps": ("training.accumulate",),
    "update_freq": ("training.accumulate",),
    "max_grad_norm": ("training.clip",),
    "grad_clip": ("training.clip",),
    "clip_norm": ("training.clip",),
    "gradient_clip_val": ("training.clip",),
    "clip_grad_norm": ("training.clip",),
    "patience": ("training.patience",),
    "early_stopping": ("training.patience",),
    "early_stopping_patience": ("training.patience",),
    "eval_steps": ("training.eval_every",),
    "eval_interval": ("training.eval_every",),
    "eval_every": ("training.eval_every",),
    "validate_interval": ("training.eval_every",),
    "save_steps": ("training.save_every",),
    "save_interval": ("training.save_every",),
    "checkpoint_every": ("training.save_every",),
    "save_total_limit": ("training.keep",),
    "logging_steps": ("training.log_every",),
    "log_interval": ("training.log_every",),
    "log_every": ("training.log_every",),
    "seed": ("training.seed",),
    "random_seed": ("training.seed",),
    "random_state": ("training.seed",),
    "device": ("training.device",),
    "dtype": ("training.precision",),
    "fp16": ("training.precision",),
    "bf16": ("training.precision",),
    "amp": ("training.precision",),
    "mixed_precision": ("training.precision",),
    "torch_compile": ("training.compile",),
    "num_workers": ("training.threads",),
    # Data.
    "batch": BATCH,
    "batch_size": BATCH,
    "train_batch_size": BATCH,
    "per_device_train_batch_size": BATCH,
    "max_tokens": ("data.batch_tokens", "data.window"),
    "max_length": LENGTH,
    "max_len": LENGTH,
    "max_seq_len": LENGTH,
    "max_seq_length": LENGTH,
    "sequence_length": LENGTH,
    "block_size": ("data.window", "model.context"),
    "bptt": ("data.window",),
    "bptt_len": ("data.window",),
    "train_file": ("data.train",),
    "train_data": ("data.train",),
    "validation_file": ("data.valid",),
    "valid_data": ("data.valid",),
    "dev": ("data.valid",),
    "src": ("data.train.source",),
    "tgt": ("data.train.target",),
    "val_split": ("data.validation_share", "data.validation_size"),
    "validation_split": ("data.validation_share", "data.validation_size"),
    "test_size": ("data.validation_share", "data.validation_size"),
    # Tokenizer.
    "vocab_size": ("tokenizer.vocab", "data.vocab"),
    "n_vocab": ("tokenizer.vocab", "data.vocab"),
    "max_vocab": ("tokenizer.vocab", "data.vocab"),
    "min_freq": ("tokenizer.min_frequency", "data.min_count"),
    "min_frequency": ("tokenizer.min_frequency", "data.min_count"),
    "min_count": ("tokenizer.min_frequency", "data.min_count"),
    "tokenizer_type": ("tokenizer.kind",),
    "lower": ("tokenizer.lowercase", "data.lowercase"),
    "do_lower_case": ("tokenizer.lowercase", "data.lowercase"),
    # Model.
    "d_model": WIDTH,
    "hidden_size": WIDTH,
    "n_embd": WIDTH,
    "dim": WIDTH,
    "model_dim": WIDTH,
    "vector_size": WIDTH,
    "embedding_dim": ("model.embedding", "model.width"),
    "embed_dim": ("model.embedding", "model.width"),
    "embedding_size": ("model.embedding", "model.width"),
    "d_ff": ("model.hidden",),
    "dim_feedforward": ("model.hidden",),
    "ffn_dim": ("model.hidden",),
    "intermediate_size": ("model.hidden",),
    "n_head": ("model.heads",),
    "n_heads": ("model.heads",),
    "num_heads": ("model.heads",),
    "nhead": ("model.heads",),
    "num_attention_heads": ("model.heads",),
    "num_key_value_heads": ("model.groups",),
    "n_layer": LAYERS,
    "n_layers": LAYERS,
    "layers": LAYERS,
    "num_layers": LAYERS,
    "num_hidden_layers": LAYERS,
    "depth": LAYERS,
    "num_encoder_layers": ("model.encoder",),
    "encoder_layers": ("model.encoder",),
    "num_decoder_layers": ("model.decoder",),
    "decoder_layers": ("model.decoder",),
    "dropout": ("model.dropout",),
    "dropout_rate": ("model.dropout",),
    "dropout_prob": ("model.dropout",),
    "hidden_dropout_prob": ("model.dropout",),
    "attention_probs_dropout_prob": ("model.attention_dropout",),
    "max_position_embeddings": ("model.context",),
    "n_ctx": ("model.context",),
    "context_length": ("model.context",),
    "tie_weights": ("model.share", "model.tied"),
    "tie_word_embeddings": ("model.share", "model.tied"),
    "model_type": ("model.name",),
    "rnn_type": ("model.cell",),
    "negative": ("model.negatives",),
    "sg": ("model.architecture",),
    # Objective and decoding.
    "label_smoothing": ("objective.label_smoothing",),
    "label_smoothing_factor": ("objective.label_smoothing",),
    "class_weight": ("objective.balanced",),
    "rdrop": ("objective.rdrop",),
    "beam": BEAMS,
    "beams": BEAMS,
    "beam_size": BEAMS,
    "beam_width": BEAMS,
    "num_beams": BEAMS,
    "n_best": ("decoding.nbest",),
    "num_return_sequences": ("decoding.nbest", "writing.samples"),
    "lenpen": ("decoding.length_penalty",),
    "alpha": ("decoding.length_penalty",),
    "do_sample": ("decoding.sample",),
    "no_repeat_ngram_size": ("decoding.no_repeat",),
    "max_new_tokens": ("writing.length", "decoding.longest"),
    "temperature": ("decoding.temperature", "writing.temperature"),
    "top_k": ("decoding.top_k", "writing.top_k"),
    "top_p": ("decoding.top_p", "writing.top_p"),
}

MOVED: dict[str, str] = {
    "training.rate": "optim.learning_rate",
    "training.last": "optim.final_learning_rate",
}
"""Settings that were in another section before; those that only had another name are in `former_names`."""

FORMER_VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    ("model.name", "recurrent"): ("seq2seq", "rnn-encoder"),
    ("model.name", "recurrent-language"): ("rnn-lm",),
    ("model.name", "convolution"): ("cnn-encoder",),
    ("model.name", "transformer"): ("transformer-encoder",),
    ("objective.loss", "overlap"): ("giou",),
}
"""What values of ours were called before, by the setting and the old value: the one that the recipe has now."""


class UnknownSetting(ValueError):
    """Raised for a name that a section does not have."""

    def __init__(self, where: str, name: str, available: tuple[str, ...]) -> None:
        super().__init__(f"unknown setting {join(where, name)}{suggest_name(name, available)}")
        self.where, self.name, self.known = where, name, available


def answer(error: UnknownSetting, cls: type, where: str) -> str:
    """Return the error message for an unknown setting of a dataclass that is the section `where`."""
    full_name = join(error.where, error.name)
    helps = {row.name.replace("[]", ""): row.help for row in describe(cls, where=where)}
    there = {join(error.where, name) for name in error.known}
    candidates = [
        *([MOVED[full_name]] if full_name in MOVED else []),
        *USUAL.get(error.name.lower().replace("-", "_"), ()),
        *(target for former, targets in FORMER.items() if former.endswith(f".{error.name}") for target in targets),
    ]
    bare = [target.rpartition(".")[2] for target in candidates]  # `beam_size=5` where only decoding is set
    for available in (there, names(cls, where=where)):
        for target in (*candidates, *bare):
            if target != full_name and all(part in available for part in target.split(" and ")):
                help = helps.get(target, "")
                return f"unknown setting {full_name}: it is called {target} here{f' ({help})' if help else ''}"
    return str(error)


def names(cls: type, *, where: str = "") -> set[str]:
    """Return the full names of all settings below a dataclass, including all models to choose from and list entries."""
    full_names = set()
    for name, kind in hints(cls).items():
        if dataclasses.is_dataclass(cls) and name in {field.name for field in dataclasses.fields(cls)}:
            full_names.add(join(where, name))
            for section in sections(kind):
                full_names |= names(section, where=join(where, name))
    return full_names


def renamed_value(where: str, value: Any, choices: tuple) -> str | None:
    """Return the current name of a value that had another name before; None if it has none."""
    new_values = FORMER_VALUES.get((where, value), ()) if isinstance(value, str) else ()
    return next((new for new in new_values if new in choices), None)
