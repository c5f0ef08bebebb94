// A small table of weights or of their differences: every cell has its number; differences have one scale with two ends.

import { make } from "./make.js";
import { number, say } from "./strings.js";

const MOST = 40; // words on a side that are shown
const STEPS = 9; // colours of the scale of differences, the middle one for none

/** The weights as a table with a caption; `diverging` for numbers below and above nothing. */
export function weightTable({ rows, columns, values, masked }, { caption, diverging = false }) {
  const top = Math.max(...values.map(Math.abs), 1e-9), width = columns.length;
  const shownRows = rows.slice(0, MOST), shownColumns = columns.slice(0, MOST);
  const head = make("thead", {}, make("tr", {}, make("td", {}), ...shownColumns.map(({ text }) => make("th", { scope: "col", dir: "auto" }, text))));
  const body = shownRows.map(({ text }, r) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, text), ...shownColumns.map((_, c) => (masked?.[r * width + c] ? hiddenCell() : cell(values[r * width + c], top, diverging)))));
  const cut = rows.length > MOST || columns.length > MOST ? [make("p", { class: "note" }, say("compare.cut", { n: MOST }))] : [];
  return make("figure", { class: "compare-map" }, make("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": caption },
    make("table", { class: diverging ? "diverging" : "weights" }, make("caption", {}, caption), head, make("tbody", {}, ...body))), legend(top, diverging), ...cut);
}

/** A pair that could not be looked at. */
function hiddenCell() {
  return make("td", { class: "masked", title: say("masked_cell") }, make("span", { class: "aloud" }, say("masked_cell")), make("span", { "aria-hidden": "true" }, "–"));
}

function cell(value, top, diverging) {
  const level = diverging ? Math.round(((value / top + 1) / 2) * (STEPS - 1)) : Math.round((value / top) * (STEPS - 1));
  return make("td", { class: `level-${level}` }, signed(value, diverging));
}

/** Two decimals; a difference shows its sign, and nothing is shown as nothing. */
function signed(value, diverging) {
  const text = number(Math.abs(value), 2);
  if (!diverging || Math.abs(value) < 0.005) return text;
  return value > 0 ? `+${text}` : `−${text}`;
}

/** What the colours mean. */
function legend(top, diverging) {
  const steps = Array.from({ length: STEPS }, (_, level) => make("i", { class: `level-${level}` }));
  const [low, high] = diverging ? [say("compare.first_more", { value: number(top, 2) }), say("compare.second_more", { value: number(top, 2) })] : [number(0, 2), number(top, 2)];
  return make("div", { class: `compare-legend ${diverging ? "diverging" : "weights"}` }, make("span", {}, low), make("span", { class: "steps", "aria-hidden": "true" }, ...steps), make("span", {}, high));
}
