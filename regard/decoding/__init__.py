"""Decoding: greedy search, sampling and beam search, with constraints."""

from regard.decoding.batching import by_length, in_order
from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Constraint, Forbid, Force, MinimumLength, NoRepeat, Prefix
from regard.decoding.engine import Engine
from regard.decoding.exchange import Exchange, ExchangeLoop, run_exchange
from regard.decoding.generate import generate
from regard.decoding.request import Request, Sampling, Score
from regard.decoding.sampling import Sampler
from regard.decoding.search_tree import SearchTree, record_search
from regard.decoding.stepper import Hypothesis, State, Stepper

__all__ = [
    "Beam",
    "Constraint",
    "Engine",
    "Exchange",
    "ExchangeLoop",
    "Forbid",
    "Force",
    "Hypothesis",
    "MinimumLength",
    "NoRepeat",
    "Prefix",
    "Request",
    "Sampler",
    "Sampling",
    "Score",
    "SearchTree",
    "State",
    "Stepper",
    "by_length",
    "generate",
    "in_order",
    "record_search",
    "run_exchange",
    "search",
]
