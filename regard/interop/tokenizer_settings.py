"""Settings of tokenizer_config.json: those that affect tokens are applied, or refused if they are not understood.

`transformers` rebuilds the tokenizers of known classes from these settings, so they take precedence over a
tokenizer.json beside them; the generic classes leave a tokenizer.json unchanged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config.words import as_json
from regard.interop.fields import quote_name
from regard.interop.folder import is_there
from regard.interop.special import MORE, ROLES, SETTINGS, WHOLE, Notes, content, vocabulary

GENERIC = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
CLASSES = {
    "bert": "BertTokenizer",
    "distilbert": "DistilBertTokenizer",
    "gpt2": "GPT2Tokenizer",
    "roberta": "RobertaTokenizer",
}
"""The class of a family whose tokenizer_config.json names none."""
BERT, BYTES = ("BertTokenizer", "DistilBertTokenizer"), ("GPT2Tokenizer", "RobertaTokenizer")
LETTERS: Mapping[str, tuple[str, bool | None]] = {
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
"""Settings of BERT's tokenizer: what its normaliser calls them, and what they are where nobody says it."""
WRITERS = ("gpt2", "openai-gpt", "bloom", "llama")  # families for which the begin token follows these settings
CONSTANT: Mapping[str, tuple[Any, ...]] = {
    "do_basic_tokenize": (True, None),
    "never_split": (None, []),
    "clean_text": (True, None),
    "wordpieces_prefix": ("##", None),
    "sp_model_kwargs": (None, {}),
    "separate_vocabs": (False, None),
    "fix_mistral_regex": (False, None),
}
"""Fields that would change tokens if they had another value than these."""
HARMLESS = frozenset(
    {
        *ROLES, *MORE, "added_tokens_decoder", "add_prefix_space", "add_bos_token", "add_eos_token", "auto_map",
        "backend", "chat_template", "clean_up_tokenization_spaces", "default_prompt", "device_map", "errors",
        "extra_ids", "from_slow", "full_tokenizer_file", "is_local", "language_codes", "legacy", "legacy_behaviour",
        "local_files_only", "max_len", "max_length", "model_input_names", "model_max_length",
        "model_specific_special_tokens", "name_or_path",
        "pad_to_multiple_of", "pad_token_type_id", "padding", "padding_side", "processor_class",
        "response_schema", "return_token_type_ids", "source_lang", "spaces_between_special_tokens",
        "special_tokens_map_file", "split_special_tokens", "sp_model_file", "stride", "target_lang", "tokenizer_class",
        "tokenizer_file", "tokenizer_type", "trim_offsets", "truncation", "truncation_side", "truncation_strategy",
        "use_default_system_prompt", "use_fast", "vocab_file", "vocab_size", "merges_file", "_commit_hash",
        "transformers_version", *LETTERS, *CONSTANT,
    }
)  # fmt: skip
"""Fields that are followed here, or change no token of a text: where files lie, how texts are cut and filled up."""


def follow_settings(document: dict[str, Any], notes: Notes, kind: str, folder: Path) -> None:
    """Apply the settings to the tokenizer.json beside them; a contradiction that cannot be resolved is an error.

    A missing setting has the default of its class, which may contradict a tokenizer.json as well; a tokenizer built
    from other files has these defaults already.
    """
    place = folder / SETTINGS
    settings = notes.settings
    if not settings:
        return
    if settings.get("auto_map"):
        raise ValueError(f"{place}: auto_map is {as_json(settings['auto_map'])}, code of its own, which is never run")
    for name, allowed in CONSTANT.items():
        if name in settings and not any(
            type(settings[name]) is type(value) and settings[name] == value for value in allowed
        ):
            expected = " or ".join(map(as_json, allowed))
            raise ValueError(f"{place}: {name} must be {expected}, not {as_json(settings[name])}")
    class_name = settings.get("tokenizer_class") or CLASSES.get(kind, "")
    if not isinstance(class_name, str):
        raise ValueError(f"{place}: tokenizer_class must be a name, not {as_json(class_name)}")
    reader = _Settings(settings, class_name if class_name in GENERIC else class_name.removesuffix("Fast"), place)
    reader.has_defaults = is_there(place) and is_there(folder / WHOLE)
    _follow_letters(document, reader)
    _follow_prefix(document, reader)
    if kind in WRITERS:
        _follow_frame(document, reader, whole=is_there(folder / WHOLE))
    if unknown := sorted(quote_name(name) for name in settings if name not in HARMLESS):
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        warnings.warn(
            f"{place}: {', '.join(unknown[:5])}{more}: not known here, so not followed: check that no token needs it",
            stacklevel=1,
        )


class _Settings:
    """The settings of a tokenizer, and the name of its class in `transformers`."""

    def __init__(self, settings: Mapping[str, Any], name: str, place: Path) -> None:
        self.settings, self.name, self.place, self.has_defaults = settings, name, place, False

    def flag(self, name: str) -> bool | None:
        """Return a setting that is true or false, or None if it is missing."""
        value = self.settings.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{self.place}: {name} must be true or false, not {as_json(value)}")
        return value

    def disagree(self, name: str, here: Any, there: Any) -> ValueError:
        """Return the error for a setting that tokenizer.json contradicts."""
        statement = f"{name} is {as_json(here)}" if name in self.settings else f"{name} is not said, so {as_json(here)}"
        remedy = f"set {name} to {as_json(there)} if the tokenizer is right"
        reader = f" for {quote_name(self.name)}" if self.name else ""
        return ValueError(f"{self.place}: {statement}{reader}, and {as_json(there)} in the tokenizer itself: {remedy}")

    def settle(self, name: str, here: Any, there: Any) -> Any:
        """Return the setting; a contradiction is an error for a generic class or a setting that is only a default."""
        if here != there and (self.name in GENERIC or name not in self.settings):
            raise self.disagree(name, here, there)
        return here


def _follow_letters(document: dict[str, Any], settings: _Settings) -> None:
    """Apply the settings for lowercasing, accents and Chinese characters."""
    normalisers = list(_steps(document.get("normalizer")))
    bert_steps = [step for step in normalisers if step.get("type") == "BertNormalizer"]
    for name, (inner, default) in LETTERS.items():
        is_set = name in settings.settings and (settings.flag(name) is not None or name == "strip_accents")
        if is_set or (settings.name in BERT and settings.has_defaults):
            value = settings.flag(name) if is_set else default
            for step in bert_steps:
                step[inner] = settings.settle(name, value, step.get(inner, default))
    small = any(step.get("type") == "Lowercase" for step in normalisers)
    if not bert_steps and settings.flag("do_lower_case") not in (None, small):
        raise settings.disagree("do_lower_case", not small, small)


def _follow_prefix(document: dict[str, Any], settings: _Settings) -> None:
    """Apply the setting that a text starts with a blank."""
    value = settings.flag("add_prefix_space")
    cuts = list(_steps(document.get("pre_tokenizer")))
    levels = [step for step in cuts if step.get("type") == "ByteLevel"]
    marks = [step.get("prepend_scheme", "always") != "never" for step in cuts if step.get("type") == "Metaspace"]
    marks += [True for step in _steps(document.get("normalizer")) if step.get("type") == "Prepend"]
    if levels and (value is not None or (settings.name in BYTES and settings.has_defaults)):
        for step in levels:
            step["add_prefix_space"] = settings.settle(
                "add_prefix_space", bool(value), step.get("add_prefix_space", True)
            )
    elif marks and value is not None and value != any(marks):
        raise settings.disagree("add_prefix_space", value, any(marks))


def _follow_frame(document: dict[str, Any], settings: _Settings, *, whole: bool) -> None:
    """Apply the setting that a text starts with a begin token; an existing tokenizer.json takes precedence."""
    add_begin, token = settings.flag("add_bos_token"), settings.settings.get("bos_token")
    if settings.flag("add_eos_token") and not whole:
        remedy = "set it to false if texts are to be continued"
        raise ValueError(f"{settings.place}: add_eos_token is true, and nothing is put after a text here: {remedy}")
    if add_begin is None or token is None:
        return
    name = content(token, settings.place)
    ids = {**vocabulary(document), **{added["content"]: added["id"] for added in document["added_tokens"]}}
    needs_begin, there = add_begin and name in ids, _first(document.get("post_processor")) == name
    if needs_begin == there:
        return
    if whole:
        what = "puts that token before a text" if there else "does not put that token before a text"
        warnings.warn(
            f"{settings.place}: add_bos_token is {as_json(add_begin)}, and {WHOLE}, which counts, {what}", stacklevel=1
        )
        return
    texts = [{"Sequence": {"id": side, "type_id": number}} for number, side in enumerate("AB")]
    begin = [{"SpecialToken": {"id": name, "type_id": 0}}] if needs_begin else []
    special = {name: {"id": name, "ids": [ids[name]], "tokens": [name]}} if needs_begin else {}
    template = {"single": [*begin, texts[0]], "pair": [*begin, texts[0], *begin, texts[1]]}
    document["post_processor"] = {"type": "TemplateProcessing", **template, "special_tokens": special}


def _first(part: Any) -> str | None:
    """Return the first token that a post-processor adds to a text."""
    for step in _steps(part):
        if step.get("type") == "TemplateProcessing" and isinstance(step.get("single"), list) and step["single"]:
            first = step["single"][0]
            token = first.get("SpecialToken") if isinstance(first, dict) else None
            return token.get("id") if isinstance(token, dict) else None
        if step.get("type") in ("BertProcessing", "RobertaProcessing") and isinstance(step.get("cls"), list):
            return next(iter(step["cls"]), None)
    return None


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normaliser, a pre-tokenizer or a post-processor in order."""
    if isinstance(part, dict):
        if part.get("type") != "Sequence":
            yield part
        for inner in (part.get(name) for name in ("normalizers", "pretokenizers", "processors")):
            for step in inner if isinstance(inner, list) else ():
                yield from _steps(step)
