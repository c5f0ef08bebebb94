"""On a GPU: the variable-length kernel, blind queries and a compiled step give what the explicit path gives."""

import pytest
import torch

from regard.attention.attend import AttentionSpec, attend, attend_explicitly
from regard.attention.masks import EVERYONE, Grid, Row, allow, causal, packed, padded, window
from regard.attention.multihead import Heads, MultiHead

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LENGTHS = [5, 1, 17, 0, 30]
ROWS = {"exact": {}, "fixed": {"longest": 32, "size": 80, "segments": 12}}


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one.float() - other.float()).norm() <= 2e-2 * other.float().norm() + 1e-6)


@pytest.mark.parametrize("shape", list(ROWS))
@pytest.mark.parametrize("extra", [None, causal(), window(3), causal() & window(4)])
@pytest.mark.parametrize("groups", [4, 2])
def test_the_variable_length_kernel_is_the_explicit_path(shape, extra, groups):
    torch.manual_seed(0)
    row = Row.of(LENGTHS, **ROWS[shape]).to("cuda")
    tokens = len(row.segment)
    mask = packed(row) if extra is None else packed(row) & extra
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        torch.manual_seed(1)
        parts = [torch.randn(heads, tokens, 16, device="cuda") for heads in (4, groups, groups)]
        parts = [part.to(dtype).requires_grad_() for part in parts]
        mixed = attend(*parts, mask=mask)
        real = row.segment < row.count
        mixed[:, real].float().square().sum().backward()
        results.append([mixed[:, real].detach(), *(part.grad[:, real] for part in parts)])
        assert all(bool(part.grad.isfinite().all()) for part in parts)
    for half, single in zip(*results, strict=True):
        assert close(half, single)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_blind_query_gets_zeros_and_finite_gradients(dtype):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 6, 16, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    visible = torch.rand(2, 6, 6, device="cuda") > 0.5
    visible[:, 2] = False
    for mask in (allow(visible), padded(Grid(torch.tensor([0, 4], device="cuda"), 6))):
        mixed = attend(query, key, value, mask=mask)
        explicit = attend_explicitly(query, key, value, mask=mask, way=AttentionSpec())
        assert close(mixed, explicit)
        mixed.float().square().sum().backward()
        for part in (query, key, value):
            assert bool(part.grad.isfinite().all())
            part.grad = None


def test_cross_attention_to_an_empty_source_gives_zeros_in_the_kernel():
    targets, sources = Row.of([3, 4, 2]).to("cuda"), Row.of([5, 0, 2]).to("cuda")
    query = torch.randn(4, 9, 16, device="cuda", dtype=torch.bfloat16)
    key, value = torch.randn(2, 4, 7, 16, device="cuda", dtype=torch.bfloat16)
    mixed = attend(query, key, value, mask=packed(targets, sources))
    assert bool((mixed[:, 3:7] == 0).all())


def test_a_compiled_step_over_rows_of_other_lengths_is_one_graph():
    torch._dynamo.reset()
    attention = MultiHead(64, Heads(4)).cuda()
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(attention, backend=counter)
    for lengths in ([5, 9, 20], [30, 2], [7, 7, 7, 7, 7]):
        row = Row.of(lengths, longest=32, size=96, segments=12).to("cuda")
        x = torch.randn(96, 64, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            one = compiled(x, mask=packed(row) & causal())
            other = attention(x, mask=packed(row) & causal())
        real = row.segment < row.count
        assert close(one[real], other[real])
    assert counter.frame_count == 1


@pytest.mark.parametrize("length", [64, 192, 197])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_finite_where_all_scores_are_far_below_zero(length, masked):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, length, 64, device="cuda", dtype=torch.bfloat16) * 0.1 for _ in range(3))
    query[..., 0], key[..., 0] = 1.0, -960.0  # every score is about -120
    parts = [part.requires_grad_() for part in (query, key, value)]
    mask = padded(Grid(torch.tensor([length, length - 3], device="cuda"), length)) if masked else EVERYONE
    attend(*parts, mask=mask).float().square().sum().backward()
    assert all(bool(part.grad.isfinite().all()) for part in parts)
