// Drawings of what is shown, for files: the same cells and ribbons as on the screen, each with its number.

import { drawing, plain, tag } from "./export.js";
import { palette } from "./data.js";
import { number, percent } from "./strings.js";

const CELL = 26, LETTERS = 13, LINE = 28;
const INK = "#15202b", LEAST = 0.02;

const widest = (units) => Math.min(170, 14 + 7.6 * Math.max(...units.map((unit) => unit.text.length)));
const shade = (colours, level) => `rgb(${colours.subarray(3 * level, 3 * level + 3).join()})`;

/** The matrix: a square for each pair, whose title holds its number. */
export function matrixSvg(shown, scale, words) {
  const colours = palette(shown.trace, { light: true }), width = shown.columns.length;
  const left = widest(shown.rows), top = widest(shown.columns);
  const cells = [...shown.values].map((value, place) => {
    const [row, column] = [Math.floor(place / width), place % width], masked = shown.masked?.[place];
    const level = Math.round(255 * Math.min(1, Math.max(0, scale(value, row))));
    const at = { x: left + column * CELL, y: top + row * CELL, width: CELL, height: CELL };
    const title = `${shown.rows[row].text} → ${shown.columns[column].text}: ${number(value, 4)}`;
    return tag("rect", { ...at, fill: masked ? "#f5f7fa" : shade(colours, level), "data-value": Number(value.toPrecision(7)) }, tag("title", {}, plain(title))) + (masked ? hatching(at) : "");
  });
  const label = (text, x, y, rest) => tag("text", { x, y, fill: INK, "font-size": LETTERS, ...rest }, plain(text));
  const rows = shown.rows.map((unit, r) => label(unit.text, left - 6, top + (r + 0.5) * CELL, { "text-anchor": "end", "dominant-baseline": "central" }));
  const columns = shown.columns.map((unit, c) => {
    const x = left + (c + 0.5) * CELL, y = top - 6;
    return label(unit.text, x, y, { transform: `rotate(-90 ${x} ${y})`, "dominant-baseline": "central" });
  });
  const size = [left + width * CELL + 8, top + shown.rows.length * CELL + 8];
  return drawing(...size, words, tag("rect", { width: size[0], height: size[1], fill: "#fff" }), ...cells, ...rows, ...columns);
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
