"""Field-by-field reading of a config.json, which reports every field that is not understood."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.config.words import as_json

T = TypeVar("T")
SHOWN = 60  # characters of a value in an error message

HARMLESS = frozenset(
    {
        "model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path",
        "name_or_path", "_commit_hash", "_attn_implementation", "attn_implementation",
        "_attn_implementation_autoset", "use_cache", "return_dict", "output_attentions", "output_hidden_states",
        "output_past", "torchscript", "use_bfloat16", "tf_legacy_loss", "gradient_checkpointing", "finetuning_task",
        "id2label", "label2id", "num_labels", "problem_type", "tokenizer_class", "initializer_range",
        "initializer_factor", "chunk_size_feed_forward", "bos_token_id", "eos_token_id", "pad_token_id",
        "sep_token_id", "unk_token_id", "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids",
        "begin_suppress_tokens", "suppress_tokens", "task_specific_params", "prefix", "max_length", "min_length",
        "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k",
        "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size", "num_return_sequences", "output_scores", "return_dict_in_generate",
        "remove_invalid_values", "exponential_decay_length_penalty",
    }
)  # fmt: skip
"""Fields of any family that change no number of the model: its origin, how it is written with, how it was started."""
CONSTANT: Mapping[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "tie_encoder_decoder": (False,),
}
"""Fields of any family that would change numbers if they had another value than these."""


class Fields:
    """The fields of a config.json; a field that is neither read nor known to be harmless is an error."""

    def __init__(self, values: Mapping[str, Any], place: str | Path = "config.json") -> None:
        self._found, self.place = values, place
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def whole(self, *names: str, default: int | None) -> Any:
        """Return a whole number under one of these names; null is allowed only if the default is None."""
        value = self._value(names, default)
        if type(value) is not int and (value is not None or default is not None):
            raise self.wrong(names[0], value, "a whole number")
        return value

    def number(self, *names: str, default: float) -> float:
        """Return a number under one of these names."""
        value = self._value(names, default)
        if type(value) not in (int, float):
            raise self.wrong(names[0], value, "a number")
        return float(value)

    def flag(self, *names: str, default: bool) -> bool:
        """Return True or False under one of these names."""
        value = self._value(names, default)
        if type(value) is not bool:
            raise self.wrong(names[0], value, "true or false")
        return value

    def choice(self, *names: str, among: Mapping[str, T], default: str) -> T:
        """Return the meaning of one of these words."""
        value = self._value(names, default)
        if not isinstance(value, str) or value not in among:
            raise self.wrong(names[0], value, f"one of {', '.join(among)}")
        return among[value]

    def raw(self, name: str) -> Any:
        """Return any value; None if the field is missing."""
        return self._value((name,), None)

    def section(self, name: str) -> Fields:
        """Return the fields of a nested object; no fields if it is missing or null."""
        value = self._value((name,), None)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return Fields(value or {}, f"{self.place}: {name}")

    def constant(self, values: Mapping[str, Collection[Any]]) -> None:
        """Raise ValueError if one of these fields has a value that is not supported."""
        for name, allowed in values.items():
            if name in self._found:
                value = self._value((name,), None)
                if not any(type(value) is type(option) and value == option for option in allowed):
                    raise self.wrong(name, value, " or ".join(map(as_json, allowed)))

    def rest(self, harmless: Collection[str] = ()) -> None:
        """Raise ValueError for a field that was not read and is not known to be harmless."""
        for name, value in self._found.items():
            if name not in self._asked and name not in harmless:
                unknown = (
                    f"{quote_name(name)} is {as_json(value)}, a field that is not understood and may change numbers"
                )
                raise ValueError(f"{self.place}: {unknown}: remove it only if you know that it changes none")

    def wrong(self, name: str, value: Any, expected: str) -> ValueError:
        """Return the error for a value that cannot be used."""
        return ValueError(f"{self.place}: {name} must be {expected}, not {as_json(value)}")

    def _value(self, names: tuple[str, ...], default: Any) -> Any:
        self._asked.update(names)
        there = [name for name in names if name in self._found]
        for other in there[1:]:
            if self._found[other] != self._found[there[0]]:
                pair = f"{there[0]} is {as_json(self._found[there[0]])} and {other} is {as_json(self._found[other])}"
                raise ValueError(f"{self.place}: {pair}, which mean the same")
        return self._found[there[0]] if there else default


def quote_name(name: str) -> str:
    """Quote a foreign name if it is long or not printable."""
    return name if name.isprintable() and len(name) <= SHOWN else as_json(name)
