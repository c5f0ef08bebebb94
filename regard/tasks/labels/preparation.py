"""Labelled texts as packed rows: from files to tokens in the cache, and from a row number to tensors (collate)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard import config as settings
from regard.data import cache as caches
from regard.data.examples import Splits
from regard.data.line_report import LineReport
from regard.data.readers import digest, suffix
from regard.data.tokenizers import Tokenizer
from regard.data.training_sample import warn_of_shared
from regard.metrics.likelihood import IGNORE
from regard.tasks.labels.choice_file import pair_with_choices, sort_choices
from regard.tasks.labels.dataset import LabelledDataset
from regard.tasks.labels.examples import Example, LabelledExamples, label_names, label_numbers, split_examples
from regard.tasks.labels.files import ChoicesConfig, LabelsConfig, RatingsConfig, TagsConfig, read_examples
from regard.tasks.labels.input_format import (
    EncodedText,
    InputFormat,
    Texts,
    add_format_tokens,
    build_format,
    encode_texts,
)
from regard.tasks.labels.sentence_chunks import encode_sentences
from regard.tasks.labels.text_pairs import both_orders
from regard.tasks.labels.text_tokenizer import TextTokenizerConfig, resolve_token_kind, train_tokenizer

AnyConfig = LabelsConfig | TagsConfig | RatingsConfig | ChoicesConfig
MAX_PLACES = 5  # places named of many
OVERLAP_WARNING = "texts measured on are also trained on"
TEXTS_PER_BLOCK = 4096  # texts tokenised at a time
ARRAYS = ("tokens", "starts", "labels", "origins", "seconds")


@dataclass(frozen=True, kw_only=True)
class PreparedTexts(Splits[LabelledDataset, LabelledDataset]):
    """Texts as tokens, and the tokenizer."""

    tokenizer: Tokenizer
    pairs: bool = False
    """Whether every text is a pair of texts."""


def prepare(
    config: AnyConfig,
    how: TextTokenizerConfig,
    known: Tokenizer | None = None,
    told: list[str] | None = None,
    *,
    style: str = "plain",
    cache: str | Path | None = None,
) -> PreparedTexts:
    """Texts of these files as tokens, read once and cached by content.

    Tokens that are `known` are used as they are, and labels that are `told` if there are no others in the files;
    `style` is that of the model, which wants some tokens around texts.
    """
    digests = {name: [digest(file.path) for file in getattr(config, name)] for name in ("train", "valid")}
    contents = {
        "labels": 6,
        "files": {
            name: list(zip(map(_file_settings, getattr(config, name)), one, strict=True))
            for name, one in digests.items()
        },
        "rules": [config.names, config.held, config.reject],
        "how": settings.plain(how),
        "known": None if known is None else [settings.plain(known.how), known.json()],
        "told": told,
        "style": style,
    }
    kept = caches.cached_arrays(
        "labels", contents, lambda builder: _write_cache(builder, config, how, known, told, style), cache=cache
    )
    facts = kept.facts
    own = Tokenizer.parse(facts["tokenizer"], settings.build(TextTokenizerConfig, facts["how"], where="tokenizer"))
    sides = {name: _open_dataset(kept, config, name, own.filler, style) for name in ("train", "valid")}
    classes, held = facts["classes"], "named" if config.valid else config.held
    found = {name: _restore_reports(config, name, facts) for name in facts["tallies"]}
    report: dict[str, Any] = {name: _describe_files(each, digests[name], held) for name, each in found.items()}
    report |= {"vocab": own.vocab, "labels": classes, "texts": {name: len(side) for name, side in sides.items()}}
    report["tokens"] = {name: int(side.lengths.sum()) for name, side in sides.items()}
    measured, (both, places) = config.valid or config.train, facts["both"]
    summary = [
        *kept.notes,
        *(line for each in found.values() for line in each.summary),
        *warn_of_shared(both, [f"{measured[file].path}:{line}" for file, line in places], OVERLAP_WARNING),
    ]
    unit, kinds = ("questions", "choices") if sides["train"].chosen else ("texts", "labels")
    summary.append(
        f"{len(sides['train']):,} {unit} to train on, {len(sides['valid']):,} held out, "
        f"{f'{len(classes)} {kinds}, ' if classes else ''}{own.vocab:,} tokens"
    )
    return PreparedTexts(
        train=sides["train"],
        valid=sides["valid"],
        classes=classes,
        report=report,
        summary=summary,
        fresh=known is None,
        tokenizer=own,
        pairs=facts["pairs"],
    )


def _write_cache(
    builder: caches.Builder,
    config: AnyConfig,
    how: TextTokenizerConfig,
    known: Tokenizer | None,
    told: list[str] | None,
    style: str,
) -> None:
    """Read and tokenise the files, and leave everything that training needs in the cache."""
    found = read_examples(config.train, config.names, config.reject)
    if config.valid:
        train, valid = found, read_examples(config.valid, config.names, config.reject)
    else:
        train, valid = split_examples(found, config.held)
    own, classes = known or learn_tokenizer(train, how), label_names(found, told)
    own = add_format_tokens(own, style, pairs=found.pairs)
    same = sort_choices if found.choices else tuple
    met = {same(example.words) for example in train.examples}
    both = [example.place for example in valid.examples if same(example.words) in met]
    for name, side in (("train", train), ("valid", valid)):
        indexed = build_dataset(side, own, classes, style)
        for array in ARRAYS:
            part = getattr(indexed, array)
            builder.add(f"{name}-{array}", np.zeros(0, np.int64) if part is None else part)
        lines = (json.dumps(words, ensure_ascii=False) + "\n" for words in indexed.words)
        builder.add(f"{name}-written", np.frombuffer("".join(lines).encode(), np.uint8))
    sets = {"train": found, **({"valid": valid} if config.valid else {})}
    builder.facts |= {
        "classes": classes,
        "how": settings.plain(own.how),
        "tokenizer": own.json(),
        "tallies": {name: [tally.plain() for tally in each.tallies] for name, each in sets.items()},
        "notes": {name: each.notes for name, each in sets.items()},
        "pairs": found.pairs,
        "ways": indexed.ways,
        "both": [len(both), both[:MAX_PLACES]],
    }


def _restore_reports(config: AnyConfig, name: str, facts: Mapping[str, Any]) -> LabelledExamples:
    """What became of the lines of some files when they were read, without their examples."""
    paths = tuple(file.path for file in getattr(config, name))
    tallies = [LineReport.parse(tally) for tally in facts["tallies"][name]]
    return LabelledExamples(paths, [], tallies, isinstance(config, TagsConfig), tuple(facts["notes"][name]))


def _open_dataset(kept: caches.Arrays, config: AnyConfig, name: str, filler: int, style: str) -> LabelledDataset:
    arrays: dict[str, Any] = {array: kept[f"{name}-{array}"] for array in (*ARRAYS, "written")}
    arrays |= {} if kept.facts["pairs"] and style == "bert" else {"seconds": None}
    paths = tuple(file.path for file in (config.valid if name == "valid" and config.valid else config.train))
    arrays |= {"per_token": isinstance(config, TagsConfig), "chosen": isinstance(config, ChoicesConfig)}
    return LabelledDataset(**arrays, files=paths, filler=filler, ways=kept.facts["ways"])


def _file_settings(file: Any) -> dict[str, Any]:
    """What decides how a file is read, but for where it lies."""
    return {**settings.plain(file), "path": suffix(file.path)}


def build_dataset(
    found: LabelledExamples, own: Tokenizer, classes: Sequence[str], style: str = "plain"
) -> LabelledDataset:
    """Examples as tokens, in order of their length."""
    numbers = label_numbers(found, classes)
    form = build_format(own, style, pairs=found.pairs)
    both = found.rated and style == "gpt"  # which sees the second text from the first in one order only
    read = pair_with_choices if found.choices else both_orders if both else lambda words: [words]
    parts = (
        _encode_tagged_sentences(found, numbers, own, form)
        if found.per_token
        else _encode_whole_texts(found, numbers, own, form, read)
    )
    pieces = sorted(parts, key=lambda piece: sum(len(one.tokens) for one in piece[0]))
    ways, marks, examples = zip(*pieces, strict=True)
    laid = [one for some in ways for one in some]
    return LabelledDataset(
        np.concatenate([np.array(one.tokens, np.int32) for one in laid]),
        np.cumsum([0, *(len(one.tokens) for one in laid)]),
        np.concatenate([np.array(mark, np.float32 if found.rated else np.int32) for mark in marks]),
        np.array([example.place for example in examples], np.int64).reshape(-1, 2),
        found.files,
        found.per_token,
        [example.words for example in examples],
        own.filler,
        np.array([one.second for one in laid], np.int64) if found.pairs and style == "bert" else None,
        len(ways[0]),
        bool(found.choices),
    )


ExpandTexts = Callable[[Texts], list[Texts]]
EncodedExample = tuple[
    list[EncodedText], list[Any], Example
]  # tokens, a label for all or for each, and what they were read from


def _encode_whole_texts(
    found: LabelledExamples, numbers: list[list[Any]], own: Tokenizer, form: InputFormat, read: ExpandTexts
) -> Iterator[EncodedExample]:
    """Texts that have one label, each as what is `read` of it."""
    every = iter(zip(found.examples, numbers, strict=True))
    while block := list(islice(every, TEXTS_PER_BLOCK)):
        given = [read(example.words) for example, _ in block]
        laid = iter(encode_texts(own, form, [texts for some in given for texts in some]))
        for (example, label), some in zip(block, given, strict=True):
            yield list(islice(laid, len(some))), label, example


def _encode_tagged_sentences(
    found: LabelledExamples, numbers: list[list[Any]], own: Tokenizer, form: InputFormat
) -> Iterator[EncodedExample]:
    """Sentences whose words have labels, in pieces that are not too long."""
    both = iter(zip(found.examples, numbers, strict=True))
    while block := list(islice(both, TEXTS_PER_BLOCK)):
        pieces = encode_sentences(own, [example.words for example, _ in block], form)
        for (example, of_words), sentence in zip(block, pieces, strict=True):
            for words, ids in sentence:
                marks = [IGNORE] * len(ids)
                for word, place in words:
                    label = of_words[word]
                    marks[place] = IGNORE if label is None else label
                yield [EncodedText(ids, len(ids))], marks, example


def learn_tokenizer(train: LabelledExamples, how: TextTokenizerConfig) -> Tokenizer:
    """The tokens of the texts to learn from."""
    if not train.per_token:
        texts = [text for example in train.examples for text in example.words]
        how = resolve_token_kind(how, texts)
        return train_tokenizer(map(how.normal, texts), how)
    return train_tokenizer((" ".join(map(how.normal_word, example.words)) for example in train.examples), how)


def _describe_files(found: LabelledExamples, digests: Sequence[str], held: float | str) -> dict[str, Any]:
    """What is known of some files, for data.json."""
    both = zip(found.files, found.tallies, digests, strict=True)
    corpora = [{**tally.report([name]), "sha256": [one]} for name, tally, one in both]
    return {"fingerprint": caches.key(labels=1, files=list(digests), held=held), "corpora": corpora}
