"""What there is to time of a translator: greedy and beam search, by one and by many, and the weights that takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from regard.attention.hardware import device_of
from regard.models.inference import pays
from regard.tasks.trained import SENTENCES, Workload

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator

MANY = 1 << 24  # more tokens than there are: a batch stays whole


def workloads(
    translator: Translator, texts: Sequence[str], batches: Sequence[int], to: str | None = None
) -> Iterator[Workload]:
    """Translations of these texts, greedily and with beams, by one and by many."""
    texts = texts or SENTENCES
    to = to or (translator.languages[0] if len(translator.languages) > 1 else None)
    once, again = weights_read(translator.model)
    translator.ready.warm()
    for beams in dict.fromkeys((1, max(4, translator.decoding.beams))):
        for batch in batches:
            chosen = [texts[number % len(texts)] for number in range(batch)]
            write = partial(translator.translate, chosen, to=to, beams=beams, split=False, tokens=MANY)
            lengths = [len(translator.target.encode(answer)) + 1 for answer in write()]
            name = f"{'greedy' if beams == 1 else f'beam {beams}'}, {batch} at a time"
            yield Workload(name, write, sum(lengths), once + max(lengths) * again)


def weights_read(model: Any) -> tuple[int, int]:
    """Bytes of weights that are read once for a batch of sources, and those read again for every token written.

    Tables of tokens are looked up, not read, unless they predict as well. On a GPU a Transformer writes with a copy in
    half precision.
    """
    halved, once, again = hasattr(model, "stack") and pays(device_of(model)), 0, 0
    for name, weight in model.named_parameters():
        size = 2 * weight.numel() if halved else weight.nbytes
        part = name.partition(".")[0]
        if part.startswith(("encoder", "bridge")):
            once += size
        elif part not in ("embedding", "target_embedding") or weight is model.prediction:
            again += size
    return once, again
