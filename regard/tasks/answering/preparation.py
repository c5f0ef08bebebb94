"""Questions to learn from as windows in the cache, and questions to measure on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import config as settings
from regard.config.words import quantity
from regard.data import cache as caches
from regard.data.examples import Splits
from regard.data.readers import digest, suffix
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
from regard.tasks.labels.input_format import add_format_tokens
from regard.tasks.labels.text_tokenizer import resolve_token_kind, train_tokenizer

ARRAYS = ("tokens", "starts", "labels", "seconds", "owner")
MAX_PLACES = 5  # places named of many


@dataclass(frozen=True, kw_only=True)
class PreparedQuestions(Splits[WindowDataset, list[Question]]):
    """Questions in windows, and the tokenizer."""

    tokenizer: Tokenizer
    answer: int
    """Tokens of the longest answer."""


def prepare(
    config: QuestionsConfig,
    how: PassageConfig,
    known: Tokenizer | None = None,
    *,
    style: str = "plain",
    cache: str | Path | None = None,
) -> PreparedQuestions:
    """The questions of these files, read and tokenised once and cached by content.

    Tokens that are `known` are used as they are; `style` is that of the model, which wants some tokens around texts.
    """
    sides = {"train": config.train, "valid": config.valid}
    digests = {name: [digest(file.path) for file in some] for name, some in sides.items()}
    contents = {
        "answering": 1,
        "files": {name: [[suffix(file.path) for file in sides[name]], one] for name, one in digests.items()},
        "named": {name: [file.path for file in some] for name, some in sides.items()},  # places are told by name
        "rules": [config.held, config.reject, config.window, config.stride, config.first_occurrence],
        "how": settings.plain(how),
        "known": None if known is None else [settings.plain(known.how), known.json()],
        "style": style,
    }
    kept = caches.cached_arrays(
        "answering", contents, lambda builder: _write_cache(builder, config, how, known, style), cache=cache
    )
    facts = kept.facts
    own = Tokenizer.parse(facts["tokenizer"], settings.build(PassageConfig, facts["how"], where="tokenizer"))
    train, valid = (
        _open_windows(kept, config, own, style),
        [_restore_question(line) for line in _decode_json_lines(kept["valid"])],
    )
    tallies = {name: [QuestionReport(**each) for each in some] for name, some in facts["tallies"].items()}
    held = "named" if config.valid else config.held
    report: dict[str, Any] = {
        name: {
            "fingerprint": caches.key(answering=1, files=digests[name], held=held, stride=config.stride),
            "corpora": [{**asdict(each), "sha256": [one]} for each, one in zip(some, digests[name], strict=True)],
        }
        for name, some in tallies.items()
    }
    report |= {"vocab": own.vocab, "questions": {"train": facts["questions"], "valid": len(valid)}}
    summary = [*kept.notes, *(line for some in tallies.values() for each in some for line in each.lines)]
    summary += facts["notes"]
    summary.append(
        f"{quantity(facts['questions'], 'question')} to train on, in {quantity(len(train), 'window')}; "
        f"{len(valid):,} held out; "
        f"answers of at most {quantity(facts['answer'], 'token')}, {own.vocab:,} tokens"
    )
    return PreparedQuestions(
        train=train,
        valid=valid,
        report=report,
        summary=summary,
        fresh=known is None,
        tokenizer=own,
        answer=facts["answer"],
    )


def _write_cache(
    builder: caches.Builder, config: QuestionsConfig, how: PassageConfig, known: Tokenizer | None, style: str
) -> None:
    """Read and tokenise the files, and leave everything that training needs in the cache."""
    found = read_questions(config.train, config.reject, first_occurrence=config.first_occurrence)
    if config.valid:
        valid = read_questions(config.valid, config.reject, first_occurrence=config.first_occurrence)
        train = found
    else:
        train, valid = split_questions(found, config.held)
    own = add_format_tokens(known or _learn_tokenizer(train, how), style, pairs=True)
    indexed = index_windows(
        PassageEncoder(own, style, config.window, config.stride).passages(train.questions), own, style
    )
    for name in ARRAYS:
        part = indexed[name]
        builder.add(f"train-{name}", np.zeros(0, np.int64) if part is None else part)
    builder.add("train-named", _encode_json_lines(indexed["named"]))
    builder.add("valid", _encode_json_lines(valid.questions))
    lost = indexed["lost"]
    some = ", ".join(lost[:MAX_PLACES]) + ", ..." * (len(lost) > MAX_PLACES)
    told = [f"{quantity(len(lost), 'answer')} without tokens not learnt ({some})"] if lost else []
    sets = {"train": found, **({"valid": valid} if config.valid else {})}
    builder.facts |= {
        "how": settings.plain(own.how),
        "tokenizer": own.json(),
        "answer": indexed["longest"],
        "questions": len(indexed["named"]),
        "tallies": {name: [asdict(tally) for tally in each.tallies] for name, each in sets.items()},
        "notes": [*warn_of_shared_contexts(train, valid), *told],
    }


def _learn_tokenizer(train: QuestionSet, how: PassageConfig) -> Tokenizer:
    """The tokens of the contexts and questions to learn from."""
    contexts = dict.fromkeys(question.context for question in train.questions)
    texts = [*contexts, *(question.question for question in train.questions)]
    how = resolve_token_kind(how, texts)  # type: ignore[assignment]
    return train_tokenizer(map(how.normal, texts), how)


def _open_windows(kept: caches.Arrays, config: QuestionsConfig, own: Tokenizer, style: str) -> WindowDataset:
    arrays: dict[str, Any] = {name: kept[f"train-{name}"] for name in ARRAYS}
    arrays |= {} if style == "bert" else {"seconds": None}
    return WindowDataset(
        **arrays,
        origins=np.zeros((0, 2), np.int64),
        files=tuple(file.path for file in config.train),
        per_token=True,
        written=[],
        filler=own.filler,
        named=_decode_json_lines(kept["train-named"]),
    )


def _encode_json_lines(things: Any) -> np.ndarray:
    """Anything JSON can write, a line each."""
    return np.frombuffer("".join(f"{json.dumps(each)}\n" for each in things).encode(), np.uint8)


def _decode_json_lines(kept: np.ndarray) -> list[Any]:
    return [json.loads(line) for line in kept.tobytes().splitlines()]


def _restore_question(line: Any) -> Question:
    question, context, answers, place = line
    return Question(question, context, tuple(AnswerSpan(*answer) for answer in answers or ()), place)
