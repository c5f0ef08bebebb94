"""Completions as OpenAI's clients ask for them, put into the terms of a model that writes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.limits import Limits
from regard.serve.payload import check_characters, read_options
from regard.serve.refusal import Refusal
from regard.serve.stop_texts import cut_at_stop, settle_before_stop
from regard.tasks.writing import Text, Writes

WRITING_VERBS = ("write", "translate")  # of models that can complete a text, the likeliest first
IGNORED = frozenset({"user", "store", "metadata"})  # what says nothing about the answer
NEUTRAL: dict[str, Any] = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "best_of": 1,
    "logprobs": None,
    "suffix": None,
    "logit_bias": {},
    "top_logprobs": None,
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "none",
}
"""Members that are accepted as long as they ask for nothing."""
SHARED_MEMBERS = frozenset(
    {
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "n",
        "stream",
        "stream_options",
        "stop",
        "seed",
        "beams",
        *IGNORED,
        *NEUTRAL,
    }
)
"""`beams` is our own: the width of a translator's search, 1 for one that is streamed token by token."""
COMPLETION_MEMBERS = SHARED_MEMBERS | {"prompt", "echo"}
CHAT_MEMBERS = SHARED_MEMBERS | {"messages", "max_completion_tokens"}
DEFAULT_TOKENS = 16  # of a completion, as OpenAI has it
DEFAULT_CHAT_TOKENS = 200
STOPS = 4  # texts that may end a completion, as OpenAI has it
SEEDS = 2**31


@dataclass(frozen=True)
class Choice:
    """An answer as it is sent: its text, why it ends, and how many tokens the model wrote."""

    text: str
    finish_reason: str
    tokens: int


@dataclass(frozen=True)
class Completion:
    """A completion request: one call of the model per choice, and the format of the answer."""

    model: ServedModel
    model_name: str
    calls: Sequence[tuple[list[str], dict[str, Any]]]
    is_chat: bool
    stream: bool
    echo: bool
    include_usage: bool
    stops: Sequence[str] = ()
    """Texts before the first of which an answer ends."""

    @property
    def key(self) -> str:
        """The key of the model in the worker."""
        return self.model.key

    @property
    def prefix(self) -> str:
        """The prefix of response ids."""
        return "chatcmpl" if self.is_chat else "cmpl"

    @property
    def object(self) -> str:
        """The object type of a response, as in OpenAI's API."""
        return "chat.completion" if self.is_chat else "text_completion"

    @property
    def chunk_object(self) -> str:
        """The object type of a streamed chunk, as in OpenAI's API."""
        return "chat.completion.chunk" if self.is_chat else "text_completion"

    def find_answer(self, prompt: str) -> int:
        """Return where the answer begins in a text of the model: after the prompt, if the model repeats it."""
        writer = self.model.trained
        return len(writer.decode(writer.begin(prompt))) if isinstance(writer, Writes) else 0

    def read(self, text: str, answer: Any, begin: int) -> tuple[str, Choice | None]:
        """Return what is to be sent of a text whose answer begins at `begin`, and the choice once it is complete.

        It is when the model has ended it, or when a stop text has; what may become a stop text is held back.
        """
        read = settle_before_stop if answer is None else cut_at_stop
        written, is_stopped = read(text[begin:], self.stops)
        shown = text[:begin] + written if self.echo else written
        if is_stopped:
            return shown, Choice(shown, "stop", self._count_tokens(written))
        if answer is None:
            return shown, None
        tokens = answer.tokens if isinstance(answer, Text) else self._count_tokens(written)
        return shown, Choice(shown, finish_reason(answer), tokens)

    def describe(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the choices and the usage of all calls."""
        described: list[dict[str, Any]] = []
        for index, choice in enumerate(choices):
            content = (
                {"message": {"role": "assistant", "content": choice.text}} if self.is_chat else {"text": choice.text}
            )
            described.append({"index": index, **content, "logprobs": None, "finish_reason": choice.finish_reason})
        return {"choices": described, "usage": self.usage(choices)}

    def opening(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks that precede the text of a stream."""
        for index in range(len(self.calls) if self.is_chat else 0):
            yield {"choices": [{"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}

    def chunk(self, index: int, text: str, choice: Choice | None = None) -> dict[str, Any]:
        """Return a chunk of a stream; the last one of a choice has the finish reason."""
        content = {"delta": {"content": text} if text else {}} if self.is_chat else {"text": text, "logprobs": None}
        reason = None if choice is None else choice.finish_reason
        return {"choices": [{"index": index, **content, "finish_reason": reason}]}

    def usage(self, choices: Sequence[Choice]) -> dict[str, int]:
        """Return the numbers of prompt and completion tokens."""
        model: Any = self.model.trained
        if isinstance(model, Writes):
            prompt = sum(len(model.begin(inputs[0])) for inputs, _ in self.calls)
        else:
            prompt = sum(map(len, model.source.encode_many([inputs[0] for inputs, _ in self.calls])))
        written = sum(choice.tokens for choice in choices)
        return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}

    def _count_tokens(self, text: str) -> int:
        """Return the number of tokens of an answer."""
        model: Any = self.model.trained
        return len(model.begin(text) if isinstance(model, Writes) else model.target.encode_many([text])[0])


def read_completion(payload: dict[str, Any], catalogue: Catalogue, limits: Limits) -> Completion:
    """Parse a request to /v1/completions."""
    check_openai_members(payload, COMPLETION_MEMBERS)
    prompts = read_texts(payload.get("prompt"), "prompt", limits.inputs)
    tokens = _whole(payload, "max_tokens", DEFAULT_TOKENS)
    return _build(payload, prompts, tokens, catalogue, limits, is_chat=False)


def read_chat(payload: dict[str, Any], catalogue: Catalogue, limits: Limits) -> Completion:
    """Parse a request to /v1/chat/completions; the contents of all messages form the prompt.

    A model that translates is given the last one only.
    """
    check_openai_members(payload, CHAT_MEMBERS)
    messages = payload.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise Refusal(422, "messages must be a list of objects with role and content", "invalid_input")
    contents = [_content_of(message) for message in messages]
    model, _ = pick_writer(catalogue, payload.get("model"))
    prompt = "\n".join(contents) if isinstance(model.trained, Writes) else contents[-1]
    tokens = _whole(payload, "max_completion_tokens", _whole(payload, "max_tokens", DEFAULT_CHAT_TOKENS))
    return _build(payload, [prompt], tokens, catalogue, limits, is_chat=True)


def pick_writer(catalogue: Catalogue, name: Any) -> tuple[ServedModel, str | None]:
    """Return the model of a name such as `en-fr:fr`, and the language after the colon."""
    if isinstance(name, str) and name not in catalogue.names and ":" in name:
        base, _, target = name.rpartition(":")
        model = catalogue.pick(WRITING_VERBS, base)
        if target not in model.targets:
            raise Refusal(404, f"{base} does not write that language: see /v1/models", "model_not_found")
        return model, target
    return catalogue.pick(WRITING_VERBS, name), None


def target_names(model: ServedModel) -> list[str]:
    """Return the names `model:language`, one for each target language of a model."""
    return [f"{model.name}:{target}" for target in model.targets]


def check_openai_members(payload: dict[str, Any], allowed: frozenset[str]) -> None:
    """Refuse what is unknown, and what is known and asks for something that there is not."""
    if unknown := sorted(payload.keys() - allowed):
        raise Refusal(422, f"unknown member {unknown[0][:40]!r}", "unknown_member")
    for name, neutral in NEUTRAL.items():
        value = payload.get(name)
        if value is not None and (value != neutral or isinstance(value, bool)):
            raise Refusal(422, f"{name} is not supported: leave it out", "unsupported")


def read_texts(value: Any, name: str, most: int) -> list[str]:
    """Return a text or a list of texts as a list."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise Refusal(422, f"{name} must be a text or a list of texts; token ids are not read", "invalid_input")
    if len(texts) > most:
        raise Refusal(422, f"{len(texts)} texts in {name}, at most {most} in a request", "too_many_inputs")
    return texts


def finish_reason(answer: Any) -> str:
    """Return why a text ends: by itself (stop), or because it was long enough."""
    finished = answer.finished if isinstance(answer, Text) else not answer.unfinished
    return "stop" if finished else "length"


def _build(
    payload: dict[str, Any], prompts: list[str], tokens: int, catalogue: Catalogue, limits: Limits, *, is_chat: bool
) -> Completion:
    stops = _read_stops(payload.get("stop"))
    check_characters([*prompts, *stops], limits)
    model, target = pick_writer(catalogue, payload.get("model"))
    if tokens > limits.new_tokens:
        raise Refusal(422, f"max_tokens is {tokens:,}, at most {limits.new_tokens:,} here", "over_limit")
    count = _whole(payload, "n", 1)
    if count > limits.beams:
        raise Refusal(422, f"n is {count}, at most {limits.beams} here", "over_limit")
    if len(prompts) * count > limits.inputs:
        raise Refusal(422, f"{len(prompts) * count} answers, at most {limits.inputs} in a request", "over_limit")
    seed = _whole(payload, "seed", secrets.randbelow(SEEDS), least=1 - 2**63)
    options = _writing_options(payload, model, tokens, target)
    checked = read_options(model.trained.Options, options, limits)
    seeded = isinstance(model.trained, Writes) or checked.get("sample")
    if count > 1 and not seeded:
        raise Refusal(422, f"n is {count}: set a temperature, or all answers would be the same", "invalid_input")
    calls = [
        ([prompt], {**checked, "seed": seed + index} if seeded else dict(checked))
        for prompt in prompts
        for index in range(count)
    ]
    stream_options = {} if payload.get("stream_options") is None else payload["stream_options"]
    if not isinstance(stream_options, dict):
        raise Refusal(422, "stream_options must be an object", "invalid_input")
    return Completion(
        model,
        payload.get("model") or model.name,
        calls,
        is_chat=is_chat,
        stream=_truth(payload, "stream"),
        echo=_truth(payload, "echo"),
        include_usage=stream_options.get("include_usage") is True,
        stops=stops,
    )


def _writing_options(payload: dict[str, Any], model: ServedModel, tokens: int, target: str | None) -> dict[str, Any]:
    """Return the options of a model; one that translates searches for the likeliest unless a temperature is set."""
    options = {name: payload[name] for name in ("temperature", "top_p") if payload.get(name) is not None}
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal(422, f"{name} must be a number", "invalid_input")
    beams = {} if payload.get("beams") is None else {"beams": _whole(payload, "beams", 1)}
    if beams and (isinstance(model.trained, Writes) or options.get("temperature")):
        raise Refusal(422, "beams is for translators that search, without a temperature: leave it out", "unsupported")
    if isinstance(model.trained, Writes):
        return {**options, "length": tokens}
    if not options.get("temperature"):
        options = {}
    return {**options, **beams, **({"sample": True} if options else {}), **({"to": target} if target else {})}


def _read_stops(value: Any) -> list[str]:
    """Return the texts that end an answer; an empty one by itself is none."""
    stops = [] if value in (None, "") else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > STOPS or not all(isinstance(text, str) and text for text in stops):
        raise Refusal(
            422, f"stop must be a text, or a list of at most {STOPS} texts that are not empty", "invalid_input"
        )
    return stops


def _content_of(message: dict[str, Any]) -> str:
    """Return the text of a chat message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str) or not isinstance(message.get("role"), str):
        raise Refusal(422, "a message must have a role and a content of text", "invalid_input")
    return content


def _whole(payload: dict[str, Any], name: str, default: int, *, least: int = 1) -> int:
    value = payload.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
        raise Refusal(422, f"{name} must be a whole number of at least {least}", "invalid_input")
    return value


def _truth(payload: dict[str, Any], name: str) -> bool:
    value = payload.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refusal(422, f"{name} must be true or false", "invalid_input")
    return bool(value)
