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
from regard.tasks.answering import files
from regard.tasks.answering.files import Found, Marked, Question, QuestionsConfig, Tally
from regard.tasks.answering.windows import PassageConfig, Reader, Windows, index
from regard.tasks.labels import formats, reading

ARRAYS = ("tokens", "starts", "labels", "seconds", "owner")
SHOWN = 5  # places named of many


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Windows, list[Question]]):
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
) -> Prepared:
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
        "answering", contents, lambda builder: _write(builder, config, how, known, style), cache=cache
    )
    facts = kept.facts
    own = Tokenizer.parse(facts["tokenizer"], settings.build(PassageConfig, facts["how"], where="tokenizer"))
    train, valid = _train(kept, config, own, style), [_restored(line) for line in _lines(kept["valid"])]
    tallies = {name: [Tally(**each) for each in some] for name, some in facts["tallies"].items()}
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
    return Prepared(
        train=train,
        valid=valid,
        report=report,
        summary=summary,
        fresh=known is None,
        tokenizer=own,
        answer=facts["answer"],
    )


def _write(
    builder: caches.Builder, config: QuestionsConfig, how: PassageConfig, known: Tokenizer | None, style: str
) -> None:
    """Read and tokenise the files, and leave everything that training needs in the cache."""
    found = files.read(config.train, config.reject, first_occurrence=config.first_occurrence)
    if config.valid:
        valid = files.read(config.valid, config.reject, first_occurrence=config.first_occurrence)
        train = found
    else:
        train, valid = files.hold(found, config.held)
    own = formats.fitted(known or _learnt(train, how), style, pairs=True)
    indexed = index(Reader(own, style, config.window, config.stride).passages(train.questions), own, style)
    for name in ARRAYS:
        part = indexed[name]
        builder.add(f"train-{name}", np.zeros(0, np.int64) if part is None else part)
    builder.add("train-named", _bytes(indexed["named"]))
    builder.add("valid", _bytes(valid.questions))
    lost = indexed["lost"]
    some = ", ".join(lost[:SHOWN]) + ", ..." * (len(lost) > SHOWN)
    told = [f"{quantity(len(lost), 'answer')} without tokens not learnt ({some})"] if lost else []
    sets = {"train": found, **({"valid": valid} if config.valid else {})}
    builder.facts |= {
        "how": settings.plain(own.how),
        "tokenizer": own.json(),
        "answer": indexed["longest"],
        "questions": len(indexed["named"]),
        "tallies": {name: [asdict(tally) for tally in each.tallies] for name, each in sets.items()},
        "notes": [*files.shared(train, valid), *told],
    }


def _learnt(train: Found, how: PassageConfig) -> Tokenizer:
    """The tokens of the contexts and questions to learn from."""
    contexts = dict.fromkeys(question.context for question in train.questions)
    texts = [*contexts, *(question.question for question in train.questions)]
    how = reading.settled(how, texts)  # type: ignore[assignment]
    return reading.learn(map(how.normal, texts), how)


def _train(kept: caches.Arrays, config: QuestionsConfig, own: Tokenizer, style: str) -> Windows:
    arrays: dict[str, Any] = {name: kept[f"train-{name}"] for name in ARRAYS}
    arrays |= {} if style == "bert" else {"seconds": None}
    return Windows(
        **arrays,
        origins=np.zeros((0, 2), np.int64),
        files=tuple(file.path for file in config.train),
        per_token=True,
        written=[],
        filler=own.filler,
        named=_lines(kept["train-named"]),
    )


def _bytes(things: Any) -> np.ndarray:
    """Anything JSON can write, a line each."""
    return np.frombuffer("".join(f"{json.dumps(each)}\n" for each in things).encode(), np.uint8)


def _lines(kept: np.ndarray) -> list[Any]:
    return [json.loads(line) for line in kept.tobytes().splitlines()]


def _restored(line: Any) -> Question:
    question, context, answers, place = line
    return Question(question, context, tuple(Marked(*answer) for answer in answers or ()), place)
