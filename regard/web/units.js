// What is shown as one: words, their parts or their pieces, sentence by sentence, and the weights between them.

import { maskOf } from "./masks.js";

const LONG = 60; // words from which a text is shown sentence by sentence
const ENDING = /^[.!?…。！？؟।]+[\x22\x27»”’)\]]*$|\p{L}{3,}[.!?…]+[\x22\x27»”’)\]]*$/u;

/** Words in order of first appearance, their parts ("l’", "Angleterre") or their pieces; special ones only if asked for.
 *  Words whose numbers are in `unfolded` are shown a level finer. */
export function unitsOf(items, level, specials, unfolded = new Set()) {
  const words = new Map();
  items.forEach((item, place) => {
    if (item.special && !specials) return;
    const alone = item.special || item.word === undefined;
    const name = alone ? `place ${place}` : `word ${item.word}`;
    if (!words.has(name)) words.set(name, { places: [], special: Boolean(item.special), word: alone ? undefined : item.word });
    words.get(name).places.push(place);
  });
  const units = [...words.values()].flatMap((word) => split(items, word, level, unfolded.has(word.word)));
  return level === "subword" ? units.sort((one, other) => one.places[0] - other.places[0]) : units;
}

function split(items, word, level, open) {
  const whole = textOf(items, word.places);
  const make = (places, rest = {}) => ({ ...word, places, text: places === word.places ? whole : textOf(items, places), whole, ...rest });
  if (word.places.length === 1 || word.word === undefined) return [make(word.places)];
  const parts = partsOf(items, word.places), pieces = word.places.map((place) => [place]);
  const coarse = level === "word" ? [word.places] : level === "part" ? parts : pieces;
  const finer = level === "word" && parts.length > 1 ? parts : pieces;
  if (open && level !== "subword") return finer.map((places) => make(places, { foldable: true, unfolded: true }));
  return coarse.map((places) => make(places, { foldable: level !== "subword" && finer.length > coarse.length }));
}

/** Pieces up to an apostrophe or a hyphen belong together. */
function partsOf(items, places) {
  const parts = [[]];
  for (const place of places) {
    parts.at(-1).push(place);
    const text = parts.at(-1).map((other) => items[other].text).join("").trim();
    if (text.length > 1 && /[\x27’\-‐]$/.test(text) && place !== places.at(-1)) parts.push([]);
  }
  return parts;
}

/** The text of some pieces; bytes that make a letter together are that letter. */
export function textOf(items, places) {
  const joined = places.map((place) => items[place].text).join("");
  const spelled = joined.replace(/(?:<0x[0-9A-F]{2}>)+/g, (run) => {
    const bytes = run.match(/[0-9A-F]{2}(?=>)/g).map((code) => parseInt(code, 16));
    try { return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes)); } catch { return run; }
  });
  return spelled.trim() || (joined ? "␣" : "·");
}

const numbered = new WeakMap();

/** The number of the sentence that each piece belongs to. */
export function sentencesOf(items) {
  if (!numbered.has(items)) numbered.set(items, numberSentences(items));
  return numbered.get(items);
}

function numberSentences(items) {
  const sentences = new Int32Array(items.length);
  const words = unitsOf(items, "word", false);
  let number = 0;
  words.forEach((unit, n) => {
    for (const place of unit.places) sentences[place] = number;
    if (ENDING.test(unit.text) && n < words.length - 1) number += 1;
  });
  let last = 0;
  items.forEach((item, place) => { if (item.special) sentences[place] = last; else last = sentences[place]; });
  return sentences;
}

/** How many sentences the side that looks has, and whether it is long enough to be shown one by one. */
export function countSentences(trace, attention) {
  const items = trace.items[attention.query];
  const count = items.length ? Math.max(...sentencesOf(items)) + 1 : 0;
  return { count, long: count > 1 && unitsOf(items, "word", false).length > LONG };
}

/** Weights of one head, or the mean of all. */
export async function weightsOf({ source, signal }, attention, head) {
  if (head !== "mean") return source.tensor(attention.heads[head], { signal });
  const [rows, columns] = attention.shape;
  const total = new Float32Array(rows * columns);
  for (const ref of attention.heads) {
    const one = await source.tensor(ref, { signal });
    for (let i = 0; i < total.length; i++) total[i] += one[i] / attention.heads.length;
  }
  return total;
}

/** Which pieces of either side a sentence leaves in sight. */
function chosenPieces(trace, { query, key }, sentence) {
  const [queries, keys] = [trace.items[query], trace.items[key]];
  if (sentence === null) return [() => true, () => true];
  const [asking, asked] = [sentencesOf(queries), sentencesOf(keys)];
  const alike = queries === keys || key === "fed" || Math.max(...asking) === Math.max(...asked);
  return [(place) => asking[place] === sentence, alike ? (place) => asked[place] === sentence : () => true];
}

/** Words that were opened, on the side that looks and on the side that is looked at: "q3.k5" of the state. */
export function unfoldedIn(text, side) {
  return new Set([...text.matchAll(/([qk])(\d+)/g)].filter(([, letter]) => letter === side[0]).map(([, , word]) => Number(word)));
}

/** Mean over a query's pieces of the sum over a key's; what goes out of sight is kept apart. */
export async function merged(context, attention, head, { level, specials, share, unfolded = "", sentence = null }) {
  const { trace } = context, queries = trace.items[attention.query], keys = trace.items[attention.key];
  const [asks, is] = chosenPieces(trace, attention, sentence);
  const kept = (units, stays) => units.filter((unit) => stays(unit.places[0]));
  const rows = kept(unitsOf(queries, level, specials, unfoldedIn(unfolded, "query")), asks);
  const columns = kept(unitsOf(keys, level, specials, unfoldedIn(unfolded, "key")), is);
  const weights = await weightsOf(context, attention, head);
  const { values, hidden } = add(weights, keys.length, rows, columns);
  if (share) shareOut(values, columns.length);
  return { rows, columns, values, hidden, masked: maskOf(attention, rows, columns), attention, trace };
}

function add(weights, width, rows, columns) {
  const values = new Float32Array(rows.length * columns.length), hidden = new Float32Array(rows.length);
  const column = new Int32Array(width).fill(-1);
  columns.forEach((unit, c) => unit.places.forEach((place) => { column[place] = c; }));
  rows.forEach((unit, r) => {
    const start = r * columns.length, count = unit.places.length;
    for (const place of unit.places) {
      for (let k = 0; k < width; k++) {
        const part = weights[place * width + k] / count;
        if (column[k] < 0) hidden[r] += part;
        else values[start + column[k]] += part;
      }
    }
  });
  return { values, hidden };
}

function shareOut(values, width) {
  for (let start = 0; start < values.length; start += width) {
    const line = values.subarray(start, start + width);
    const total = line.reduce((sum, value) => sum + value, 0);
    if (total > 0) line.forEach((value, i) => { line[i] = value / total; });
  }
}
