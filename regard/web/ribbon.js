// Two columns of words with ribbons between them, as wide and as dark as the weights.

import { colour, make, moved, sharp } from "./make.js";
import { say } from "./strings.js";

const LINE = 28;
const LEAST = 0.02;

/** Builds the ribbons; `pick(row, column, kept)` is told at which word the reader points. */
export function ribbonView(shown, scale, { pick }) {
  const canvas = make("canvas", { id: "ribbons", "aria-hidden": "true" });
  const keys = shown.columns.map((unit) => make("li", { title: unit.text, dir: "auto" }, unit.text));
  const buttons = shown.rows.map((unit, row) => make("button", {
    type: "button", tabindex: row ? "-1" : "0", "aria-pressed": "false", title: unit.text, dir: "auto",
    onclick: () => select(row), onfocus: () => select(row), onkeydown: (event) => walk(event, row),
    onpointerenter: () => { draw(row); pick(row, best(shown, row), false); }, onpointerleave: () => draw(chosen),
  }, unit.text));
  const left = make("div", { class: "left" }, make("h2", {}, say(shown.attention.key, {}, "side")), make("ul", { class: "side" }, ...keys));
  const right = make("div", {}, make("h2", {}, say(shown.attention.query, {}, "side")),
    make("ul", { class: "side" }, ...buttons.map((button) => make("li", {}, button))));
  const middle = make("div", {}, make("p", { class: "level", "aria-hidden": "true" }, "\u00a0"), canvas);
  const element = make("div", { class: "ribbon" }, left, middle, right);
  let chosen = null;

  function walk(event, row) {
    const next = moved(event, row, buttons.length);
    if (next === null) return;
    event.preventDefault();
    buttons[next].focus();
  }

  function select(row) {
    chosen = row;
    buttons.forEach((button, r) => {
      button.setAttribute("aria-pressed", String(r === row));
      button.tabIndex = r === row ? 0 : -1;
    });
    draw(row);
    pick(row, best(shown, row), true);
  }

  function draw(row) {
    paint(canvas, middle.clientWidth, shown, scale, row);
    const width = shown.columns.length;
    keys.forEach((key, c) => {
      const level = row === null ? 0 : Math.min(1, scale(shown.values[row * width + c], row));
      key.style.background = level > 0.03 ? `color-mix(in srgb, ${colour("bar")} ${Math.round(45 * level)}%, transparent)` : "";
    });
  }

  return { element, select, draw: () => draw(chosen) };
}

/** The place in a row that got most. */
export function best(shown, row) {
  const width = shown.columns.length, values = shown.values.subarray(row * width, (row + 1) * width);
  return values.reduce((most, value, c) => (value > values[most] ? c : most), 0);
}

function paint(canvas, width, shown, scale, only) {
  const keys = shown.columns.length, rows = shown.rows.length;
  const context = sharp(canvas, Math.max(40, width), LINE * Math.max(keys, rows));
  context.strokeStyle = colour("bar");
  const end = Math.max(40, width);
  for (let row = 0; row < rows; row++) {
    const faint = only !== null && row !== only ? 0.12 : 0.85;
    for (let c = 0; c < keys; c++) {
      const level = Math.min(1, scale(shown.values[row * keys + c], row));
      if (level < LEAST) continue;
      context.globalAlpha = faint * (0.08 + 0.92 * level);
      context.lineWidth = 0.5 + 9 * level;
      context.beginPath();
      context.moveTo(0, (c + 0.5) * LINE);
      context.bezierCurveTo(end / 2, (c + 0.5) * LINE, end / 2, (row + 0.5) * LINE, end, (row + 0.5) * LINE);
      context.stroke();
    }
  }
}
