// Drawings of what is shown, for files: the same cells and ribbons as on the screen, each with its number.

import { drawing, plain, tag } from "./export.js";
import { palette } from "./data.js";
import { number, percent, say } from "./strings.js";

const CELL = 26, LETTERS = 13, LINE = 28;
const INK = "#15202b", LEAST = 0.02;

const widest = (units) => Math.min(170, 14 + 7.6 * Math.max(...units.map((unit) => unit.text.length)));
const shade = (colours, level) => `rgb(${colours.subarray(3 * level, 3 * level + 3).join()})`;

/** The matrix: a square for each pair, whose title holds its number. */
export function matrixSvg(shown, scale, words) {
  const colours = palette(shown.trace, { light: true });
  return squares(shown, words, ({ place, row, at }) => {
    const value = shown.values[place], level = Math.round(255 * Math.min(1, Math.max(0, scale(value, row))));
    return tag("rect", { ...at, fill: shade(colours, level), "data-value": Number(value.toPrecision(7)) }, titled(shown, place, number(value, 4)));
  });
}

/** Several heads over one another: each has its part of every square, in its colour and pattern, the darker the more it gave. */
export function layersSvg(shown, layers, words) {
  const across = 2, down = layers.length > 2 ? 2 : 1, wide = CELL / across, high = CELL / down;
  const parts = ({ place, row, at }) => layers.map(({ head, values, scale }, n) => {
    const value = values[place], box = { x: at.x + (n % across) * wide, y: at.y + Math.floor(n / across) * high, width: wide, height: high };
    return tag("rect", { ...box, fill: `url\x28#layer-${n})`, "fill-opacity": Math.min(1, Math.max(0, scale(value, row))), "data-head": head, "data-value": Number(value.toPrecision(7)) },
      titled(shown, place, `${say("nth", { n: head })} ${number(value, 4)}`));
  }).join("") + tag("rect", { ...at, fill: "none", stroke: "#cbd2d9", "stroke-width": 0.5 });
  const fills = tag("defs", {}, ...layers.map(({ style }, n) => patternSvg(`layer-${n}`, style)));
  const legend = (y) => layers.map(({ head }, n) => tag("rect", { x: 8 + n * 90, y, width: 16, height: 16, fill: `url\x28#layer-${n})` })
    + tag("text", { x: 30 + n * 90, y: y + 8, fill: INK, "font-size": LETTERS, "dominant-baseline": "central" }, plain(say("nth", { n: head }))));
  return squares(shown, words, parts, { fills, legend, least: 8 + layers.length * 90 });
}

/** A square for each pair as `draw({place, row, at})` has it, hatched where nothing could be looked at, beside the words of both sides. */
function squares(shown, words, draw, { fills = "", legend = null, least = 0 } = {}) {
  const width = shown.columns.length, left = widest(shown.rows), top = widest(shown.columns);
  const cells = [...shown.values].map((_, place) => {
    const [row, column] = [Math.floor(place / width), place % width];
    const at = { x: left + column * CELL, y: top + row * CELL, width: CELL, height: CELL };
    if (!shown.masked?.[place]) return draw({ place, row, at });
    return tag("rect", { ...at, fill: "#f5f7fa", "data-masked": "" }, titled(shown, place, say("masked_cell"))) + hatching(at);
  });
  const label = (text, x, y, rest) => tag("text", { x, y, fill: INK, "font-size": LETTERS, ...rest }, plain(text));
  const rows = shown.rows.map((unit, r) => label(unit.text, left - 6, top + (r + 0.5) * CELL, { "text-anchor": "end", "dominant-baseline": "central" }));
  const columns = shown.columns.map((unit, c) => {
    const x = left + (c + 0.5) * CELL, y = top - 6;
    return label(unit.text, x, y, { transform: `rotate(-90 ${x} ${y})`, "dominant-baseline": "central" });
  });
  const bottom = top + shown.rows.length * CELL + 8, size = [Math.max(least, left + width * CELL + 8), bottom + (legend ? 24 : 0)];
  return drawing(...size, words, fills, tag("rect", { width: size[0], height: size[1], fill: "#fff" }), ...cells, ...rows, ...columns, ...(legend ? legend(bottom) : []));
}

function titled(shown, place, text) {
  const width = shown.columns.length;
  return tag("title", {}, plain(`${shown.rows[Math.floor(place / width)].text} → ${shown.columns[place % width].text}: ${text}`));
}

/** The fill of what could not be looked at. */
export function hatchingSvg(id) {
  return tag("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, tag("rect", { width: 6, height: 6, fill: "#f5f7fa" }),
    tag("path", { d: "M-6 6L0 0M0 6L6 0M6 6L12 0", stroke: "#7b8794", "stroke-width": 0.8 }));
}

/** A fill of one colour with its pattern, as it is on the screen. */
function patternSvg(id, { colour, pattern }) {
  const marks = {
    plain: "", dots: tag("rect", { x: 2, y: 2, width: 2, height: 2, fill: "#fff", "fill-opacity": 0.75 }),
    bars: tag("rect", { x: 0, y: 2, width: 6, height: 1.5, fill: "#fff", "fill-opacity": 0.75 }),
    stripes: tag("path", { d: "M-6 6L0 0M0 6L6 0M6 6L12 0", stroke: "#fff", "stroke-opacity": 0.75, "stroke-width": 1.4 }),
  };
  return tag("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, tag("rect", { width: 6, height: 6, fill: colour }), marks[pattern]);
}

/** Slanted lines over a square: what could not be looked at is no small number. */
function hatching({ x, y }) {
  const lines = [0.5, 1, 1.5].map((share) => {
    const [from, to] = [Math.max(0, share - 1) * CELL, Math.min(1, share) * CELL];
    return `M${x + from} ${y + to}L${x + to} ${y + from}`;
  });
  return tag("path", { d: lines.join(""), stroke: "#7b8794", "stroke-width": 0.8 });
}

/** The ribbons: a curve for each pair that is strong enough to be seen. */
export function ribbonSvg(shown, scale, words) {
  const left = widest(shown.columns), right = widest(shown.rows), middle = 220, width = shown.columns.length;
  const curves = [...shown.values].flatMap((value, place) => {
    const [row, column] = [Math.floor(place / width), place % width], level = Math.min(1, scale(value, row));
    if (level < LEAST) return [];
    const [from, to] = [(column + 0.5) * LINE, (row + 0.5) * LINE];
    const d = `M${left} ${from}C${left + middle / 2} ${from} ${left + middle / 2} ${to} ${left + middle} ${to}`;
    return [tag("path", { d, fill: "none", stroke: "#2171b5", "stroke-width": 0.5 + 9 * level, opacity: 0.08 + 0.77 * level, "data-value": Number(value.toPrecision(7)) },
      tag("title", {}, plain(`${shown.rows[row].text} → ${shown.columns[column].text}: ${percent(value)}`)))];
  });
  const side = (units, x, anchor) => units.map((unit, n) =>
    tag("text", { x, y: (n + 0.5) * LINE, fill: INK, "font-size": 14, "text-anchor": anchor, "dominant-baseline": "central" }, plain(unit.text)));
  const size = [left + middle + right, LINE * Math.max(shown.rows.length, width)];
  return drawing(...size, words, tag("rect", { width: size[0], height: size[1], fill: "#fff" }), ...curves,
    ...side(shown.columns, left - 6, "end"), ...side(shown.rows, left + middle + 6, "start"));
}

/** The shares of one step: a bar for each word. */
export function stepSvg(entries, words) {
  const left = widest(entries.map(([text]) => ({ text }))), most = 300;
  const bars = entries.map(([text, share], n) => {
    const y = n * LINE;
    return tag("text", { x: left - 6, y: y + LINE / 2, fill: INK, "font-size": 14, "text-anchor": "end", "dominant-baseline": "central" }, plain(text))
      + tag("rect", { x: left, y: y + 6, width: most * share, height: LINE - 12, fill: "#2171b5", "data-value": share })
      + tag("text", { x: left + most * share + 6, y: y + LINE / 2, fill: INK, "font-size": 12, "dominant-baseline": "central" }, plain(percent(share)));
  });
  const size = [left + most + 70, LINE * entries.length];
  return drawing(...size, words, tag("rect", { width: size[0], height: size[1], fill: "#fff" }), ...bars);
}
