// What could not be looked at: which pairs a mask hides, piece by piece and word by word, and why, in words.

import { say } from "./strings.js";

const hidden = new WeakMap(); // by mask: 1 for each pair of pieces that could not be looked at

/** 1 for each pair of pieces that could not be looked at, row by row; null if all could. */
export function hiddenPairs({ mask, shape: [queries, keys] }) {
  if (!mask) return null;
  if (!hidden.has(mask)) hidden.set(mask, mask.rows ? hiddenOutside(mask.rows, queries, keys) : hiddenBeyond(mask.band, queries, keys));
  return hidden.get(mask);
}

/** All but the ranges of keys that so many queries one after the other see: `[[count, start, end, ...], ...]`. */
function hiddenOutside(lines, queries, keys) {
  const pairs = new Uint8Array(queries * keys).fill(1);
  let row = 0;
  for (const [count, ...ranges] of lines) {
    for (const end = row + count; row < end; row++) {
      for (let n = 0; n < ranges.length; n += 2) pairs.fill(0, row * keys + ranges[n], row * keys + ranges[n + 1]);
    }
  }
  return pairs;
}

/** All but the keys from so far before a query to so far behind it; null is as far as there are any. */
function hiddenBeyond([low, high], queries, keys) {
  const pairs = new Uint8Array(queries * keys).fill(1);
  for (let row = 0; row < queries; row++) {
    const from = low === null ? 0 : Math.max(0, row + low), end = high === null ? keys : Math.min(keys, row + high + 1);
    if (from < end) pairs.fill(0, row * keys + from, row * keys + end);
  }
  return pairs;
}

/** Pairs of words no piece of which could look at any of the other's; null if all could. */
export function maskOf(attention, rows, columns) {
  const pairs = hiddenPairs(attention), width = attention.shape[1];
  if (!pairs) return null;
  const masked = new Uint8Array(rows.length * columns.length);
  const away = (row, column) => row.places.every((query) => column.places.every((key) => pairs[query * width + key]));
  rows.forEach((row, r) => columns.forEach((column, c) => { masked[r * columns.length + c] = away(row, column) ? 1 : 0; }));
  return masked;
}

/** Why a word could not look at another: "later", "far", "edge", or "" where the mask has no such rule. */
function reasonOf({ attention: { mask }, trace }, row, column) {
  if (trace.graph) return "edge";
  if (!mask.band) return "";
  const [low, high] = mask.band, distance = Math.min(...column.places) - Math.max(...row.places);
  return high !== null && distance > high && (low === null || high === 0) ? "later" : "far";
}

/** The sentence of a pair that could not be looked at. */
export function maskedSentence(shown, row, column) {
  const gaps = { query: shown.rows[row].text, key: shown.columns[column].text };
  return say("masked_pair", gaps, reasonOf(shown, shown.rows[row], shown.columns[column]));
}
