"""Triton kernels of attention inside packed rows: one tile of queries, or of keys, with all that it attends to.

A tile is any neighbouring tokens, whatever sequences they belong to, and it attends to the tokens of its first to its
last sequence; the mask keeps sequences apart. Where sequences are long, most tiles are wholly inside one and visible:
with `SPLIT` they are processed without a mask. Scores are in base 2, as the GPU computes.
"""

import triton
import triton.language as tl


@triton.jit
def _bounds(segment, offsets, start, size, HELD: tl.constexpr):
    """Return the range of keys or queries that the tile at `start` attends to, and True if it has one sequence only."""
    first = tl.load(segment + start)
    last = tl.load(segment + tl.minimum(start + HELD, size) - 1)
    return tl.load(offsets + first), tl.load(offsets + last + 1), first == last


@triton.jit
def _tile(base, rows, size, stride, DEPTH: tl.constexpr):
    """Load the vectors of these rows, zeros beyond the end."""
    columns = tl.arange(0, DEPTH)
    return tl.load(base + rows[:, None] * stride + columns[None, :], mask=rows[:, None] < size, other=0.0)


@triton.jit
def _add_bias(scores, bias, head, reach, rows, columns, visible, LINEAR: tl.constexpr):
    """Add the bias by distance to scores in base 2; rows and columns are broadcast against one another.

    `visible` is None if all pairs are visible; places beyond the end must then be clamped.
    """
    if bias is not None:
        if LINEAR:
            scores -= tl.load(bias + head) * tl.abs(columns.to(tl.float32) - rows.to(tl.float32))
        elif visible is None:
            scores += tl.load(bias + head * (2 * reach - 1) + columns - rows + reach - 1)
        else:
            scores += tl.load(bias + head * (2 * reach - 1) + columns - rows + reach - 1, mask=visible, other=0.0)
    return scores


@triton.jit
def _sum_diagonals(change, TILE: tl.constexpr):
    """Return the sums of a square along its diagonals: 0 to TILE - 1 above the main one, and -TILE to -1 below it."""
    row, column = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    turned = tl.gather(change, (row + column) % TILE, 1)  # each diagonal becomes a column, of two parts
    above = row + column < TILE
    return tl.sum(tl.where(above, turned, 0.0), 0), tl.sum(tl.where(above, 0.0, turned), 0)


@triton.jit
def _visible_pairs(seg_m, seg_n, rows, columns, CAUSAL: tl.constexpr):
    """Return the mask of pairs in the same sequence, causal if `CAUSAL`."""
    visible = seg_m == seg_n
    if CAUSAL:
        visible = visible & (rows >= columns)
    return visible


@triton.jit
def _softmax_step(
    at, high, most, total, mixed, vectors, seg_m, rows, places, key, value, bias, key_segment, head, reach, scale,
    key_token, value_token, MASKED: tl.constexpr, CAUSAL: tl.constexpr, LINEAR: tl.constexpr, DEPTH: tl.constexpr,
    TAKEN: tl.constexpr,
):  # fmt: skip
    """Update the running softmax with one more tile of keys (Milakov and Gimelshein 2018)."""
    columns = at + tl.arange(0, TAKEN)
    keyed = _tile(key, columns, high, key_token, DEPTH)
    valued = _tile(value, columns, high, value_token, DEPTH)
    scores = tl.dot(vectors, tl.trans(keyed)) * scale
    if MASKED:
        seg_n = tl.load(key_segment + columns, mask=columns < high, other=-2)
        visible = _visible_pairs(seg_m[:, None], seg_n[None, :], rows[:, None], columns[None, :], CAUSAL)
        scores = _add_bias(scores, bias, head, reach, rows[:, None], columns[None, :], visible, LINEAR)
        scores = tl.where(visible, scores, float("-inf"))
    else:
        scores = _add_bias(scores, bias, head, reach, places[:, None], columns[None, :], None, LINEAR)
    higher = tl.maximum(most, tl.max(scores, 1))
    safe = tl.where(higher == float("-inf"), 0.0, higher) if MASKED else higher
    shares = tl.exp2(scores - safe[:, None])
    before = tl.exp2(most - safe)
    mixed = tl.dot(shares.to(valued.dtype), valued, mixed * before[:, None])
    return higher, total * before + tl.sum(shares, 1), mixed


@triton.jit
def forward(
    query, key, value, bias, out, lse, query_segment, key_segment, key_offsets, reach,
    queries, keys, scale, query_head, query_token, key_head, key_token, value_head, value_token, out_head, out_token,
    SHARED: tl.constexpr, CAUSAL: tl.constexpr, LINEAR: tl.constexpr, DEPTH: tl.constexpr, SPLIT: tl.constexpr,
    HELD: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    """Attend with one tile of queries of one head."""
    start, head = tl.program_id(0) * HELD, tl.program_id(1)
    rows = start + tl.arange(0, HELD)
    places = tl.minimum(rows, queries - 1)
    vectors = _tile(query + head * query_head, rows, queries, query_token, DEPTH)
    seg_m = tl.load(query_segment + rows, mask=rows < queries, other=-1)
    low, high, alone = _bounds(query_segment, key_offsets, start, queries, HELD)
    key += (head // SHARED) * key_head
    value += (head // SHARED) * value_head
    most = tl.full([HELD], float("-inf"), tl.float32)
    total = tl.zeros([HELD], tl.float32)
    mixed = tl.zeros([HELD, DEPTH], tl.float32)
    whole = low  # end of the keys that all queries see
    if SPLIT:
        whole += tl.where(alone, ((tl.minimum(start, high) if CAUSAL else high) - low) // TAKEN * TAKEN, 0)
        for at in range(low, whole, TAKEN):
            most, total, mixed = _softmax_step(
                at, high, most, total, mixed, vectors, seg_m, rows, places, key, value, bias, key_segment, head, reach,
                scale, key_token, value_token, False, CAUSAL, LINEAR, DEPTH, TAKEN,
            )  # fmt: skip
    if CAUSAL:
        high = tl.minimum(high, start + HELD)
    for at in range(whole, high, TAKEN):
        most, total, mixed = _softmax_step(
            at, high, most, total, mixed, vectors, seg_m, rows, places, key, value, bias, key_segment, head, reach,
            scale, key_token, value_token, True, CAUSAL, LINEAR, DEPTH, TAKEN,
        )  # fmt: skip
    blind = total == 0.0
    total = tl.where(blind, 1.0, total)
    columns = tl.arange(0, DEPTH)
    place = out + head * out_head + rows[:, None] * out_token + columns[None, :]
    tl.store(place, (mixed / total[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < queries)
    # Infinite where nothing is visible: every weight recomputed from it is then zero.
    tl.store(lse + head * queries + rows, tl.where(blind, float("inf"), most + tl.log2(total)), mask=rows < queries)


@triton.jit
def _query_gradient_step(
    at, high, dq, vectors, pull, whole, common, seg_m, rows, places, key, value, bias, key_segment, head, reach,
    scale, key_token, value_token, MASKED: tl.constexpr, CAUSAL: tl.constexpr, LINEAR: tl.constexpr,
    DEPTH: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    """Return the gradient of the queries with one more tile of keys added, and that tile's gradient of the scores."""
    columns = at + tl.arange(0, TAKEN)
    keyed = _tile(key, columns, high, key_token, DEPTH)
    valued = _tile(value, columns, high, value_token, DEPTH)
    scores = tl.dot(vectors, tl.trans(keyed)) * scale
    if MASKED:
        seg_n = tl.load(key_segment + columns, mask=columns < high, other=-2)
        visible = _visible_pairs(seg_m[:, None], seg_n[None, :], rows[:, None], columns[None, :], CAUSAL)
        scores = _add_bias(scores, bias, head, reach, rows[:, None], columns[None, :], visible, LINEAR)
        shares = tl.where(visible, tl.exp2(scores - whole[:, None]), 0.0)
    else:
        scores = _add_bias(scores, bias, head, reach, places[:, None], columns[None, :], None, LINEAR)
        shares = tl.exp2(scores - whole[:, None])
    change = shares * (tl.dot(pull, tl.trans(valued)) - common[:, None])
    return tl.dot(change.to(keyed.dtype), keyed, dq), change


@triton.jit
def backward_query(
    query, key, value, bias, out, lse, slope, delta, of_query, of_bias, query_segment, key_segment, key_offsets, reach,
    queries, keys, scale, query_head, query_token, key_head, key_token, value_head, value_token, out_head, out_token,
    SHARED: tl.constexpr, CAUSAL: tl.constexpr, LINEAR: tl.constexpr, DEPTH: tl.constexpr, SPLIT: tl.constexpr,
    HELD: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of a tile of queries, and delta, the term that all score gradients of a query share."""
    start, head = tl.program_id(0) * HELD, tl.program_id(1)
    rows = start + tl.arange(0, HELD)
    places = tl.minimum(rows, queries - 1)
    vectors = _tile(query + head * query_head, rows, queries, query_token, DEPTH)
    pull = _tile(slope + head * out_head, rows, queries, out_token, DEPTH)
    answer = _tile(out + head * out_head, rows, queries, out_token, DEPTH)
    common = tl.sum(pull.to(tl.float32) * answer.to(tl.float32), 1)
    tl.store(delta + head * queries + rows, common, mask=rows < queries)
    whole = tl.load(lse + head * queries + rows, mask=rows < queries, other=float("inf"))
    seg_m = tl.load(query_segment + rows, mask=rows < queries, other=-1)
    low, high, alone = _bounds(query_segment, key_offsets, start, queries, HELD)
    key += (head // SHARED) * key_head
    value += (head // SHARED) * value_head
    dq = tl.zeros([HELD, DEPTH], tl.float32)
    lane, carried = tl.arange(0, TAKEN), tl.zeros([TAKEN], tl.float32)
    if of_bias is not None:  # a row of sums for each tile and head, added up outside, so that runs are reproducible
        of_bias += (tl.program_id(0) * tl.num_programs(1) + head) * (2 * reach - 1) + reach - 1
    clear = low  # end of the keys that all queries see
    if SPLIT:
        clear += tl.where(alone, ((tl.minimum(start, high) if CAUSAL else high) - low) // TAKEN * TAKEN, 0)
        for at in range(low, clear, TAKEN):
            dq, change = _query_gradient_step(
                at, high, dq, vectors, pull, whole, common, seg_m, rows, places, key, value, bias, key_segment, head,
                reach, scale, key_token, value_token, False, CAUSAL, LINEAR, DEPTH, TAKEN,
            )  # fmt: skip
            if of_bias is not None:
                carried = _accumulate_bias_gradient(of_bias, change, carried, at - start - TAKEN + lane, reach, TAKEN)
    if CAUSAL:
        high = tl.minimum(high, start + HELD)
    for at in range(clear, high, TAKEN):
        dq, change = _query_gradient_step(
            at, high, dq, vectors, pull, whole, common, seg_m, rows, places, key, value, bias, key_segment, head,
            reach, scale, key_token, value_token, True, CAUSAL, LINEAR, DEPTH, TAKEN,
        )  # fmt: skip
        if of_bias is not None:
            carried = _accumulate_bias_gradient(of_bias, change, carried, at - start - TAKEN + lane, reach, TAKEN)
    if of_bias is not None:
        distance = low + tl.cdiv(high - low, TAKEN) * TAKEN - start - TAKEN + lane
        tl.store(of_bias + distance, carried, mask=(distance < reach) & (distance > -reach))
    columns = tl.arange(0, DEPTH)
    place = of_query + head * out_head + rows[:, None] * out_token + columns[None, :]
    # Scores are in base 2: the scale holds log2(e), which the gradient must not.
    tl.store(place, (dq * scale * 0.6931471805599453).to(of_query.dtype.element_ty), mask=rows[:, None] < queries)


@triton.jit
def _accumulate_bias_gradient(of_bias, change, carried, distance, reach, TILE: tl.constexpr):
    """Add up the bias gradient by distance; store the sums this tile completes, and return those for the next."""
    above, below = _sum_diagonals(change, TILE)
    tl.store(of_bias + distance, carried + below, mask=(distance < reach) & (distance > -reach))
    return above


@triton.jit
def _key_gradient_step(
    at, high, dk, dv, keyed, valued, seg_n, columns, places, query, slope, lse, delta, bias,
    query_segment, head, reach, scale, query_token, out_token, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    LINEAR: tl.constexpr, DEPTH: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    """Return the gradients of keys and values after one more tile of queries; those beyond the end add nothing."""
    rows = at + tl.arange(0, TAKEN)
    vectors = _tile(query, rows, high, query_token, DEPTH)
    pull = _tile(slope, rows, high, out_token, DEPTH)
    whole = tl.load(lse + rows, mask=rows < high, other=float("inf"))
    common = tl.load(delta + rows, mask=rows < high, other=0.0)
    scores = tl.dot(keyed, tl.trans(vectors)) * scale
    if MASKED:
        seg_m = tl.load(query_segment + rows, mask=rows < high, other=-1)
        visible = _visible_pairs(seg_m[None, :], seg_n[:, None], rows[None, :], columns[:, None], CAUSAL)
        scores = _add_bias(scores, bias, head, reach, rows[None, :], columns[:, None], visible, LINEAR)
        shares = tl.where(visible, tl.exp2(scores - whole[None, :]), 0.0)
    else:
        inside = tl.minimum(rows, high - 1)
        scores = _add_bias(scores, bias, head, reach, inside[None, :], places[:, None], None, LINEAR)
        shares = tl.exp2(scores - whole[None, :])
    dv = tl.dot(shares.to(pull.dtype), pull, dv)
    change = shares * (tl.dot(valued, tl.trans(pull)) - common[None, :])
    return tl.dot(change.to(vectors.dtype), vectors, dk), dv


@triton.jit
def backward_key(
    query, key, value, bias, lse, slope, delta, of_key, of_value, query_segment, key_segment, query_offsets, reach,
    queries, keys, scale, query_head, query_token, key_head, key_token, value_head, value_token, out_head, out_token,
    to_head, to_token, SHARED: tl.constexpr, CAUSAL: tl.constexpr, LINEAR: tl.constexpr, DEPTH: tl.constexpr,
    SPLIT: tl.constexpr, HELD: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a tile of keys and values: sums over the queries of all heads that share them."""
    start, group = tl.program_id(0) * HELD, tl.program_id(1)
    columns = start + tl.arange(0, HELD)
    places = tl.minimum(columns, keys - 1)
    keyed = _tile(key + group * key_head, columns, keys, key_token, DEPTH)
    valued = _tile(value + group * value_head, columns, keys, value_token, DEPTH)
    seg_n = tl.load(key_segment + columns, mask=columns < keys, other=-2)
    low, high, alone = _bounds(key_segment, query_offsets, start, keys, HELD)
    if CAUSAL:
        low = tl.maximum(low, start)
    clear = high  # start of the queries that see all keys
    if SPLIT:
        clear = tl.where(alone, tl.minimum(low + HELD, high) if CAUSAL else low, high)
    dk = tl.zeros([HELD, DEPTH], tl.float32)
    dv = tl.zeros([HELD, DEPTH], tl.float32)
    for member in range(SHARED):
        head = group * SHARED + member
        q_head, do_head = query + head * query_head, slope + head * out_head
        sums, shares = lse + head * queries, delta + head * queries
        for at in range(low, clear, TAKEN):
            dk, dv = _key_gradient_step(
                at, high, dk, dv, keyed, valued, seg_n, columns, places, q_head, do_head, sums, shares,
                bias, query_segment, head, reach, scale, query_token, out_token, True, CAUSAL, LINEAR, DEPTH, TAKEN,
            )  # fmt: skip
        if SPLIT:
            for at in range(clear, high, TAKEN):
                dk, dv = _key_gradient_step(
                    at, high, dk, dv, keyed, valued, seg_n, columns, places, q_head, do_head, sums,
                    shares, bias, query_segment, head, reach, scale, query_token, out_token, False, CAUSAL, LINEAR,
                    DEPTH, TAKEN,
                )  # fmt: skip
    depths = tl.arange(0, DEPTH)
    place = group * to_head + columns[:, None] * to_token + depths[None, :]
    inside = columns[:, None] < keys
    tl.store(of_key + place, (dk * scale * 0.6931471805599453).to(of_key.dtype.element_ty), mask=inside)
    tl.store(of_value + place, dv.to(of_value.dtype.element_ty), mask=inside)
