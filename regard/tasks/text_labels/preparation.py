"""Preparation of labelled files: tokenised datasets, cached by content."""

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
from regard.data.readers import suffix
from regard.data.tokenizers import Tokenizer
from regard.data.training_sample import warn_of_shared
from regard.metrics.likelihood import IGNORE
from regard.tasks.supervised.token_cache import (
    SIDES,
    describe_tokenizer,
    digest_files,
    report_files,
    restore_tokenizer,
)
from regard.tasks.text_encoders.dataset import ChoiceDataset, LabelledDataset, TokenLabelledDataset
from regard.tasks.text_encoders.examples import (
    Example,
    LabelledExamples,
    label_names,
    label_numbers,
    read_examples,
    split_examples,
)
from regard.tasks.text_encoders.input_format import (
    EncodedText,
    InputFormat,
    Texts,
    add_format_tokens,
    build_format,
    encode_texts,
)
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig, resolve_token_kind, train_tokenizer
from regard.tasks.text_labels.choice_file import pair_with_choices, sort_choices
from regard.tasks.text_labels.files import ChoicesConfig, LabelsConfig, RatingsConfig, TagsConfig
from regard.tasks.text_labels.sentence_chunks import encode_sentences
from regard.tasks.text_labels.text_pairs import both_orders

AnyConfig = LabelsConfig | TagsConfig | RatingsConfig | ChoicesConfig
MAX_PLACES = 5  # places named in a message
OVERLAP_WARNING = "texts measured on are also trained on"
TEXTS_PER_BLOCK = 4096  # texts tokenised at a time
ARRAYS = ("tokens", "starts", "labels", "origins", "second_starts")


@dataclass(frozen=True, kw_only=True)
class PreparedTexts(Splits[LabelledDataset, LabelledDataset]):
    """Tokenised training and validation texts, and their tokenizer."""

    tokenizer: Tokenizer
    pairs: bool = False
    """True if examples are pairs of texts."""


def prepare(
    data_config: AnyConfig,
    tokenizer_config: TextTokenizerConfig,
    parent_tokenizer: Tokenizer | None = None,
    parent_labels: list[str] | None = None,
    *,
    style: str = "plain",
    cache: str | Path | None = None,
) -> PreparedTexts:
    """Read and tokenise the texts of these files, or load them from the cache.

    `parent_tokenizer` is used instead of training one, and `parent_labels` if they cover the labels of the files;
    `style` is the input format of the model.
    """
    digests = digest_files(data_config)
    contents = {
        "labels": 7,
        "files": {
            side: list(zip(map(_file_settings, getattr(data_config, side)), digests[side], strict=True))
            for side in SIDES
        },
        "rules": [data_config.names, data_config.validation_share, data_config.reject],
        **describe_tokenizer(tokenizer_config, parent_tokenizer),
        "told": parent_labels,
        "style": style,
        "readers": sorted({type(file).__name__ for side in SIDES for file in getattr(data_config, side)}),
    }

    def write(builder: caches.Builder) -> None:
        _write_cache(builder, data_config, tokenizer_config, parent_tokenizer, parent_labels, style)

    arrays = caches.cached_arrays("labels", contents, write, cache=cache)
    facts = arrays.facts
    tokenizer = restore_tokenizer(facts, TextTokenizerConfig)
    datasets = {side: _open_dataset(arrays, data_config, side, tokenizer.filler, style) for side in SIDES}
    file_reports = {side: _restore_reports(data_config, side, facts) for side in facts["tallies"]}
    report: dict[str, Any] = {
        side: _report_side(examples, digests[side], data_config) for side, examples in file_reports.items()
    }
    classes, vocab = facts["classes"], tokenizer.vocab
    report |= {"vocab": vocab, "labels": classes, "texts": {side: len(data) for side, data in datasets.items()}}
    report["tokens"] = {side: int(data.lengths.sum()) for side, data in datasets.items()}
    file_lines = [line for examples in file_reports.values() for line in examples.summary]
    summary = [
        *arrays.notes,
        *file_lines,
        *_warn_of_overlap(data_config, facts),
        _count_examples(datasets, facts, vocab),
    ]
    return PreparedTexts(
        **datasets,
        classes=classes,
        report=report,
        summary=summary,
        fresh=parent_tokenizer is None,
        tokenizer=tokenizer,
        pairs=facts["pairs"],
    )


def _warn_of_overlap(data_config: AnyConfig, facts: Mapping[str, Any]) -> list[str]:
    """Return a warning if validation texts are also training texts."""
    measured_files, (count, places) = data_config.valid or data_config.train, facts["both"]
    return warn_of_shared(count, [f"{measured_files[file].path}:{line}" for file, line in places], OVERLAP_WARNING)


def _count_examples(datasets: Mapping[str, LabelledDataset], facts: Mapping[str, Any], vocab: int) -> str:
    """Return a summary of the numbers of examples, labels and tokens."""
    train, valid = (datasets[side] for side in SIDES)
    unit, kinds = ("questions", "choices") if train.num_choices else ("texts", "labels")
    labels = f"{len(facts['classes'])} {kinds}, " if facts["classes"] else ""
    return f"{len(train):,} {unit} to train on, {len(valid):,} held out, {labels}{vocab:,} tokens"


def _write_cache(
    builder: caches.Builder,
    data_config: AnyConfig,
    tokenizer_config: TextTokenizerConfig,
    parent_tokenizer: Tokenizer | None,
    parent_labels: list[str] | None,
    style: str,
) -> None:
    """Read and tokenise the files, and write everything that training needs to the cache."""
    examples = read_examples(data_config.train, data_config.names, data_config.reject)
    if data_config.valid:
        train, valid = examples, read_examples(data_config.valid, data_config.names, data_config.reject)
    else:
        train, valid = split_examples(examples, data_config.validation_share)
    tokenizer = parent_tokenizer or learn_tokenizer(train, tokenizer_config)
    tokenizer = add_format_tokens(tokenizer, style, pairs=examples.pairs)
    classes = label_names(examples, parent_labels)
    normalise = sort_choices if examples.num_choices else tuple
    train_texts = {normalise(example.texts) for example in train.examples}
    shared = [example.place for example in valid.examples if normalise(example.texts) in train_texts]
    for side, side_examples in (("train", train), ("valid", valid)):
        dataset = build_dataset(side_examples, tokenizer, classes, style)
        for name in ARRAYS:
            array = getattr(dataset, name)
            builder.add(f"{side}-{name}", np.zeros(0, np.int64) if array is None else array)
        lines = (json.dumps(texts, ensure_ascii=False) + "\n" for texts in dataset.texts)
        builder.add(f"{side}-texts_source", np.frombuffer("".join(lines).encode(), np.uint8))
    files = {"train": examples, **({"valid": valid} if data_config.valid else {})}
    builder.facts |= {
        "classes": classes,
        "how": settings.plain(tokenizer.how),
        "tokenizer": tokenizer.json(),
        "tallies": {side: [report.plain() for report in read.reports] for side, read in files.items()},
        "notes": {side: read.notes for side, read in files.items()},
        "pairs": examples.pairs,
        "sequences_per_example": dataset.sequences_per_example,
        "both": [len(shared), shared[:MAX_PLACES]],
    }


def _restore_reports(data_config: AnyConfig, side: str, facts: Mapping[str, Any]) -> LabelledExamples:
    """Return the cached reports on the lines of some files, without examples."""
    paths = tuple(file.path for file in getattr(data_config, side))
    reports = [LineReport.parse(report) for report in facts["tallies"][side]]
    return LabelledExamples(paths, [], reports, isinstance(data_config, TagsConfig), tuple(facts["notes"][side]))


def _report_side(examples: LabelledExamples, digests: Sequence[str], data_config: AnyConfig) -> dict[str, Any]:
    """Return the entry of the training or validation files in data.json."""
    corpora = [report.report([name]) for name, report in zip(examples.files, examples.reports, strict=True)]
    return report_files(corpora, digests, data_config, labels=1)


def _open_dataset(cached: caches.Arrays, data_config: AnyConfig, side: str, filler: int, style: str) -> LabelledDataset:
    arrays: dict[str, Any] = {name: cached[f"{side}-{name}"] for name in (*ARRAYS, "texts_source")}
    arrays |= {} if cached.facts["pairs"] and style == "bert" else {"second_starts": None}
    files = data_config.valid if side == "valid" and data_config.valid else data_config.train
    paths = tuple(file.path for file in files)
    kind = _dataset_class(isinstance(data_config, TagsConfig), isinstance(data_config, ChoicesConfig))
    return kind(**arrays, files=paths, filler=filler, sequences_per_example=cached.facts["sequences_per_example"])


def _dataset_class(per_token: bool, choices: bool) -> type[LabelledDataset]:
    return TokenLabelledDataset if per_token else ChoiceDataset if choices else LabelledDataset


def _file_settings(file: Any) -> dict[str, Any]:
    """Return the settings that determine how a file is read, without its location."""
    return {**settings.plain(file), "path": suffix(file.path)}


def build_dataset(
    examples: LabelledExamples, tokenizer: Tokenizer, classes: Sequence[str], style: str = "plain"
) -> LabelledDataset:
    """Tokenise examples and sort them by length."""
    labels = label_numbers(examples, classes)
    input_format = build_format(tokenizer, style, pairs=examples.pairs)
    if examples.per_token:
        encoded = _encode_tagged_sentences(examples, labels, tokenizer, input_format)
    else:
        encoded = _encode_whole_texts(examples, labels, tokenizer, input_format, _expansion(examples, style))
    in_order = sorted(encoded, key=lambda example: sum(len(sequence.tokens) for sequence in example[0]))
    sequence_groups, label_groups, sources = zip(*in_order, strict=True)
    sequences = [sequence for group in sequence_groups for sequence in group]
    second_starts = np.array([sequence.second_start for sequence in sequences], np.int64)
    return _dataset_class(examples.per_token, bool(examples.num_choices))(
        np.concatenate([np.array(sequence.tokens, np.int32) for sequence in sequences]),
        np.cumsum([0, *(len(sequence.tokens) for sequence in sequences)]),
        np.concatenate([np.array(group, np.float32 if examples.has_ratings else np.int32) for group in label_groups]),
        np.array([source.place for source in sources], np.int64).reshape(-1, 2),
        examples.files,
        [source.texts for source in sources],
        tokenizer.filler,
        second_starts if examples.pairs and style == "bert" else None,
        len(sequence_groups[0]),
    )


ExpandTexts = Callable[[Texts], list[Texts]]
EncodedExample = tuple[list[EncodedText], list[Any], Example]  # sequences, label or labels of all tokens, source


def _expansion(examples: LabelledExamples, style: str) -> ExpandTexts:
    """Return a function from the texts of an example to the texts of each of its sequences."""
    if examples.num_choices:
        return pair_with_choices
    if examples.has_ratings and style == "gpt":  # in one order only, no token of the first text attends to the second
        return both_orders
    return lambda texts: [texts]


def _encode_whole_texts(
    examples: LabelledExamples,
    labels: list[list[Any]],
    tokenizer: Tokenizer,
    input_format: InputFormat,
    expand: ExpandTexts,
) -> Iterator[EncodedExample]:
    """Encode examples that have one label each."""
    remaining = iter(zip(examples.examples, labels, strict=True))
    while block := list(islice(remaining, TEXTS_PER_BLOCK)):
        expanded = [expand(example.texts) for example, _ in block]
        encoded = iter(encode_texts(tokenizer, input_format, [texts for group in expanded for texts in group]))
        for (example, label), group in zip(block, expanded, strict=True):
            yield list(islice(encoded, len(group))), label, example


def _encode_tagged_sentences(
    examples: LabelledExamples, labels: list[list[Any]], tokenizer: Tokenizer, input_format: InputFormat
) -> Iterator[EncodedExample]:
    """Encode tagged sentences in chunks of limited length."""
    remaining = iter(zip(examples.examples, labels, strict=True))
    while block := list(islice(remaining, TEXTS_PER_BLOCK)):
        sentences = encode_sentences(tokenizer, [example.texts for example, _ in block], input_format)
        for (example, word_labels), chunks in zip(block, sentences, strict=True):
            for words, ids in chunks:
                token_labels = [IGNORE] * len(ids)
                for word, position in words:
                    label = word_labels[word]
                    token_labels[position] = IGNORE if label is None else label
                yield [EncodedText(ids, len(ids))], token_labels, example


def learn_tokenizer(train: LabelledExamples, tokenizer_config: TextTokenizerConfig) -> Tokenizer:
    """Train a tokenizer on the training texts."""
    if train.per_token:
        sentences = (" ".join(map(tokenizer_config.normal_word, example.texts)) for example in train.examples)
        return train_tokenizer(sentences, tokenizer_config)
    texts = [text for example in train.examples for text in example.texts]
    tokenizer_config = resolve_token_kind(tokenizer_config, texts)
    return train_tokenizer(map(tokenizer_config.normal, texts), tokenizer_config)
