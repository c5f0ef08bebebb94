// The first screen: one attention as a matrix, ribbons or a table, with the chosen word's list beside it.

import { bars, make } from "./make.js";
import { attentionOf, hasSteps, merged, palette, scaleOf } from "./data.js";
import { matrixView } from "./matrix.js";
import { best, ribbonView, tableView } from "./ribbon.js";
import { number, percent, say } from "./strings.js";

/** Fill the section with one attention of the trace. */
export async function drawAlignment(section, context) {
  const { trace, state, change, tell, signal } = context, attention = attentionOf(trace, state.attention);
  const shown = await merged(context, attention, state.head, {
    level: state.level, specials: state.specials === "1", share: state.share === "1",
  });
  if (signal.aborted) return;
  section.replaceChildren();
  if (!shown.rows.length || !shown.columns.length) {
    section.append(make("p", {}, say("nothing")));
    return;
  }
  const scale = scaleOf(shown, state.scale);
  const side = make("aside", {});
  const holder = make("div", {});
  const split = make("div", { class: "split" }, holder, side);
  section.append(split);
  const gold = goldOf(shown, state);
  const pick = (row, column, kept) => {
    tell(sentence(shown, row, column));
    if (!kept) return;
    fillSide(side, shown, { row, gold, state });
    change({ at: `${row},${column}` }, { quiet: true });
  };
  const keyed = hasSteps(trace, attention);
  const open = (row) => { if (keyed) change(stepOf(shown, row, state), { step: true }); };
  fillSide(side, shown, { row: null, gold, state });
  const { name, query, key } = attention;
  if (state.view === "table") tell(say("caption", { name, queries: say(query, {}, "side"), keys: say(key, {}, "side") }));
  else tell(say("prompt"), { hint: true });
  if (state.view === "table") return holder.append(tableView(shown));
  const room = holder.clientWidth || 600;
  const view = state.view === "ribbon" ? ribbonView(shown, scale, { pick }) : matrixView(shown, scale, { room, gold, pick, open, keyed });
  holder.append(view.element);
  if (state.view === "matrix") {
    holder.append(legend(shown, state));
    split.classList.add("close"); // the room is measured: now the list may stand beside the picture, however narrow that is
  }
  restore(shown, view, state);
}

/** The cell the address names, if the matrix has it. */
function restore(shown, view, state) {
  const [row, column] = state.at.split(",").map(Number);
  const there = state.at && row < shown.rows.length && column < shown.columns.length;
  if (there) view.select(row, column);
  else view.draw?.();
}

function stepOf(shown, row, state) {
  const head = state.head === "mean" ? "0" : state.head;
  return { screen: "inside", attention: shown.attention.name, head, token: String(shown.rows[row].places[0]) };
}

function sentence(shown, row, column) {
  const value = shown.values[row * shown.columns.length + column];
  const text = say("cell", {
    query: shown.rows[row].text, key: shown.columns[column].text, percent: percent(value), value: number(value, 4),
  });
  return best(shown, row) === column ? `${text} ${say("best")}` : text;
}

/** Links made by hand as (row, column, sure); they join words read to words written. */
function goldOf(shown, state) {
  if (state.level !== "word" || shown.attention.query !== "target" || shown.attention.key !== "source") return [];
  const place = (units, word) => units.findIndex((unit) => !unit.special && unit.word === word);
  return shown.trace.gold
    .map(([read, written, sure]) => [place(shown.rows, written), place(shown.columns, read), sure])
    .filter(([row, column]) => row >= 0 && column >= 0);
}

function fillSide(side, shown, { row, gold, state }) {
  side.replaceChildren();
  if (row !== null) {
    const width = shown.columns.length, query = shown.rows[row].text;
    const order = shown.columns.map((unit, c) => ({ word: unit.text, share: shown.values[row * width + c] }));
    order.sort((a, b) => b.share - a.share);
    const listed = order.slice(0, 6);
    if (state.share === "0" && shown.hidden[row] > 0.0005) listed.push({ word: say("hidden"), share: shown.hidden[row] });
    side.append(make("h2", {}, say("looked", { query })), bars(listed.map((one) => ({ ...one, text: percent(one.share) }))));
  }
  const numbers = Object.entries(shown.trace.numbers);
  if (numbers.length) {
    const rows = numbers.map(([name, value]) =>
      make("tr", {}, make("th", { scope: "row" }, say(name)), make("td", {}, typeof value === "number" ? number(value) : String(value))));
    side.append(make("h2", {}, say("numbers")), make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, ...rows))));
  }
  if (gold.length && state.view === "matrix") side.append(make("p", { class: "note" }, say("links")));
  side.hidden = !side.children.length;
}

/** What the colours mean. */
function legend(shown, state) {
  const colours = palette(shown.trace), steps = [];
  for (let i = 0; i < 256; i += 15) steps.push(`rgb(${colours[3 * i]} ${colours[3 * i + 1]} ${colours[3 * i + 2]})`);
  const ramp = make("i", { "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${steps.join(",")})`;
  const top = state.scale === "full" ? 1 : shown.values.reduce((most, value) => Math.max(most, value), 0);
  const end = state.scale === "row" ? say("row") : number(top, 2) + (state.scale === "root" ? ` (${say("root")})` : "");
  return make("div", { class: "ramp" }, make("span", {}, number(0, 2)), ramp, make("span", {}, end));
}
