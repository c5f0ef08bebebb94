// What differs between two lists of words, and between two tables of weights over the words that they share.

const MOST = 600; // words of a text that are compared; the rest counts as different

/** Pairs of places `[a, b]` of the longest common subsequence of two lists. */
export function common(first, second) {
  const a = first.slice(0, MOST), b = second.slice(0, MOST), width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}

/** A text as words, blanks and signs apart. */
export function wordsOf(text) {
  return text.match(/[\p{L}\p{N}\p{M}]+|\s+|[^\p{L}\p{N}\p{M}\s]/gu) ?? [];
}

/** Both texts as runs `{text, same}`. */
export function markDifferences(first, second) {
  const a = wordsOf(first), b = wordsOf(second), pairs = common(a, b);
  const kept = [new Set(pairs.map(([place]) => place)), new Set(pairs.map(([, place]) => place))];
  return [runs(a, kept[0]), runs(b, kept[1])];
}

function runs(words, kept) {
  const joined = [];
  words.forEach((text, place) => {
    const same = kept.has(place) || (!text.trim() && joined.length > 0 && joined.at(-1).same);
    if (joined.length && joined.at(-1).same === same) joined.at(-1).text += text;
    else joined.push({ text, same });
  });
  return joined;
}

/** Weights of the second less those of the first, over the words that both have, in their order. */
export function subtract(first, second) {
  const texts = (units) => units.map(({ text }) => text);
  const rows = common(texts(first.rows), texts(second.rows)), columns = common(texts(first.columns), texts(second.columns));
  const widths = [first.columns.length, second.columns.length];
  const values = new Float32Array(rows.length * columns.length), masked = first.masked || second.masked ? new Uint8Array(values.length) : null;
  rows.forEach(([a, b], r) => columns.forEach(([c, d], n) => {
    const before = a * widths[0] + c, after = b * widths[1] + d;
    values[r * columns.length + n] = second.values[after] - first.values[before];
    if (masked) masked[r * columns.length + n] = first.masked?.[before] || second.masked?.[after] ? 1 : 0;
  }));
  const left = first.rows.length + first.columns.length + second.rows.length + second.columns.length - 2 * (rows.length + columns.length);
  return { rows: rows.map(([place]) => first.rows[place]), columns: columns.map(([place]) => first.columns[place]), values, masked, left };
}
