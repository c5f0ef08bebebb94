"""A trained translator in use: text in, text out, with the search, the splitting and the rejoining in between."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.data import languages, sentences, truecase
from regard.data.encodings import encode_text
from regard.data.language_names import LANGUAGES
from regard.data.normalise import TextConfig, recorded
from regard.data.tokenizers import Tokenizer
from regard.decoding import constraints
from regard.decoding.batch import BrokenScores, Finished, stream
from regard.decoding.batching import by_length, by_width, padded, round_up
from regard.decoding.forbidden import holds_phrase
from regard.decoding.generate import seeded_noise
from regard.decoding.graphs import uncollected
from regard.decoding.lane import Group
from regard.decoding.stepper import Hypothesis, Replayable, Stepper
from regard.interpret.trace import Trace
from regard.metrics.scores import Scores
from regard.models.inference import Ready
from regard.tasks.inputs import TEXT, check_input, list_inputs
from regard.tasks.trained import Workload, described, revived
from regard.tasks.translation.answers import Answer, describe_unfinished, rejoined, remove_forbidden, upper, worded
from regard.tasks.translation.copying import Restoration, copies, keep_entities
from regard.tasks.translation.looking import trace_answer, trace_steps
from regard.tasks.translation.lost_names import Lexicon
from regard.tasks.translation.options import DecodingConfig, TranslationOptions
from regard.tasks.translation.policy import build_policy

if TYPE_CHECKING:
    from regard.interpret.steps import Steps

LANGUAGE_NAMES = ("lang", "language", "target", "target_lang", "target_language", "tgt", "tgt_lang")  # elsewhere
ROWS, BATCH = 512, 64  # most sentences side by side on a GPU, and most that are read together there
STEP = 16  # lengths of sentences read together are multiples of it, so that a GPU can replay the work
WARMING = 3  # searches after which a GPU replays a step


class Translator:
    """Translates text with a trained model."""

    task: ClassVar[str] = "translation"
    verb: ClassVar[str] = "translate"
    kind: ClassVar[str] = "a translator"
    Options: ClassVar[type] = TranslationOptions
    __repr__ = described
    trained_direction: Sequence[str] | None = None
    """Codes of the languages of source and target, of a model of one direction whose training files named them."""

    def __init__(
        self,
        model: Any,
        tokenizers: tuple[Tokenizer, Tokenizer],
        decoding: DecodingConfig,
        name: str = "translator",
        *,
        ready: Ready | None = None,
        reads: Sequence[str] = (),
    ):
        self.model = model
        self.ready = Ready(model) if ready is None else ready
        self.source, self.target = tokenizers
        self.begin, self.end = self.target.opening, self.target.role("end")
        self.decoding = decoding
        self.name = name
        self.reads = tuple(reads)
        """The languages that it reads, where its card says so."""
        self.lexicon = Lexicon(self.source)

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Translator:
        """The translator a checkpoint directory holds."""
        decoding = config.build(DecodingConfig, checkpoint.config.get("decoding", {}), where="decoding")
        name, reads = checkpoint.directory.name, checkpoint.about.language
        found = cls(revived(checkpoint, device), read_tokenizers(checkpoint), decoding, name=name, reads=reads)
        found.trained_direction = checkpoint.config.get("languages")
        return found

    @property
    def languages(self) -> list[str]:
        """Target languages to choose from; none when there is only one."""
        return list(self.source.tags)

    def direction(self, text: str) -> str | None:
        """The language to translate into, of two the one that a text is less like; None if they are not known."""
        if len(self.languages) != 2 or any(code not in LANGUAGES for code in self.languages):
            return None
        read = languages.likeliest(text, self.languages) or self.languages[0]
        return next(code for code in self.languages if code != read)

    def language(self, texts: Sequence[str], to: str | None = None) -> str | None:
        """The language to translate into: the one asked for, or where there are several, guessed from the texts."""
        if to is not None and self.languages:
            return self.source.find_language(to)
        return self.direction("\n".join(texts)) if to is None and len(self.languages) > 1 else to

    @overload
    def translate(self, texts: str, *, to: str | None = None, **settings: Any) -> str: ...

    @overload
    def translate(self, texts: Sequence[str], *, to: str | None = None, **settings: Any) -> list[str]: ...

    def translate(self, texts: str | Sequence[str], *, to: str | None = None, **settings: Any) -> str | list[str]:
        """Translate one text, or a list of them into a list; settings are those of `DecodingConfig`.

        Where the model knows several languages and none is asked for, it is guessed from the texts.
        """
        answers = self.answers(texts, to=to, **settings)
        for code in dict.fromkeys(answer.foreign for answer in answers if answer.foreign):
            warnings.warn(self.stranger(code), stacklevel=2)
        if unfinished := sum(answer.unfinished for answer in answers):
            warnings.warn(describe_unfinished(unfinished), stacklevel=2)
        found = [answer.text for answer in answers]
        return found[0] if isinstance(texts, str) else found

    def stranger(self, code: str) -> str:
        """What to say of text in a language or script that it does not know."""
        seems = f"looks like {LANGUAGES[code]}" if code in LANGUAGES else f"is in {code} script"
        known = " and ".join(LANGUAGES[one] for one in self.reads)
        return f"the text {seems}; {self.name} knows {known} only, so do not trust the answer"

    def parse(self, text: str) -> str:
        """An input is a text."""
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Answer]:
        """Translations with their scores; options are those of `TranslationOptions`."""
        return self.answers(inputs, **options)

    def evaluate(self, *files: str | Path, columns: tuple[int, int] | None = None, **options: Any) -> Scores:
        """Scores on one file of pairs, or on a file of sources and one of references."""
        from regard.tasks.translation import scoring

        return scoring.evaluate(self, files, columns=columns, **options)

    @staticmethod
    def judge(
        answers: str | Path,
        *files: str | Path,
        name: str,
        columns: tuple[int, int] | None = None,
        to: str | None = None,
        metric: str = "overlap",
        tokenize: str = "13a",
    ) -> Scores:
        """Scores of translations into a language that are in a file already, line by line."""
        from regard.tasks.translation import scoring

        test = scoring.pairs(*files, columns=columns, to=to)
        return scoring.given(name, answers, test, metric=metric, tokenize=tokenize)

    def workloads(self, inputs: Sequence[str], batches: Sequence[int], to: str | None = None) -> Iterator[Workload]:
        """What to time: searches by one and by many."""
        from regard.tasks.translation.speed import workloads

        return workloads(self, inputs, batches, to)

    def answers(
        self, texts: str | Sequence[str], *, to: str | None = None, first: int = 0, **settings: Any
    ) -> list[Answer]:
        """Translations with their scores and alternatives, in the order of the texts.

        `first` is the number of the first text: when a file is sampled block by block, each line has its own seed.
        """
        decoding = self.settings(**settings) if settings else self.decoding
        texts = list_inputs(texts, TEXT, verb=self.verb)
        with uncollected():
            return self._answers(texts, self.language(texts, to), first, decoding)

    def _answers(self, texts: Sequence[str], to: str | None, first: int, decoding: DecodingConfig) -> list[Answer]:
        plans = self.plan_many(texts, decoding)
        wanted = [piece.text for plan in plans for piece in plan if piece.text]
        seeds = [
            hash((decoding.seed, number, place))
            for number, plan in enumerate(plans, start=first)
            for place, piece in enumerate(plan)
            if piece.text
        ]
        found = iter(keep_entities(self, wanted, self._faithful(wanted, to, decoding, seeds), to, decoding))
        whole = [rejoined(plan, [next(found) for piece in plan if piece.text]) for plan in plans]
        if not self.reads:
            return whole
        foreign = languages.foreign_many(texts, self.reads)
        return [
            answer if answer.kept or code is None else replace(answer, foreign=code)
            for code, answer in zip(foreign, whole, strict=True)
        ]

    def warm_up(self) -> None:
        """Prepare for many requests: compile kernels and capture graphs now instead of during the first of them."""
        self.ready.warm()
        for to in self.languages * WARMING or [None] * WARMING:  # type: ignore[list-item]
            self.answers(["."], to=to, copy="none")

    def settings(self, **changes: Any) -> DecodingConfig:
        """Its settings with some of them changed."""
        if strange := next((name for name in changes if name in LANGUAGE_NAMES), None):
            raise ValueError(f"unknown setting {strange}: name the language to translate into by to, such as to='fr'")
        return config.build(DecodingConfig, {**config.plain(self.decoding), **changes}, where="decoding")

    def like(self, decoding: DecodingConfig) -> Translator:
        """The same translator with other settings, for parts of a text, whose language nobody asks."""
        return Translator(self.model, (self.source, self.target), decoding, self.name, ready=self.ready)

    def look(self, text: str, *, to: str | None = None) -> Trace:
        """Translate one sentence and keep where every head looked while the winning beam was written."""
        check_input(text, TEXT, verb="look")
        return trace_answer(self, text, self.language([text], to))

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None, top: int = 10) -> Steps:
        """The vectors of the decoder's attentions (or of those named) while the answer is read again in one go."""
        return trace_steps(self, trace, names=names, top=top)

    def plan(self, text: str, decoding: DecodingConfig) -> list[sentences.Piece]:
        """The text cut into what is translated and the white space that is kept."""
        return self.plan_many([text], decoding)[0]

    def plan_many(self, texts: Sequence[str], decoding: DecodingConfig) -> list[list[sentences.Piece]]:
        """The texts cut into what is translated and the white space that is kept; sentences are measured together."""
        for text in texts:
            encode_text(text)  # what no file can hold is not copied either
        tidy = [self.source.how.tidy(text) for text in texts]
        if not decoding.split or decoding.force or decoding.prefix:
            return [sentences.whole(text) for text in tidy]
        most = min(decoding.longest, self._context) - 2
        return sentences.split_to_fit(
            tidy, lambda parts: list(map(len, self.source.encode_many(parts, most=most))), most
        )

    @property
    def _context(self) -> int:
        return self.model.config.context

    def encode(self, text: str, to: str | None = None) -> list[int]:
        """Token ids of a sentence as the model reads it: the tag of the language asked for, the text, the end."""
        return self.encode_many([text], to)[0]

    def encode_many(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """Token ids of sentences as the model reads them."""
        tag, end, room = self.tag(to), self.source.role("end"), self._context - 1
        found = [[*tag, *ids, end] for ids in self.source.encode_many(texts)]
        longest = max(map(len, found), default=0) - 1
        if longest > room:
            raise ValueError(f"{longest} tokens in one sentence, the model reads {room}: split the text")
        return found

    def tag(self, to: str | None = None) -> list[int]:
        """What asks for a language: one token, or none where there is nothing to choose."""
        if to is None:
            if len(self.languages) > 1:
                raise ValueError(f"say which language to translate to: {', '.join(self.languages)}")
            return [self.source.tag(name) for name in self.languages]
        if not self.languages:
            raise ValueError(f"this model has only one direction: leave out the language {to}")
        return [self.source.tag(to)]

    def _faithful(
        self, texts: Sequence[str], to: str | None, decoding: DecodingConfig, seeds: Sequence[int]
    ) -> list[Answer]:
        """Answers for sentences: those in capitals read in small letters, what must be copied copied."""
        free = not (decoding.prefix or decoding.force)
        if free and decoding.keep and to is not None:
            guesses = languages.identify_many(texts)
            done = {
                place
                for place, guess in enumerate(guesses)
                if guess is not None and guess.surely(to) and not holds_phrase(texts[place], decoding.forbid)
            }
            if done:
                rest = [place for place in range(len(texts)) if place not in done]
                own = replace(decoding, keep=False)
                found = self._faithful([texts[place] for place in rest], to, own, [seeds[place] for place in rest])
                answers = dict(zip(rest, found, strict=True))
                return [answers[n] if n in answers else Answer(text, 0.0, kept=1) for n, text in enumerate(texts)]
        read = [truecase.truecased(text, self.source) if free and decoding.truecase else text for text in texts]
        if not copies(decoding):
            found = self._search(read, to, decoding, seeds)
        else:
            restoration = Restoration(self, read, to, decoding)
            self._search(restoration.texts, to, decoding, seeds, hear=restoration.examine)
            found = [remove_forbidden(answer, decoding.forbid) for answer in restoration.finish()]
        return [upper(answer) if own != text else answer for own, text, answer in zip(read, texts, found, strict=True)]

    def _search(
        self,
        texts: Sequence[str],
        to: str | None,
        decoding: DecodingConfig,
        seeds: Sequence[int],
        hear: Callable[[Mapping[int, Answer]], None] | None = None,
    ) -> list[Answer]:
        """Answers for sentences, decoded in batches of similar length; `hear` is told of them as they are finished."""
        answers: dict[int, Answer] = {}

        def take(numbers: Iterable[int], hypotheses: Sequence[Sequence[Hypothesis]]) -> None:
            new = dict(zip(numbers, worded(self.target, hypotheses, drawn=decoding.sample), strict=True))
            answers.update(new)
            if hear is not None:
                hear(new)

        read, model, left = (
            self.encode_many(texts, to) if texts else [],
            self.ready(len(texts)),
            list(range(len(texts))),
        )
        if isinstance(model, Replayable) and read:
            left = self._replay(model, read, decoding, seeds, take)
            model = self.model
        copies = decoding.nbest if decoding.sample else max(decoding.beams, decoding.nbest)
        for places in by_length([len(read[number]) for number in left], budget=max(1, decoding.tokens // copies)):
            batch = [left[place] for place in places]
            take(batch, self.hypotheses(read, batch, decoding, seeds, model))
        return [answers[number] for number in range(len(texts))]

    def _replay(
        self,
        model: Any,
        read: Sequence[list[int]],
        decoding: DecodingConfig,
        seeds: Sequence[int],
        take: Callable[[Iterable[int], Sequence[Sequence[Hypothesis]]], None],
    ) -> list[int]:
        """Search on a GPU in half precision, sentences taking the rows of those that are done.

        Return the numbers of those whose scores half precision cannot hold.
        """
        policy = build_policy(decoding, self.target, len(self.model.prediction))
        batches = by_width([len(ids) for ids in read], room=decoding.tokens, most=BATCH, step=STEP)
        groups = []
        for batch in batches:
            own = [read[number] for number in batch]
            inputs = self._inputs(own, model.device, min(round_up(len(own[0]), STEP), self._context))
            limits = self._limits(read, batch, decoding)
            groups.append(Group(inputs, limits, seeded_noise(policy, limits, [seeds[number] for number in batch])))
        written = max(max(group.limit) for group in groups)
        size = model.row_bytes(beams=policy.beams, written=written, read=len(read[batches[0][0]]))

        def hear(finished: Sequence[Finished]) -> None:
            take([batches[each.group][each.place] for each in finished], [each.hypotheses for each in finished])

        try:
            stream(model, groups, policy, rows=min(model.count_rows(ROWS, size), len(read)), hear=hear)
        except BrokenScores as error:
            if len(error.failed) > len(read) / 2:
                self.ready.give_up("half precision cannot hold its scores")
            return [batches[group][place] for group, place in error.failed]
        return []

    def hypotheses(
        self,
        read: Sequence[list[int]],
        numbers: Sequence[int],
        decoding: DecodingConfig,
        seeds: Sequence[int] | None = None,
        model: Stepper | None = None,
        *,
        rules: Sequence[constraints.Constraint] = (),
    ) -> list[list[Hypothesis]]:
        """The search itself, over the token ids of the sentences with these numbers, under further rules if any."""
        own = [read[number] for number in numbers]
        inputs = self._inputs(own, device_of(self.model))
        policy = build_policy(decoding, self.target, len(self.model.prediction), rules)
        limits = self._limits(read, numbers, decoding)
        seeds = [hash((decoding.seed, number)) if seeds is None else seeds[number] for number in numbers]
        return stream(model or self.model, [Group(inputs, limits, seeded_noise(policy, limits, seeds))], policy)[0]

    def _inputs(
        self, read: Sequence[list[int]], device: torch.device, longest: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Token ids as what a translation model starts from: source, lengths, prompt."""
        source, lengths = padded(read, self.source.filler, longest)
        prompt = torch.full((len(read), 1), self.begin)
        return source.to(device), lengths.to(device), prompt.to(device)

    def _limits(self, read: Sequence[list[int]], numbers: Sequence[int], decoding: DecodingConfig) -> list[int]:
        """The most tokens of each answer."""
        return [min(self._context - 1, int(decoding.ratio * len(read[number])) + 10) for number in numbers]


def read_tokenizers(checkpoint: Checkpoint) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target, which may be one."""
    how = TextConfig(normalise=recorded(checkpoint.config.get("tokenizer"))["normalise"])
    source = Tokenizer.parse(checkpoint.text("tokenizer.json"), how)
    separate = "tokenizer.target.json" in checkpoint.files
    return source, Tokenizer.parse(checkpoint.text("tokenizer.target.json"), how) if separate else source
