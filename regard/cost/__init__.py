"""The cost of a model, estimated without running it: parameters, operations, memory, time and money.

Nothing is computed and no weight is allocated. Operations are floating-point operations of matrix products, two for
each multiply-add, as profilers count them; a training step costs three times its forward pass.
"""

from regard.cost.gpus import GPU, GPUS, duration, gpu, known_gpu, price
from regard.cost.memory import Memory
from regard.cost.plan import Estimate, Plan, estimate, flops, forward, sequences_in, units_of
from regard.cost.published import PUBLISHED, Published
from regard.cost.sizes import VOCAB, parameters, preset, presets
from regard.cost.trace import Lengths, Trace, trace

__all__ = [
    "GPU",
    "GPUS",
    "PUBLISHED",
    "VOCAB",
    "Estimate",
    "Lengths",
    "Memory",
    "Plan",
    "Published",
    "Trace",
    "duration",
    "estimate",
    "flops",
    "forward",
    "gpu",
    "known_gpu",
    "parameters",
    "preset",
    "presets",
    "price",
    "sequences_in",
    "trace",
    "units_of",
]
