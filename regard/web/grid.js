// The numbers of a matrix in a table, of which only the rows and columns in sight are there.

import { make } from "./make.js";
import { number, say } from "./strings.js";

const ROW = 30, COLUMN = 76; // pixels
const SMALL = 4096; // cells up to which a table is drawn whole
const AROUND = 4; // rows and columns drawn beyond what is in sight

/** Builds the table; what is out of sight is made when it is scrolled to, and its place is kept open until then. */
export function tableView(shown, words, best) {
  const rows = shown.rows.length, columns = shown.columns.length, whole = rows * columns <= SMALL;
  const head = make("thead"), body = make("tbody");
  const table = make("table", { id: "numbers", "aria-label": words, "aria-rowcount": rows + 1, "aria-colcount": columns + 1, class: whole ? false : "fixed" }, head, body);
  const scroller = make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": words }, table);
  const tops = whole ? [] : shown.rows.map((_, r) => best(shown, r));
  const fill = (window) => {
    head.replaceChildren(headOf(shown, window));
    body.replaceChildren(...bodyOf(shown, window, whole ? best : (_, r) => tops[r]));
  };
  if (whole) fill({ first: 0, last: rows, from: 0, to: columns });
  else {
    let drawn = "";
    const draw = () => {
      const window = inSight(scroller, rows, columns), name = Object.values(window).join();
      if (name !== drawn) fill(window);
      drawn = name;
    };
    scroller.addEventListener("scroll", draw, { passive: true });
    draw();
    return { element: scroller, draw };
  }
  return { element: scroller, draw: () => {} };
}

function inSight({ scrollTop, scrollLeft, clientHeight, clientWidth }, rows, columns) {
  const first = Math.max(0, Math.floor(scrollTop / ROW) - AROUND), from = Math.max(0, Math.floor(scrollLeft / COLUMN) - AROUND);
  return {
    first, last: Math.min(rows, first + Math.ceil((clientHeight || 800) / ROW) + 2 * AROUND),
    from, to: Math.min(columns, from + Math.ceil((clientWidth || 1200) / COLUMN) + 2 * AROUND),
  };
}

/** An empty cell as wide as the columns that are left out. */
function gap(count, tag = "td") {
  const cell = make(tag, { "aria-hidden": "true", class: "gap" });
  cell.style.minWidth = cell.style.width = `${count * COLUMN}px`;
  return count ? [cell] : [];
}

function headOf(shown, { from, to }) {
  const names = shown.columns.slice(from, to).map((unit, c) =>
    make("th", { scope: "col", "aria-colindex": from + c + 2, title: unit.text }, make("bdi", {}, unit.text)));
  return make("tr", { "aria-rowindex": 1 }, make("td"), ...gap(from), ...names, ...gap(shown.columns.length - to));
}

function bodyOf(shown, { first, last, from, to }, best) {
  const width = shown.columns.length;
  const line = (unit, r) => {
    const most = best(shown, r);
    const cells = shown.columns.slice(from, to).map((_, n) => {
      const c = from + n;
      if (shown.masked?.[r * width + c]) return make("td", { class: "masked", "aria-colindex": c + 2 }, say("masked_cell"));
      return make("td", { class: c === most ? "best" : false, "aria-colindex": c + 2 }, number(shown.values[r * width + c]));
    });
    return make("tr", { "aria-rowindex": r + 2 }, make("th", { scope: "row", title: unit.text }, make("bdi", {}, unit.text)), ...gap(from), ...cells, ...gap(width - to));
  };
  const space = (count) => {
    const row = make("tr", { "aria-hidden": "true", class: "gap" });
    row.style.height = `${count * ROW}px`;
    return count ? [row] : [];
  };
  return [...space(first), ...shown.rows.slice(first, last).map((unit, n) => line(unit, first + n)), ...space(shown.rows.length - last)];
}
