// Two columns of words with ribbons between them, as wide and as dark as the weights; and the same numbers in a table.

import { colour, make, moved, sharp } from "./make.js";
import { number, say } from "./strings.js";

const LINE = 28;
const LEAST = 0.02;

export function ribbonView(shown, scale, { pick }) {
  const canvas = make("canvas", { id: "ribbons", "aria-hidden": "true" });
  const keys = shown.columns.map((unit) => make("li", { title: unit.text }, unit.text));
  const buttons = shown.rows.map((unit, row) => make("button", {
    type: "button", tabindex: row ? "-1" : "0", "aria-pressed": "false", title: unit.text,
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

export function tableView(shown) {
  const names = { name: shown.attention.name, queries: say(shown.attention.query, {}, "side"), keys: say(shown.attention.key, {}, "side") };
  const width = shown.columns.length;
  const head = make("tr", {}, make("td", {}), ...shown.columns.map((unit) => make("th", { scope: "col" }, unit.text)));
  const body = shown.rows.map((unit, r) => {
    const most = best(shown, r);
    const cells = shown.columns.map((_, c) =>
      make("td", { class: c === most ? "best" : false }, number(shown.values[r * width + c])));
    return make("tr", {}, make("th", { scope: "row" }, unit.text), ...cells);
  });
  const words = say("caption", names);
  const table = make("table", { id: "numbers", "aria-label": words }, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": words }, table);
}
