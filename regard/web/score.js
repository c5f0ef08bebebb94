// Attention made again from its vectors, in plain arithmetic.

const row = (numbers, place, width) => numbers.subarray(place * width, (place + 1) * width);

/** The vectors of one head by their names, and what is in sight. */
export async function vectorsOf({ source, signal }, inside, head) {
  const refs = Object.entries({ ...inside.heads[head], visible: inside.visible });
  return Object.fromEntries(await Promise.all(refs.map(async ([name, ref]) => [name, await source.tensor(ref, { signal })])));
}

/** One head at one query: raw and scaled scores, bias, what is in sight, weights, sum and projected sum. */
export function recompute(inside, given, place, keys) {
  const query = row(given.q, place, inside.depth);
  const seen = row(given.visible, place, keys);
  const bias = given.bias ? row(given.bias, place, keys) : null;
  const raw = rawScores(inside, given, place, keys);
  const scaled = raw.map((value) => value * inside.scale);
  const scores = scaled.map((value, k) => (bias ? value + bias[k] : value));
  const weights = softmax(scores, seen);
  const values = given.v, sum = new Float64Array(inside.features);
  weights.forEach((weight, k) => { for (let f = 0; f < sum.length; f++) sum[f] += weight * values[k * sum.length + f]; });
  return {
    query, seen, bias, raw, scaled, scores, weights, sum,
    key: (k) => row(given.k, k, inside.other), value: (k) => row(values, k, inside.features),
    output: row(given.output, place, inside.width),
  };
}

function rawScores(inside, given, place, keys) {
  if (inside.kind === "given") return Float64Array.from(row(given.raw, place, keys));
  const left = row(given.left ?? given.q, place, inside.hidden);
  const right = given.right ?? given.k, vector = given.vector;
  return Float64Array.from({ length: keys }, (_, k) => {
    let total = 0;
    for (let i = 0; i < inside.hidden; i++) {
      const r = right[k * inside.hidden + i];
      if (inside.kind === "dot") total += left[i] * r;
      else if (inside.kind === "additive") total += vector[i] * Math.tanh(left[i] + r);
      else total += left[i] + r > 0 ? left[i] + r : inside.slope * (left[i] + r);
    }
    return total;
  });
}

/** Shares of the keys in sight; a query that may look nowhere gives nothing. */
export function softmax(scores, seen) {
  const most = scores.reduce((high, score, k) => (seen[k] ? Math.max(high, score) : high), -Infinity);
  const parts = Float64Array.from(scores, (score, k) => (seen[k] ? Math.exp(score - most) : 0));
  const total = parts.reduce((sum, part) => sum + part, 0);
  return total ? parts.map((part) => part / total) : parts;
}
