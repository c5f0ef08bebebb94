"""Preparation of question files: windows of tokens, cached by content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import config as settings
from regard.config.words import quantity
from regard.data import cache as caches
from regard.data.examples import Splits
from regard.data.readers import suffix
from regard.data.tokenizers import Tokenizer
from regard.tasks.answering.files import (
    QuestionReport,
    QuestionsConfig,
    QuestionSet,
    read_questions,
    split_questions,
    warn_of_shared_contexts,
)
from regard.tasks.answering.questions import AnswerSpan, Question
from regard.tasks.answering.windows import PassageConfig, PassageEncoder, WindowDataset, index_windows
from regard.tasks.supervised.token_cache import (
    SIDES,
    describe_tokenizer,
    digest_files,
    report_files,
    restore_tokenizer,
)
from regard.tasks.text_encoders.input_format import add_format_tokens
from regard.tasks.text_encoders.text_tokenizer import resolve_token_kind, train_tokenizer

ARRAYS = ("tokens", "starts", "labels", "second_starts", "question_numbers")
RULES = ("validation_share", "reject", "window", "stride", "first_occurrence")  # settings in the cache key
MAX_PLACES = 5  # places named in a message


@dataclass(frozen=True, kw_only=True)
class PreparedQuestions(Splits[WindowDataset, list[Question]]):
    """Training windows, validation questions, and their tokenizer."""

    tokenizer: Tokenizer
    answer: int
    """Number of tokens of the longest training answer."""


def prepare(
    data_config: QuestionsConfig,
    tokenizer_config: PassageConfig,
    parent_tokenizer: Tokenizer | None = None,
    *,
    style: str = "plain",
    cache: str | Path | None = None,
) -> PreparedQuestions:
    """Read and tokenise the questions of these files, or load them from the cache.

    `parent_tokenizer` is used instead of training one; `style` is the input format of the model.
    """
    files = {side: getattr(data_config, side) for side in SIDES}
    digests = digest_files(data_config)
    contents = {
        "answering": 2,
        "files": {side: [[suffix(file.path) for file in files[side]], digests[side]] for side in SIDES},
        "named": {side: [file.path for file in files[side]] for side in SIDES},  # messages name files
        "rules": [getattr(data_config, name) for name in RULES],
        **describe_tokenizer(tokenizer_config, parent_tokenizer),
        "style": style,
    }

    def write(builder: caches.Builder) -> None:
        _write_cache(builder, data_config, tokenizer_config, parent_tokenizer, style)

    arrays = caches.cached_arrays("answering", contents, write, cache=cache)
    facts = arrays.facts
    tokenizer = restore_tokenizer(facts, PassageConfig)
    train = _open_windows(arrays, data_config, tokenizer, style)
    valid = [_restore_question(record) for record in _decode_json_lines(arrays["valid"])]
    file_reports = {
        side: [QuestionReport(**report) for report in reports] for side, reports in facts["tallies"].items()
    }
    key = {"answering": 1, "stride": data_config.stride}
    report: dict[str, Any] = {
        side: report_files([asdict(file_report) for file_report in reports], digests[side], data_config, **key)
        for side, reports in file_reports.items()
    }
    report |= {"vocab": tokenizer.vocab, "questions": {"train": facts["questions"], "valid": len(valid)}}
    file_lines = [line for reports in file_reports.values() for file_report in reports for line in file_report.lines]
    counts = (
        f"{quantity(facts['questions'], 'question')} to train on, in {quantity(len(train), 'window')}; "
        f"{len(valid):,} held out; "
        f"answers of at most {quantity(facts['answer'], 'token')}, {tokenizer.vocab:,} tokens"
    )
    return PreparedQuestions(
        train=train,
        valid=valid,
        report=report,
        summary=[*arrays.notes, *file_lines, *facts["notes"], counts],
        fresh=parent_tokenizer is None,
        tokenizer=tokenizer,
        answer=facts["answer"],
    )


def _write_cache(
    builder: caches.Builder,
    data_config: QuestionsConfig,
    tokenizer_config: PassageConfig,
    parent_tokenizer: Tokenizer | None,
    style: str,
) -> None:
    """Read and tokenise the files, and write everything that training needs to the cache."""
    reject, first_occurrence = data_config.reject, data_config.first_occurrence
    questions = read_questions(data_config.train, reject, first_occurrence=first_occurrence)
    if data_config.valid:
        train, valid = questions, read_questions(data_config.valid, reject, first_occurrence=first_occurrence)
    else:
        train, valid = split_questions(questions, data_config.validation_share)
    tokenizer = parent_tokenizer or _learn_tokenizer(train, tokenizer_config)
    tokenizer = add_format_tokens(tokenizer, style, pairs=True)
    encoder = PassageEncoder(tokenizer, style, data_config.window, data_config.stride)
    windows = index_windows(encoder.encode(train.questions), style)
    for name in ARRAYS:
        array = windows[name]
        builder.add(f"train-{name}", np.zeros(0, np.int64) if array is None else array)
    builder.add("train-question_places", _encode_json_lines(windows["question_places"]))
    builder.add("valid", _encode_json_lines(valid.questions))
    lost = windows["lost"]
    places = ", ".join(lost[:MAX_PLACES]) + ", ..." * (len(lost) > MAX_PLACES)
    notes = [f"{quantity(len(lost), 'answer')} without tokens not learnt ({places})"] if lost else []
    files = {"train": questions, **({"valid": valid} if data_config.valid else {})}
    builder.facts |= {
        "how": settings.plain(tokenizer.how),
        "tokenizer": tokenizer.json(),
        "answer": windows["longest"],
        "questions": len(windows["question_places"]),
        "tallies": {side: [asdict(report) for report in read.reports] for side, read in files.items()},
        "notes": [*warn_of_shared_contexts(train, valid), *notes],
    }


def _learn_tokenizer(train: QuestionSet, tokenizer_config: PassageConfig) -> Tokenizer:
    """Train a tokenizer on the training contexts and questions."""
    contexts = dict.fromkeys(question.context for question in train.questions)
    texts = [*contexts, *(question.question for question in train.questions)]
    tokenizer_config = resolve_token_kind(tokenizer_config, texts)  # type: ignore[assignment]
    return train_tokenizer(map(tokenizer_config.normal, texts), tokenizer_config)


def _open_windows(
    cached: caches.Arrays, data_config: QuestionsConfig, tokenizer: Tokenizer, style: str
) -> WindowDataset:
    arrays: dict[str, Any] = {name: cached[f"train-{name}"] for name in ARRAYS}
    arrays |= {} if style == "bert" else {"second_starts": None}
    return WindowDataset(
        **arrays,
        origins=np.zeros((0, 2), np.int64),
        files=tuple(file.path for file in data_config.train),
        texts_source=[],
        filler=tokenizer.filler,
        question_places=_decode_json_lines(cached["train-question_places"]),
    )


def _encode_json_lines(records: Iterable[Any]) -> np.ndarray:
    """Encode records as bytes, one line of JSON each."""
    return np.frombuffer("".join(f"{json.dumps(record)}\n" for record in records).encode(), np.uint8)


def _decode_json_lines(encoded: np.ndarray) -> list[Any]:
    return [json.loads(line) for line in encoded.tobytes().splitlines()]


def _restore_question(record: Any) -> Question:
    question, context, answers, place = record
    return Question(question, context, tuple(AnswerSpan(*answer) for answer in answers or ()), place)
