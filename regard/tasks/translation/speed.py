"""Workloads to benchmark a translator: greedy and beam search in several batch sizes, and the weights they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from regard.attention.hardware import device_of
from regard.data import languages
from regard.models.inference.fast_path import pays
from regard.tasks.trained import SENTENCES, Workload

if TYPE_CHECKING:
    from regard.tasks.translation.sentence_translator import SentenceTranslator

MANY = 1 << 24  # more tokens than any batch has, so that it is not split


def workloads(
    translator: SentenceTranslator, texts: Sequence[str], batches: Sequence[int], to: str | None = None
) -> Iterator[Workload]:
    """Yield translations of these texts, greedily and with beams, in several batch sizes."""
    texts = (texts or SENTENCES)[: max(batches)]
    to = to or foreign_language(translator, texts)
    once, again = weights_read(translator.model)
    translator.ready.warm()
    refuse_copies(translator, texts, to)
    for beams in dict.fromkeys((1, max(4, translator.decoding.beams))):
        for batch in batches:
            chosen = [texts[number % len(texts)] for number in range(batch)]
            write = partial(translate_whole, translator, chosen, to=to, beams=beams)
            lengths = [len(translator.target.encode(answer)) + 1 for answer in write()]
            name = f"{'greedy' if beams == 1 else f'beam {beams}'}, {batch} at a time"
            yield Workload(name, write, sum(lengths), once + max(lengths) * again)


def translate_whole(translator: SentenceTranslator, texts: Sequence[str], *, to: str | None, beams: int) -> list[str]:
    """Translate texts as one batch, without splitting them into sentences."""
    return [answer.text for answer in translator.answers(texts, to=to, beams=beams, split=False, tokens=MANY)]


def foreign_language(translator: SentenceTranslator, texts: Sequence[str]) -> str | None:
    """Return a target language that the texts are not in; None if the model has only one direction."""
    if len(translator.languages) < 2:
        return None
    written_in = languages.likeliest("\n".join(texts), translator.languages)
    return next(code for code in translator.languages if code != written_in)


def refuse_copies(translator: SentenceTranslator, texts: Sequence[str], to: str | None) -> None:
    """Raise ValueError if a text would be returned untranslated, which would time no work of the model."""
    answers = translator.answers(texts, to=to, beams=1, split=False)
    copied = [text for text, answer in zip(texts, answers, strict=True) if answer.kept]
    if copied:
        raise ValueError(
            f"{len(copied)} of {len(texts)} texts are in {to} already and would be copied, such as {copied[0]!r}: "
            f"give texts in another language, or another --to ({', '.join(translator.languages)})"
        )


def weights_read(model: Any) -> tuple[int, int]:
    """Return the bytes of weights read once per batch of sources, and those read for every generated token.

    Embeddings are looked up, not read, unless they are also the output matrix. On a GPU a Transformer decodes with a
    copy in half precision.
    """
    halved, once, again = model.stack is not None and pays(device_of(model)), 0, 0
    for name, weight in model.named_parameters():
        size = 2 * weight.numel() if halved else weight.nbytes
        part = name.partition(".")[0]
        if part.startswith(("encoder", "bridge")):
            once += size
        elif part not in ("embedding", "target_embedding") or weight is model.prediction:
            again += size
    return once, again
