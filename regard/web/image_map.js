// One map of a picture: which regions a word, or an answer, looked at, how much each got, and what that looks like.

import { make } from "./make.js";
import { palette, weightsOf } from "./data.js";
import { drawing, plain, tag } from "./export.js";
import { hiddenPairs } from "./masks.js";
import { hatchingSvg } from "./pictures.js";
import { number, percent, say } from "./strings.js";

const DARKEST = 0.85; // of the cover where a region got least
const WIDE = 400, GAP = 10; // pixels of a picture in a file, and between two
const HATCH = 6; // pixels after which hatching repeats

/** Words that look and regions that are looked at, special ones left out, in one attention of a trace. */
export async function seen(context, trace, attention) {
  const { state } = context, width = trace.items[attention.key].length;
  const named = (item, place) => ({ ...item, place, name: item.text.trim() || "␣" }); // pieces carry the space before them
  const listed = (items) => items.map(named).filter((item) => !item.special || item.box);
  const words = listed(trace.items[attention.query]).filter((item) => !item.special);
  const regions = listed(trace.items[attention.key]).filter((item) => item.box);
  const weights = await weightsOf(context, attention, state.head in attention.heads ? state.head : "mean"), pairs = hiddenPairs(attention);
  const rows = words.length ? words : listed(trace.items[attention.query]);
  const values = rows.map((row) => Float32Array.from(regions, (region) => weights[row.place * width + region.place]));
  const masked = pairs && rows.map((row) => regions.map((region) => pairs[row.place * width + region.place] === 1));
  const form = rows.every((row) => row.box) ? "patch" : attention.query; // regions that look at one another have no words
  return { attention, form, words: rows, regions, values, masked, picture: trace.pictures[attention.key], trace, state };
}

/** The region that got most. */
export function highest(shown, word) {
  return shown.values[word].reduce((most, value, place, all) => (value > all[most] ? place : most), 0);
}

/** What one region got, in a sentence. */
export function sentence(shown, word, region) {
  const gaps = { query: nameOf(shown, word), region: placed(shown.regions[region]) };
  if (shown.masked?.[word][region]) return say("region_masked", gaps);
  const value = shown.values[word][region];
  const text = say("region", { ...gaps, percent: percent(value), value: number(value, 4), equal: percent(1 / allowed(shown, word)) }, shown.form);
  return highest(shown, word) === region ? `${text} ${say("best")}` : text;
}

/** Among how many regions an equal share would be shared out. */
function allowed(shown, word) {
  return shown.regions.length - (shown.masked?.[word].filter(Boolean).length ?? 0);
}

/** What a word, or a region that looks, is called. */
export function nameOf(shown, word) {
  return shown.form === "patch" ? placed(shown.words[word]) : shown.words[word].name;
}

/** The three regions that got most, for those who do not see the map. */
export function strongest(shown, word) {
  const order = [...shown.values[word].keys()].filter((region) => !shown.masked?.[word][region])
    .sort((one, other) => shown.values[word][other] - shown.values[word][one]).slice(0, 3);
  const links = order.map((region) => say("region_link", { region: placed(shown.regions[region]), percent: percent(shown.values[word][region]) }));
  return say("strongest_regions", { query: nameOf(shown, word), links: links.join("; ") });
}

/** Where a region lies, as row and column from 1. */
export function placed({ box: [left, top, right, bottom] }) {
  return say("placed", { row: Math.round(top / (bottom - top)) + 1, column: Math.round(left / (right - left)) + 1 });
}

/** The least and the most that a region got in any of some maps: all are stretched between them, so that their colours mean the same. */
export function rangeOf(maps) {
  const values = maps.flatMap(({ shown, word }) => [...shown.values[word]].filter((_, region) => !shown.masked?.[word][region]));
  return [values.reduce((least, value) => Math.min(least, value), Infinity), values.reduce((most, value) => Math.max(most, value), 0)];
}

/** The level of a region, from 0 for the least of the maps to 255 for the most. */
function levelOf([least, most], value) {
  return Math.round(255 * Math.min(1, Math.max(0, (value - least) / Math.max(most - least, 1e-9))));
}

/** Each region as a rectangle of one colour, hatched if it could not be looked at; the lengths of the canvas are those of the picture. */
export function cover(canvas, shown, word, range) {
  Object.assign(canvas, { width: shown.picture.width, height: shown.picture.height });
  const pen = canvas.getContext("2d"), colours = palette(shown.trace), lines = shown.masked && hatching(pen);
  shown.regions.forEach(({ box }, place) => {
    const level = levelOf(range, shown.values[word][place]);
    pen.fillStyle = shown.state.paint === "light" ? `rgb(0 0 0 / ${DARKEST * (1 - level / 255)})` : shade(colours, level);
    if (shown.masked?.[word][place]) pen.fillStyle = lines;
    const [x, y, right, bottom] = [box[0] * canvas.width, box[1] * canvas.height, box[2] * canvas.width, box[3] * canvas.height].map(Math.round);
    pen.fillRect(x, y, right - x, bottom - y);
  });
}

/** Slanted lines on a ground, of a tile that repeats. */
function hatching(pen) {
  const tile = document.createElement("canvas");
  Object.assign(tile, { width: HATCH, height: HATCH });
  const inner = tile.getContext("2d");
  inner.fillStyle = "#f5f7fa";
  inner.fillRect(0, 0, HATCH, HATCH);
  inner.fillStyle = "#52606d";
  for (let n = 0; n < HATCH; n++) inner.fillRect(n, HATCH - 1 - n, 1, 1);
  return pen.createPattern(tile, "repeat");
}

function shade(colours, level) {
  return `rgb(${colours[3 * level]} ${colours[3 * level + 1]} ${colours[3 * level + 2]})`;
}

/** What the shades of a map mean: the least and the most. */
export function legend(shown, [least, most]) {
  const colours = palette(shown.trace), stops = [];
  for (let i = 0; i < 256; i += 15) stops.push(shown.state.paint === "light" ? `rgb(${i} ${i} ${i})` : shade(colours, i));
  const ramp = make("i", { "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  const hatched = shown.masked ? [make("i", { class: "hatched", "aria-hidden": "true" }), make("span", {}, say("hatched"))] : [];
  return make("div", { class: "ramp" }, make("span", {}, say("least", { value: percent(least) })), ramp, make("span", {}, say("most", { value: percent(most) })), ...hatched);
}

/** The same numbers, row by row as the regions lie. */
export function table(shown, word) {
  const tops = [...new Set(shown.regions.map(({ box }) => box[1]))].sort((a, b) => a - b);
  const best = highest(shown, word);
  const cell = (place) => (shown.masked?.[word][place] ? make("td", { class: "masked" }, say("masked_cell"))
    : make("td", { class: place === best ? "best" : false }, number(shown.values[word][place], 4)));
  const rows = tops.map((top, r) => make("tr", {}, make("th", { scope: "row" }, String(r + 1)),
    ...shown.regions.flatMap(({ box }, place) => (box[1] === top ? [cell(place)] : []))));
  const across = shown.regions.filter(({ box }) => box[1] === tops[0]).length;
  const columns = Array.from({ length: across }, (_, n) => make("th", { scope: "col" }, String(n + 1)));
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, say("corner")), ...columns));
  const words = say("regional", { word: nameOf(shown, word) }, shown.form);
  return make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": words },
    make("table", {}, make("caption", {}, words), head, make("tbody", {}, ...rows)));
}

/** The numbers of a map as they are; null for what could not be looked at. */
export function exactValues(shown, word) {
  return [...shown.values[word]].map((value, region) => (shown.masked?.[word][region] ? null : Number(value.toPrecision(7))));
}

/** Pictures and beside each its map, one below the other, in colours that mean the same. */
export function mapsSvg(maps, range, title) {
  let top = 0;
  const rows = maps.map(({ shown, word }) => {
    const { width, height, source } = shown.picture, high = Math.round((WIDE * height) / width), y = top;
    top += high + GAP;
    return tag("image", { href: source, y, width: WIDE, height: high }) + squares(shown, word, { range, y, high });
  });
  return drawing(2 * WIDE + GAP, top - GAP, title, tag("defs", {}, hatchingSvg("hatched")), ...rows);
}

function squares(shown, word, { range, y, high }) {
  const colours = palette(shown.trace, { light: true });
  return exactValues(shown, word).map((value, place) => {
    const [left, above, right, bottom] = shown.regions[place].box;
    const at = { x: WIDE + GAP + left * WIDE, y: y + above * high, width: (right - left) * WIDE, height: (bottom - above) * high };
    if (value === null) return tag("rect", { ...at, fill: "url\x28#hatched)", "data-masked": "" }, tag("title", {}, plain(say("masked_cell"))));
    return tag("rect", { ...at, fill: shade(colours, levelOf(range, value)), "data-value": value }, tag("title", {}, plain(percent(value))));
  }).join("");
}
