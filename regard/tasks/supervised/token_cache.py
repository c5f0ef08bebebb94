"""The cache of tokenised texts: the key of an entry, and the description of its files in data.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard import config as settings
from regard.data import cache
from regard.data.normalise import TextConfig
from regard.data.readers import digest
from regard.data.tokenizers import Tokenizer

SIDES = ("train", "valid")


def digest_files(data_config: Any) -> dict[str, list[str]]:
    """Return the digest of every training and validation file."""
    return {side: [digest(file.path) for file in getattr(data_config, side)] for side in SIDES}


def describe_tokenizer(tokenizer_config: Any, parent_tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return the part of a cache key that identifies a tokenizer: its settings, and the tokenizer of a parent model."""
    parent = None if parent_tokenizer is None else [_describe_settings(parent_tokenizer.how), parent_tokenizer.json()]
    return {"how": _describe_settings(tokenizer_config), "known": parent}


def _describe_settings(tokenizer_config: Any) -> dict[str, Any]:
    """Return the settings of a tokenizer under their former names, so that older digests stay valid."""
    return settings.restore_former_names(settings.plain(tokenizer_config), where="tokenizer")


def restore_tokenizer(facts: dict[str, Any], kind: type[TextConfig]) -> Tokenizer:
    """Return the tokenizer of a cache entry."""
    return Tokenizer.parse(facts["tokenizer"], settings.build(kind, facts["how"], where="tokenizer"))


def report_files(
    corpora: Sequence[dict[str, Any]], digests: Sequence[str], data_config: Any, **key: Any
) -> dict[str, Any]:
    """Return the entry of some files in data.json: a fingerprint, and the counts and digest of each."""
    validation = "named" if data_config.valid else data_config.validation_share
    return {
        "fingerprint": cache.key(**key, files=list(digests), held=validation),
        "corpora": [{**corpus, "sha256": [sha]} for corpus, sha in zip(corpora, digests, strict=True)],
    }
