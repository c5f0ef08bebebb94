"""What the device at hand can run."""

from importlib.util import find_spec

from torch import Tensor

TRITON = find_spec("triton") is not None  # looked up once, so that a compiler meets a constant


def kernels_run(tensor: Tensor) -> bool:
    """Whether Triton kernels can be run on this."""
    return tensor.is_cuda and TRITON
