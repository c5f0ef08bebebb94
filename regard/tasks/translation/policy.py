"""Decoding policies from the settings of a translation: beam search or sampling, and constraints."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers import Tokenizer
from regard.decoding import constraints
from regard.decoding.beam import Beam, SearchPolicy
from regard.decoding.forbidden import Forbidden
from regard.decoding.generate import SamplingPolicy
from regard.decoding.request import Sampling
from regard.tasks.translation.options import DecodingConfig


def build_policy(
    decoding: DecodingConfig, target: Tokenizer, vocab: int, rules: Sequence[constraints.Constraint] = ()
) -> SearchPolicy | SamplingPolicy:
    """Return the decoding policy; `vocab` is the model's vocabulary size, `rules` are additional constraints."""
    how, all_rules = build_how(decoding), (*build_rules(decoding, target, vocab), *rules)
    if isinstance(how, Beam):
        return SearchPolicy(how, target.role("end"), all_rules)
    return SamplingPolicy(how.samples, target.role("end"), how, all_rules)


def build_how(decoding: DecodingConfig) -> Beam | Sampling:
    """Return the beam search, or the sampling, of these settings."""
    if not decoding.sample:
        beams = max(decoding.beams, decoding.nbest)
        return Beam(beams=beams, nbest=decoding.nbest, length_penalty=decoding.length_penalty)
    filters = {name: getattr(decoding, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return Sampling(samples=decoding.nbest, **filters)


def build_rules(decoding: DecodingConfig, target: Tokenizer, vocab: int) -> tuple[constraints.Constraint, ...]:
    """Return the constraints of these settings, in tokens."""
    rules: list[constraints.Constraint] = []
    if target.begin is None:  # then pad starts an answer, and never occurs inside it
        rules.append(constraints.Forbid([[target.opening]]))
    if beyond := range(target.vocab, vocab):  # tokens that only the model has
        rules.append(constraints.Forbid([[token] for token in beyond]))
    if isinstance(decoding.prefix, tuple):
        forbidden = [] if target.begin is not None else [target.opening]
        rules += constraints.force_tokens(decoding.prefix, vocab=min(target.vocab, vocab), forbidden=forbidden)
    elif decoding.prefix:
        rules.append(constraints.Prefix(target.encode(decoding.prefix, written=True)))
    if decoding.force:
        rules.append(constraints.Force([target.encode(phrase, written=True) for phrase in decoding.force]))
    if decoding.forbid:
        rules.append(Forbidden(target.token_bytes, tuple(decoding.forbid)))
    if decoding.no_repeat:
        rules.append(constraints.NoRepeat(decoding.no_repeat))
    if decoding.minimum:
        rules.append(constraints.MinimumLength(decoding.minimum))
    return tuple(rules)
