// The matrix: a coloured cell per pair, drawn as far as it is in sight; words stay beside it while it scrolls under them.

import { colour, make, sharp } from "./make.js";
import { cellPainter } from "./cells.js";
import { printing } from "./data.js";
import { say } from "./strings.js";

const LEAST = 4, MOST = 96; // pixels of a cell, zoomed out and in
const READABLE = 15; // pixels that a label needs so as not to touch the next one
const COMFORTABLE = 18, LARGEST = 60; // pixels of a cell at first
const LONGEST = 16; // letters of a label; the whole word is in its title
const MANY = 160; // words on a side from which only those in sight have labels
const AROUND = 8; // labels beyond what is in sight

/** Builds the picture; `pick(row, column, kept)` is told where the reader points, `open(row)` when Enter is pressed. */
export function matrixView(shown, scale, { room, gold, pick, open, keyed, unfold = () => {}, layers = [], zoom = 0, zoomed = () => {} }) {
  const place = { cell: zoom || firstCell(shown, room), at: null };
  const parts = build(shown, unfold);
  const painter = cellPainter(shown, scale, layers);
  const view = { element: parts.element, canvas: parts.canvas };
  const paint = () => drawInSight(parts, shown, place, { painter, gold });
  const lay = () => { layOut(parts, shown, place, room); paint(); };
  view.draw = lay;
  view.select = (row, column) => {
    if (!place.width) lay();
    place.at = [row, column];
    markLabels(parts, place);
    reveal(parts, place, row, column);
    paint();
    pick(row, column, true);
  };
  const resize = (factor, around) => {
    const before = place.cell;
    place.cell = Math.max(LEAST, Math.min(MOST, factor === 0 ? firstCell(shown, room) : factor < 0 ? wholeCell(parts, shown, room) : before * factor));
    lay();
    keepAround(parts, place, place.cell / before, around);
    zoomed(Math.round(place.cell * 10) / 10);
  };
  listenToPointer(parts, shown, place, { pick, select: view.select });
  listenToKeys(parts, shown, place, { select: view.select, open, unfold, resize });
  listenToZoom(parts, resize);
  parts.scroller.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(paint).observe(parts.scroller);
  parts.element.append(zoomButtons(resize), make("p", { id: "keys", class: "note" }, say(keyed ? "keys" : "keyless")));
  return view;
}

function firstCell(shown, room) {
  const columns = shown.columns.length, rows = shown.rows.length;
  return Math.max(COMFORTABLE, Math.min(LARGEST, Math.floor(Math.min((room - 110) / columns, 560 / rows))));
}

/** The size of a cell at which all is in sight. */
function wholeCell({ scroller }, shown, room) {
  return Math.min((room - 110) / shown.columns.length, (Math.max(240, scroller.clientHeight) - 90) / shown.rows.length);
}

function build(shown, unfold) {
  const sides = { queries: say(shown.attention.query, {}, "side"), keys: say(shown.attention.key, {}, "side") };
  const canvas = make("canvas", {
    id: "matrix", tabindex: "0", role: "application", "aria-describedby": "keys",
    "aria-label": say("canvas", { rows: shown.rows.length, columns: shown.columns.length, ...sides }),
  });
  const label = (unit, number, side) => {
    const common = { class: "label", title: unit.text, dir: "auto", "data-place": number };
    if (!unit.foldable) return make("span", common, unit.text);
    const name = say(unit.unfolded ? "fold" : "unfold", { word: unit.whole ?? unit.text });
    return make("button", { ...common, class: "label foldable", type: "button", tabindex: "-1", title: name, "aria-expanded": String(Boolean(unit.unfolded)), onclick: () => unfold(side, unit) }, unit.text);
  };
  const corner = make("div", { class: "corner", "aria-hidden": "true" }, make("span", {}, `→ ${sides.keys}`), make("span", {}, `↓ ${sides.queries}`));
  const top = make("div", { class: "columns" }), left = make("div", { class: "rows" });
  const marks = make("div", { class: "marks", "aria-hidden": "true" });
  const stage = make("div", { class: "stage" }, corner, top, left, canvas, marks);
  const scroller = make("div", { class: "grid" }, stage);
  const rows = { holder: left, along: "top", count: shown.rows.length, labels: new Map(), make: (r) => label(shown.rows[r], r, "query") };
  const columns = { holder: top, along: "left", count: shown.columns.length, labels: new Map(), make: (c) => label(shown.columns[c], c, "key") };
  return { element: make("div", { class: "matrix" }, scroller), scroller, stage, corner, top, left, canvas, marks, sides: [rows, columns] };
}

/** Sizes of everything for one size of cells; widths of labels are measured in the page. */
function layOut(parts, shown, place, room) {
  const { cell } = place, rows = shown.rows.length, columns = shown.columns.length;
  const letters = Math.min(14, Math.max(11, Math.floor(cell) - 3));
  parts.stage.style.setProperty("--cell", `${cell}px`);
  parts.stage.style.setProperty("--letters", `${letters}px`);
  const pen = parts.canvas.getContext("2d");
  pen.font = `600 ${letters}px ${getComputedStyle(document.body).fontFamily}`;
  const width = (unit) => pen.measureText(unit.text.slice(0, LONGEST)).width + (unit.foldable ? 12 : 0);
  const widest = (units) => Math.ceil(Math.max(...longest(units).map(width)));
  const narrow = room < 480;
  place.left = Math.max(58, Math.min(narrow ? 96 : 168, widest(shown.rows) + 14));
  place.flat = widest(shown.columns) <= cell - 6;
  place.top = place.flat ? 46 : Math.max(46, Math.min(narrow ? 96 : 150, widest(shown.columns) + 14));
  place.width = cell * columns;
  place.height = cell * rows;
  parts.stage.style.setProperty("--rows", `${place.height}px`);
  Object.assign(parts.stage.style, { width: `${place.left + place.width}px`, height: `${place.top + place.height}px` });
  parts.stage.style.setProperty("--left", `${place.left}px`);
  parts.stage.style.setProperty("--top", `${place.top}px`);
  parts.top.classList.toggle("upright", !place.flat);
  for (const side of parts.sides) side.labels.forEach((label, n) => { label.style[side.along] = `${n * cell}px`; });
  markLabels(parts, place);
}

/** The words with most letters, one of which is the widest: measuring all takes too long. */
function longest(units) {
  return units.length <= 24 ? units : [...units].sort((one, other) => other.text.length - one.text.length).slice(0, 24);
}

/** Makes the labels that come into sight, and takes away those of a long text that leave it. */
function fillLabels(parts, place, starts, lengths, whole) {
  parts.sides.forEach((side, n) => {
    const all = whole || side.count <= MANY;
    const from = all ? 0 : Math.max(0, Math.floor(starts[n] / place.cell) - AROUND);
    const to = all ? side.count : Math.min(side.count, Math.ceil((starts[n] + lengths[n]) / place.cell) + AROUND);
    if (side.from === from && side.to === to) return;
    const before = side.labels;
    Object.assign(side, { from, to, labels: new Map() });
    for (let number = from; number < to; number++) {
      const label = before.get(number) ?? side.make(number);
      if (!before.has(number)) label.style[side.along] = `${number * place.cell}px`;
      side.labels.set(number, label);
    }
    markSide(side, place, n);
    side.holder.replaceChildren(...side.labels.values());
  });
}

/** The chosen words are bold; where cells are smaller than letters only every so many words have room. */
function markLabels(parts, place) {
  parts.sides.forEach((side, n) => markSide(side, place, n));
}

function markSide({ labels }, { cell, at }, axis) {
  const every = Math.ceil(READABLE / cell), chosen = at ? at[axis] : null;
  labels.forEach((label, n) => {
    const mine = n === chosen;
    label.classList.toggle("chosen", mine);
    label.hidden = every > 1 && !mine && (n % every !== 0 || (chosen !== null && Math.abs(n - chosen) < every));
  });
}

/** Draws the cells that are in sight, and boxes around those that were linked by hand or chosen. */
function drawInSight(parts, shown, place, { painter, gold }) {
  const { scroller, canvas } = parts, whole = printing();
  const across = whole ? place.width : Math.min(place.width, Math.max(40, scroller.clientWidth - place.left));
  const down = whole ? place.height : Math.min(place.height, Math.max(40, (scroller.clientHeight || 600) - place.top));
  const origin = { x: whole ? 0 : Math.min(scroller.scrollLeft, place.width - across), y: whole ? 0 : Math.min(scroller.scrollTop, place.height - down) };
  fillLabels(parts, place, [origin.y, origin.x], [down, across], whole);
  const context = sharp(canvas, across, down);
  Object.assign(canvas.style, { left: `${place.left}px`, top: `${place.top}px` });
  Object.assign(canvas.dataset, { left: -origin.x, top: -origin.y, cell: place.cell });
  painter(context, { ...origin, across, down, cell: place.cell });
  const box = (row, column, rows, columns, name) => {
    const mark = make("div", { class: name });
    Object.assign(mark.style, {
      left: `${place.left + column * place.cell}px`, top: `${place.top + row * place.cell}px`,
      width: `${columns * place.cell}px`, height: `${rows * place.cell}px`,
    });
    return mark;
  };
  const linked = place.cell < 8 ? [] : gold.map(({ rows, columns, sure }) => box(rows[0], columns[0], rows.length, columns.length, sure ? "link sure" : "link possible"));
  const { at } = place;
  parts.marks.replaceChildren(...linked, ...(at ? [box(at[0], at[1], 1, 1, "frame")] : []));
}

/** Scrolls as little as is needed for a cell to be seen. */
function reveal({ scroller }, { cell, left, top }, row, column) {
  const from = (start, size, view, margin) => {
    if (start < view) return start;
    return start + size > view + margin ? start + size - margin : view;
  };
  scroller.scrollLeft = from(column * cell, cell, scroller.scrollLeft, scroller.clientWidth - left);
  scroller.scrollTop = from(row * cell, cell, scroller.scrollTop, scroller.clientHeight - top);
}

function listenToPointer({ canvas }, shown, place, { pick, select }) {
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - Number(canvas.dataset.left)) / place.cell);
    const row = Math.floor((event.clientY - box.top - Number(canvas.dataset.top)) / place.cell);
    return row >= 0 && row < shown.rows.length && column >= 0 && column < shown.columns.length ? [row, column] : null;
  };
  canvas.addEventListener("pointermove", (event) => { const cell = under(event); if (cell) pick(...cell, false); });
  canvas.addEventListener("pointerleave", () => { if (place.at) pick(...place.at, true); });
  canvas.addEventListener("click", (event) => { const cell = under(event); if (cell) select(...cell); });
  canvas.addEventListener("focus", () => { if (!place.at && canvas.matches(":focus-visible")) select(0, 0); });
}

function listenToKeys({ canvas }, shown, place, { select, open, unfold, resize }) {
  const rows = shown.rows.length, columns = shown.columns.length;
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = place.at ?? [0, 0];
    const steps = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, columns - 1], PageUp: [row - 10, column], PageDown: [row + 10, column],
    };
    const sizes = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 };
    if (event.key === "Enter") open(row);
    else if (event.key === "o" && shown.rows[row].foldable) unfold("query", shown.rows[row]);
    else if (event.key === "O" && shown.columns[column].foldable) unfold("key", shown.columns[column]);
    else if (event.key in sizes) resize(sizes[event.key]);
    else if (event.key in steps) {
      const [r, c] = steps[event.key];
      select(Math.min(rows - 1, Math.max(0, r)), Math.min(columns - 1, Math.max(0, c)));
    } else return;
    event.preventDefault();
  });
}

/** Ctrl and the wheel, or two fingers, change the size of the cells; what is under them stays where it is. */
function listenToZoom({ scroller }, resize) {
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    resize(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 150), event);
  }, { passive: false });
  const touches = new Map();
  let apart = 0;
  const spread = () => { const [one, other] = [...touches.values()]; return Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY); };
  scroller.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") return;
    touches.set(event.pointerId, event);
    if (touches.size === 2) apart = spread();
  });
  scroller.addEventListener("pointermove", (event) => {
    if (!touches.has(event.pointerId)) return;
    touches.set(event.pointerId, event);
    if (touches.size !== 2) return;
    const now = spread(), [one, other] = [...touches.values()];
    if (Math.abs(now / apart - 1) < 0.02) return;
    resize(now / apart, { clientX: (one.clientX + other.clientX) / 2, clientY: (one.clientY + other.clientY) / 2 });
    apart = now;
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) scroller.addEventListener(name, (event) => touches.delete(event.pointerId));
}

/** Scrolls so that what lay under the pointer lies there again; words at the sides do not grow. */
function keepAround({ scroller }, { left, top }, factor, around) {
  if (!around) return;
  const box = scroller.getBoundingClientRect(), x = around.clientX - box.left - left, y = around.clientY - box.top - top;
  scroller.scrollLeft = (scroller.scrollLeft + x) * factor - x;
  scroller.scrollTop = (scroller.scrollTop + y) * factor - y;
}

function zoomButtons(resize) {
  const button = (text, name, factor) => make("button", { type: "button", "aria-label": say(name), "data-zoom": name, onclick: () => resize(factor) }, text);
  return make("div", { class: "zoom", role: "group", "aria-label": say("zoom") },
    button("−", "smaller", 0.8), button("+", "larger", 1.25), button(say("whole"), "whole", -1), button(say("readable"), "readable", 0));
}
