"""Attention along rows and columns: the same as full attention behind a mask, and two layers that join all pixels."""

import torch

from regard.attention.axial import along, axial_pairs, full_pairs
from regard.attention.masks import EVERYONE, Mask, allow, causal
from regard.attention.multihead import MultiHead
from regard.attention.plane import LearnedPlane

ROWS, COLUMNS, WIDTH = 3, 5, 8


def attention(seed: int = 0) -> MultiHead:
    torch.manual_seed(seed)
    return MultiHead(WIDTH, 2).double().eval()


def masked(look: MultiHead, x: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """Full attention over all pixels, each of which sees what is visible."""
    return look(x.flatten(1, 2), mask=allow(visible)).view_as(x)


def lines(axis: str, *, past: bool = False) -> torch.Tensor:
    """Which pixels share a row or a column, and where only the past counts, are not behind the one that looks."""
    places = torch.arange(ROWS * COLUMNS)
    line, along_it = (places // COLUMNS, places % COLUMNS) if axis == "row" else (places % COLUMNS, places // COLUMNS)
    same = line[:, None] == line
    return same & (along_it[:, None] >= along_it) if past else same


def test_looking_along_lines_is_looking_at_all_pixels_of_the_line():
    look, x = attention(), torch.randn(2, ROWS, COLUMNS, WIDTH, dtype=torch.float64)
    for axis in ("row", "column"):
        for mask, past in ((EVERYONE, False), (causal(), True)):
            found = along(axis, lambda part, mask=mask: look(part, mask=mask), x)
            assert torch.allclose(found, masked(look, x, lines(axis, past=past)), atol=1e-12)


def test_a_line_is_what_torch_attends_over():
    look, x = attention(), torch.randn(2, ROWS, COLUMNS, WIDTH, dtype=torch.float64)
    theirs = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True).double().eval()
    parts = look.query, look.key, look.value
    theirs.in_proj_weight.data = torch.cat([part.weight for part in parts]).detach()
    theirs.in_proj_bias.data = torch.cat([part.bias for part in parts]).detach()
    theirs.out_proj.load_state_dict(look.output.state_dict())
    column = x[1, :, 4][None]
    expected, _ = theirs(column, column, column)
    assert torch.allclose(along("column", lambda part: look(part, mask=EVERYONE), x)[1, :, 4], expected[0], atol=1e-12)


def reached(layers: list[str]) -> torch.Tensor:
    """Which pixels have a gradient at which others, after layers along these axes."""
    x = torch.randn(1, ROWS, COLUMNS, WIDTH, dtype=torch.float64, requires_grad=True)
    y = x
    for number, axis in enumerate(layers):
        look = attention(number)
        y = along(axis, lambda part, look=look: look(part, mask=Mask()), y)
    found = []
    for pixel in y.flatten(1, 2)[0]:
        [slope] = torch.autograd.grad(pixel.sum(), x, retain_graph=True)
        found.append(slope[0].abs().sum(-1).flatten() > 0)
    return torch.stack(found)


def test_two_layers_join_any_two_pixels_and_one_joins_those_of_a_line():
    assert reached(["row", "column"]).all()
    assert torch.equal(reached(["row"]), lines("row"))
    assert torch.equal(reached(["column"]), lines("column"))
    assert not reached(["row", "row"]).all()


def test_pairs_are_those_of_the_masks():
    assert axial_pairs(ROWS, COLUMNS) == int(lines("row").sum() + lines("column").sum())
    assert (axial_pairs(32, 32), full_pairs(32, 32)) == (65_536, 1_048_576)
    assert f"{axial_pairs(1024, 1024):.2e}, {full_pairs(1024, 1024):.2e}" == "2.15e+09, 1.10e+12"


def test_a_pixel_knows_its_row_its_column_and_its_channel():
    positions = LearnedPlane((2, 3), WIDTH, channels=3)
    found = positions.embed(torch.arange(20))
    for place in range(18):
        row, column, channel = place // 9, place % 9 // 3, place % 3
        expected = positions.rows.weight[row] + positions.columns.weight[column] + positions.channels.weight[channel]
        assert torch.equal(found[place], expected)
    assert torch.equal(found[18:], found[17].expand(2, -1)), "a row that nobody has may have gone on beyond"
