"""A trained translator in use: text in, text out, with the search, the splitting and the rejoining in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from regard import config
from regard.attention.masks import Grid
from regard.checkpoint import Checkpoint, fill
from regard.data import languages, sentences
from regard.data.tokenizers import BOS, EOS, PAD, Tokenizer
from regard.decoding import constraints, engine
from regard.decoding.batching import by_length, in_order
from regard.decoding.beam import Beam, search
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from regard.decoding.stepper import Hypothesis
from regard.interpret.trace import Trace, Weights, axes, tokens
from regard.interpret.watch import watch
from regard.metrics.scores import Scores
from regard.models import MODELS
from regard.models.inference import for_generation
from regard.tasks.trained import Unfilled, described

if TYPE_CHECKING:
    from regard.interpret.steps import Steps

ROWS = 256  # sentences side by side on a GPU, where fewer leave it idle


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How translations are searched for."""

    beams: int = 4
    """Hypotheses kept side by side; 1 is greedy."""
    nbest: int = 1
    """Answers returned per input; at most the beams."""
    length_penalty: float = 1.0
    """Exponent of the length by which a score is divided: 0 prefers short answers, larger ones longer."""
    sample: bool = False
    """Draw tokens at random instead of searching for the likeliest."""
    temperature: float = 1.0
    """When sampling: below 1 safer, above 1 wilder."""
    top_k: int | None = None
    """When sampling: only the k likeliest tokens."""
    top_p: float | None = None
    """When sampling: only the likeliest tokens that together have this probability."""
    min_p: float | None = None
    """When sampling: only tokens at least this share as likely as the likeliest."""
    seed: int = 0
    """When sampling: where randomness starts."""
    prefix: str = ""
    """Text every answer must begin with."""
    force: tuple[str, ...] = ()
    """Phrases every answer must contain; the text is then translated as one piece."""
    forbid: tuple[str, ...] = ()
    """Phrases no answer may contain."""
    no_repeat: int = 0
    """Length of token sequences that may not occur twice; 0 allows all."""
    minimum: int = 0
    """Fewest tokens of an answer."""
    ratio: float = 2.0
    """Longest answer, in tokens per token read, ten more always allowed."""
    longest: int = 128
    """Most tokens translated as one piece; a longer sentence is cut at a comma or a space."""
    tokens: int = 4096
    """Tokens decoded side by side, padding and beams included; bounds the memory."""
    split: bool = True
    """Split text into sentences and rejoin the translations."""


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(DecodingConfig):
    """Whatever may be set when a text is translated."""

    to: str | None = None
    """Target language, where the model has several; guessed from the text when not given."""


@dataclass(frozen=True)
class Answer:
    """One translation with the model's log-probability of it, and the runners-up."""

    text: str
    score: float
    alternatives: tuple[Answer, ...] = ()

    def __str__(self) -> str:
        return self.text.replace("\n", " ")

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        others = [{"translation": one.text, "score": round(one.score, 6)} for one in self.alternatives]
        told = {"translation": self.text, "score": round(self.score, 6)}
        return told | ({"alternatives": others} if others else {})


class Translator:
    """Translates text with a trained model."""

    task: ClassVar[str] = "translation"
    verb: ClassVar[str] = "translate"
    Options: ClassVar[type] = TranslationOptions
    __repr__ = described

    def __init__(
        self, model: Any, tokenizers: tuple[Tokenizer, Tokenizer], decoding: DecodingConfig, name: str = "translator"
    ):
        self.model = model
        self.source, self.target = tokenizers
        self.decoding = decoding
        self.name = name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Translator:
        """The translator a checkpoint directory holds."""
        settings = checkpoint.config
        build, kind = MODELS[settings["model"]["name"]]
        with Unfilled():
            model = build(config.build(kind, settings["model"], where="model"))
        fill(model, checkpoint.tensors())
        decoding = config.build(DecodingConfig, settings.get("decoding", {}), where="decoding")
        return cls(model.to(device).eval(), read_tokenizers(checkpoint), decoding, name=checkpoint.directory.name)

    @property
    def languages(self) -> list[str]:
        """Target languages to choose from; none when there is only one."""
        return list(self.source.tags)

    def direction(self, text: str) -> str | None:
        """The language to translate into, guessed from a text that is in one of the others; None if nothing tells."""
        read = languages.guess(text, self.languages)
        others = [code for code in self.languages if code != read]
        return others[0] if read is not None and len(others) == 1 else None

    def translate(self, texts: str | Sequence[str], *, to: str | None = None, **settings: Any) -> list[str]:
        """Translate one text or many; settings are those of `DecodingConfig`."""
        return [answer.text for answer in self.answers(texts, to=to, **settings)]

    def parse(self, text: str) -> str:
        """An input is a text."""
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Answer]:
        """Translations with their scores; options are those of `TranslationOptions`."""
        return self.answers(list(inputs), **options)

    def evaluate(self, *files: str | Path, columns: tuple[int, int] | None = None, **options: Any) -> Scores:
        """Scores on one file of pairs, or on a file of sources and one of references."""
        from regard.tasks.translation import scoring

        return scoring.score(self, scoring.pairs(*files, columns=columns), **options)

    def answers(self, texts: str | Sequence[str], *, to: str | None = None, **settings: Any) -> list[Answer]:
        """Translations with their scores and alternatives, in the order of the texts."""
        decoding = config.build(DecodingConfig, {**config.plain(self.decoding), **settings}, where="decoding")
        texts = [texts] if isinstance(texts, str) else list(texts)
        plans = [self.plan(text, decoding) for text in texts]
        wanted = [piece.text for plan in plans for piece in plan if piece.text]
        found = iter(self._search(wanted, to, decoding))
        return [_rejoin(plan, [next(found) for piece in plan if piece.text]) for plan in plans]

    def look(self, text: str, *, to: str | None = None) -> Trace:
        """Translate one sentence and keep where every head looked while the winning beam was written."""
        read = self.encode(text, to)
        decoding = replace(self.decoding, nbest=1, sample=False)
        with watch(self.model) as seen:
            [[best, *_]] = self.hypotheses([read], [0], decoding)
        along = seen.along([best])
        written = [*best.tokens, EOS][: len(best.path) + 1]
        items = {
            "source": tokens(self.source, read),
            "target": tokens(self.target, written),
            "fed": tokens(self.target, [BOS, *written[:-1]]),
        }
        weights = [Weights(name, *axes(name), values=found[0]) for name, found in along.items()]
        facts = {"text": text, "answer": self.target.decode(best.tokens), "score": best.score}
        facts |= {"read": read, "written": written}
        return Trace(self.name, "translation", items, weights, facts)

    def steps(self, trace: Trace, *, names: Sequence[str] | None = None, top: int = 10) -> Steps:
        """The vectors of the decoder's attentions (or of those named) while the answer is read again in one go."""
        from regard.interpret.steps import Steps, inside, predictions

        read, written = trace.facts["read"], trace.facts["written"]
        device = next(self.model.parameters()).device
        inputs = torch.tensor([read], device=device), torch.tensor([[BOS, *written[:-1]]], device=device)
        layouts = tuple(Grid(torch.tensor([len(ids)], device=device), len(ids)) for ids in (read, written))
        names = names or [one.name for one in trace.weights if one.name.startswith("decoder")]

        def read_again() -> Tensor:
            return self.model.logits(self.model(*inputs, layouts=layouts))[0]

        found, logits = inside(self.model, read_again, names=names)
        return Steps(found, predictions(logits, written, lambda token: self.target.pieces([token])[0], top=top))

    def plan(self, text: str, decoding: DecodingConfig) -> list[sentences.Piece]:
        """The text cut into what is translated and the white space that is kept."""
        if not decoding.split or decoding.force or decoding.prefix:
            return sentences.whole(text)
        most = min(decoding.longest, self._context)
        return sentences.split(text, fits=lambda part: len(self.source.encode(part)) + 2 <= most)

    @property
    def _context(self) -> int:
        return self.model.config.context

    def encode(self, text: str, to: str | None = None) -> list[int]:
        """Token ids of a sentence as the model reads it: the tag of the language asked for, the text, the end."""
        ids = [*self.tag(to), *self.source.encode(text)]
        room = self._context - 1
        if len(ids) > room:
            raise ValueError(f"{len(ids)} tokens in one sentence, the model reads {room}: split the text")
        return [*ids, EOS]

    def tag(self, to: str | None = None) -> list[int]:
        """What asks for a language: one token, or none where there is nothing to choose."""
        if to is None:
            if len(self.languages) > 1:
                raise ValueError(f"say which language to translate to: {', '.join(self.languages)}")
            return [self.source.tag(name) for name in self.languages]
        if not self.languages:
            raise ValueError(f"this model has one direction and cannot be sent to {to!r}: leave the language out")
        return [self.source.tag(to)]

    def _search(self, texts: Sequence[str], to: str | None, decoding: DecodingConfig) -> list[Answer]:
        """Answers for sentences, decoded in batches of similar length."""
        read = [self.encode(text, to) for text in texts]
        copies = decoding.nbest if decoding.sample else max(decoding.beams, decoding.nbest)
        batches = by_length([len(ids) for ids in read], budget=max(1, decoding.tokens // copies))
        found = ([_answer(self.target, each) for each in own] for own in self._found(read, batches, decoding))
        return in_order(batches, found)

    def _found(
        self, read: Sequence[list[int]], batches: Sequence[Sequence[int]], decoding: DecodingConfig
    ) -> Iterable[list[list[Hypothesis]]]:
        """Hypotheses batch by batch; on a GPU in half precision, sentences taking the places of those that are done."""
        one_by_one = (self.hypotheses(read, batch, decoding) for batch in batches)
        model = for_generation(self.model)
        if model is self.model or not batches or decoding.sample or self._constraints(decoding):
            return one_by_one
        groups = []
        for batch in batches:
            own = [read[number] for number in batch]
            longest = min(-(-len(own[0]) // 16) * 16, self._context)  # of few lengths, so that work can be replayed
            groups.append(engine.Group(_padded(own, model.device, longest), self._limits(read, batch, decoding)))
        try:
            return engine.stream(model, groups, self._beam(decoding), eos=EOS, rows=ROWS)
        except FloatingPointError:  # half precision cannot hold what this model computes
            return one_by_one

    def hypotheses(
        self, read: Sequence[list[int]], numbers: Sequence[int], decoding: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """The search itself, over the token ids of the sentences with these numbers."""
        device = next(self.model.parameters()).device
        inputs = _padded([read[number] for number in numbers], device)
        limits, wanted = self._limits(read, numbers, decoding), self._constraints(decoding)
        if not decoding.sample:
            return search(self.model, inputs, self._beam(decoding), limit=limits, eos=EOS, constraints=wanted)
        sampler = Sampler(
            temperature=decoding.temperature,
            top_k=decoding.top_k,
            top_p=decoding.top_p,
            min_p=decoding.min_p,
            generator=[torch.Generator().manual_seed(hash((decoding.seed, number))) for number in numbers],
        )
        return generate(
            self.model, inputs, limit=limits, eos=EOS, pick=sampler, samples=decoding.nbest, constraints=wanted
        )

    def _limits(self, read: Sequence[list[int]], numbers: Sequence[int], decoding: DecodingConfig) -> list[int]:
        """The most tokens of each answer."""
        return [min(self._context - 1, int(decoding.ratio * len(read[number])) + 10) for number in numbers]

    @staticmethod
    def _beam(decoding: DecodingConfig) -> Beam:
        beams = max(decoding.beams, decoding.nbest)
        return Beam(beams=beams, nbest=decoding.nbest, length_penalty=decoding.length_penalty)

    def _constraints(self, decoding: DecodingConfig) -> list[constraints.Constraint]:
        """What the settings demand of an answer, in tokens."""
        wanted: list[constraints.Constraint] = []
        if decoding.prefix:
            wanted.append(constraints.Prefix(self.target.encode(decoding.prefix)))
        if decoding.force:
            wanted.append(constraints.Force([self.target.encode(phrase) for phrase in decoding.force]))
        if decoding.forbid:
            wanted.append(constraints.Forbid([self.target.encode(phrase) for phrase in decoding.forbid]))
        if decoding.no_repeat:
            wanted.append(constraints.NoRepeat(decoding.no_repeat))
        if decoding.minimum:
            wanted.append(constraints.MinimumLength(decoding.minimum))
        return wanted


def read_tokenizers(checkpoint: Checkpoint) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target, which may be one."""
    source = Tokenizer.parse(checkpoint.text("tokenizer.json"))
    separate = "tokenizer.target.json" in checkpoint.files
    return source, Tokenizer.parse(checkpoint.text("tokenizer.target.json")) if separate else source


def _padded(
    read: Sequence[list[int]], device: torch.device, longest: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids as what a translation model starts from: source, lengths, prompt."""
    lengths = [len(ids) for ids in read]
    longest = longest or max(lengths)
    source = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in read], device=device)
    prompt = torch.full((len(read), 1), BOS, device=device)
    return source, torch.tensor(lengths, device=device), prompt


def _answer(tokenizer: Tokenizer, hypotheses: Sequence[Hypothesis]) -> Answer:
    """The best hypothesis in words, with the others behind it."""
    best, *others = [Answer(tokenizer.decode(each.tokens), each.score) for each in hypotheses]
    return replace(best, alternatives=tuple(others))


def _rejoin(plan: Sequence[sentences.Piece], found: Sequence[Answer]) -> Answer:
    """Translations of the pieces with the white space that stood between them; the k-th best of each together."""
    ranks = 1 + min((len(answer.alternatives) for answer in found), default=0)
    joined = []
    for rank in range(ranks):
        ranked = iter([(answer, *answer.alternatives)[rank] for answer in found])
        parts, score = [], 0.0
        for piece in plan:
            if piece.text:
                answer = next(ranked)
                parts.append(answer.text)
                score += answer.score
            parts.append(piece.gap)
        joined.append(Answer("".join(parts), score))
    return replace(joined[0], alternatives=tuple(joined[1:]))
