// The matrix: one coloured cell per pair, labels, boxes, and a cell that arrow keys move.

import { colour, make, sharp, shorten } from "./make.js";
import { pixels, printing } from "./data.js";
import { say } from "./strings.js";

const FACE = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
const SLOPE = (50 * Math.PI) / 180;

/** Builds the picture; `pick(row, column, kept)` is told where the reader points, `open(row)` when Enter is pressed. */
export function matrixView(shown, scale, { room, gold, pick, open, keyed }) {
  const canvas = make("canvas", {
    id: "matrix", tabindex: "0", role: "application", "aria-describedby": "keys",
    "aria-label": say("canvas", {
      rows: shown.rows.length, columns: shown.columns.length,
      queries: say(shown.attention.query, {}, "side"), keys: say(shown.attention.key, {}, "side"),
    }),
  });
  const over = make("canvas", { class: "over", "aria-hidden": "true", hidden: printing() });
  const place = layout(canvas, shown, room);
  Object.assign(canvas.dataset, { left: place.left, top: place.top, cell: place.cell });
  paint(canvas, shown, scale, place);
  const stage = make("div", { class: "scroll" }, make("div", { class: "stage" }, canvas, over));
  let at = null;
  const marks = () => {
    if (printing()) paint(canvas, shown, scale, place); // on paper a second canvas would hide the first
    mark(printing() ? canvas.getContext("2d") : sharp(over, place.width, place.height), shown, place, gold, at);
  };
  const select = (row, column) => {
    at = [row, column];
    marks();
    reveal(stage, place, column);
    pick(row, column, true);
  };
  marks();
  listen(canvas, shown, place, { select, pick, open, current: () => at });
  const note = make("p", { id: "keys", class: "note" }, say(keyed ? "keys" : "keyless"));
  return { element: make("div", {}, stage, note), select, canvas };
}

function layout(canvas, shown, room) {
  const context = canvas.getContext("2d");
  context.font = `bold 14px ${FACE}`;
  const narrow = room < 480, most = narrow ? 11 : 16;
  const widest = (units) => Math.max(56, ...units.map((unit) => context.measureText(shorten(unit.text, most)).width));
  const left = Math.ceil(widest(shown.rows)) + 12;
  const long = widest(shown.columns);
  const top = Math.ceil(long * Math.sin(SLOPE)) + 22;
  const last = context.measureText(shorten(shown.columns.at(-1).text, most)).width;
  const right = Math.ceil(last * Math.cos(SLOPE)) + 8;
  const count = Math.max(shown.rows.length, shown.columns.length);
  const least = count > 64 ? 5 : count > 32 ? 9 : narrow ? 12 : 15;
  const fit = Math.floor(Math.min((room - left - right) / shown.columns.length, 620 / shown.rows.length));
  const cell = Math.max(least, Math.min(56, fit));
  const ends = shown.columns.map((unit, c) => (c + 0.5) * cell + context.measureText(shorten(unit.text, most)).width * Math.cos(SLOPE));
  const width = left + Math.ceil(Math.max(cell * shown.columns.length, ...ends)) + 8;
  return { left, top, cell, most, width, height: top + cell * shown.rows.length + 4 };
}

function paint(canvas, shown, scale, { left, top, cell, width, height }) {
  const context = sharp(canvas, width, height);
  const small = document.createElement("canvas");
  small.width = shown.columns.length;
  small.height = shown.rows.length;
  small.getContext("2d").putImageData(pixels(shown, scale), 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, left, top, cell * small.width, cell * small.height);
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.beginPath();
  if (cell >= 15) {
    for (let c = 1; c < small.width; c++) line(context, left + c * cell, top, left + c * cell, top + cell * small.height);
    for (let r = 1; r < small.height; r++) line(context, left, top + r * cell, left + cell * small.width, top + r * cell);
  }
  context.rect(left - 0.5, top - 0.5, cell * small.width + 1, cell * small.height + 1);
  context.stroke();
}

/** Words beside the cells, as many as have room; those of the chosen cell always, and bold. */
function labels(context, shown, place, at) {
  const { top, cell } = place, every = Math.ceil(12 / cell), [row, column] = at ?? [-9999, -9999];
  const fits = (number, own) => number === own || (number % every === 0 && Math.abs(number - own) * cell >= 12);
  context.fillStyle = colour("ink");
  shown.rows.forEach((unit, r) => { if (fits(r, row)) rowLabel(context, unit, r, place, r === row); });
  shown.columns.forEach((unit, c) => { if (fits(c, column)) columnLabel(context, unit, c, place, c === column); });
  context.fillStyle = colour("quiet");
  context.font = `12px ${FACE}`;
  context.textAlign = "left";
  context.fillText(`→ ${say(shown.attention.key, {}, "side")}`, 2, top - 22);
  context.fillText(`↓ ${say(shown.attention.query, {}, "side")}`, 2, top - 7);
}

function line(context, x1, y1, x2, y2) {
  context.moveTo(x1 + 0.5, y1 + 0.5);
  context.lineTo(x2 + 0.5, y2 + 0.5);
}

function rowLabel(context, unit, row, { left, top, cell, most }, chosen) {
  context.font = `${chosen ? "bold " : ""}${cell < 15 ? 12 : 14}px ${FACE}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(shorten(unit.text, most), left - 7, top + (row + 0.5) * cell + 1);
  context.textBaseline = "alphabetic";
}

function columnLabel(context, unit, column, { left, top, cell, most }, chosen) {
  context.save();
  context.font = `${chosen ? "bold " : ""}${cell < 15 ? 12 : 14}px ${FACE}`;
  context.translate(left + (column + 0.5) * cell + 2, top - 6);
  context.rotate(-SLOPE);
  context.textAlign = "left";
  context.fillText(shorten(unit.text, most), 0, 4);
  context.restore();
}

/** Boxes of the links made by hand, and the chosen cell. */
function mark(context, shown, place, gold, at) {
  const { left, top, cell } = place;
  for (const [row, column, sure] of gold) {
    const box = [left + column * cell + 3, top + row * cell + 3, cell - 5, cell - 5];
    frame(context, box, { colour: colour("mark"), width: Math.max(1.5, cell / 18), dash: sure ? [] : [cell / 5, cell / 6] });
  }
  if (at) {
    const [row, column] = at;
    context.fillStyle = colour("pick");
    if (cell >= 12) context.fillRect(0, top + row * cell, left - 3, cell);
    const box = [left + column * cell - 1, top + row * cell - 1, cell + 2, cell + 2];
    frame(context, box, { colour: colour("ink"), width: 2.5, dash: [] });
  }
  labels(context, shown, place, at);
}

/** Scroll sideways until the column can be seen. */
function reveal(stage, { left, cell }, column) {
  const x = left + column * cell;
  if (x + 2 * cell > stage.scrollLeft + stage.clientWidth) stage.scrollLeft = x + 2 * cell - stage.clientWidth;
  if (x - cell < stage.scrollLeft) stage.scrollLeft = column ? x - cell : 0;
}

/** A rectangle that shows on any colour. */
function frame(context, box, { colour: own, width, dash }) {
  context.setLineDash([]);
  context.strokeStyle = colour("back");
  context.lineWidth = width + 2;
  context.strokeRect(...box);
  context.setLineDash(dash);
  context.strokeStyle = own;
  context.lineWidth = width;
  context.strokeRect(...box);
  context.setLineDash([]);
}

function listen(canvas, shown, { left, top, cell }, { select, pick, open, current }) {
  const rows = shown.rows.length, columns = shown.columns.length;
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / cell);
    const row = Math.floor((event.clientY - box.top - top) / cell);
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  };
  canvas.addEventListener("pointermove", (event) => { const cell = under(event); if (cell) pick(...cell, false); });
  canvas.addEventListener("pointerleave", () => { if (current()) pick(...current(), true); });
  canvas.addEventListener("click", (event) => { const cell = under(event); if (cell) select(...cell); });
  canvas.addEventListener("focus", () => { if (!current() && canvas.matches(":focus-visible")) select(0, 0); });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = current() ?? [0, 0];
    const steps = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, columns - 1], PageUp: [row - 10, column], PageDown: [row + 10, column],
    };
    if (event.key === "Enter") open(row);
    else if (event.key in steps) {
      const [r, c] = steps[event.key];
      select(Math.min(rows - 1, Math.max(0, r)), Math.min(columns - 1, Math.max(0, c)));
    } else return;
    event.preventDefault();
  });
}
