// A vector as small bars, up for plus and down for minus, whose numbers can be read one by one.

import { colour, make, moved, sharp } from "./make.js";
import { number, say } from "./strings.js";

/** A canvas with a bar for each number; it is drawn by `paint` once it has its room. */
export function strip(name, numbers, tell, { label = name, small = false } = {}) {
  const low = Math.min(...numbers), high = Math.max(...numbers), reach = Math.max(Math.abs(low), Math.abs(high), 1e-9);
  const words = say("strip", { name: label, n: numbers.length, low: number(low), high: number(high) });
  const canvas = make("canvas", { class: "strip", role: "img", "aria-label": words, tabindex: small ? false : "0" });
  let at = -1;
  canvas.paint = () => {
    const room = small ? 120 : Math.min(canvas.parentElement.clientWidth || 320, Math.max(240, 14 * numbers.length));
    const height = small ? 30 : 56, bar = room / numbers.length, pen = sharp(canvas, room, height);
    numbers.forEach((value, i) => {
      const size = (value / reach) * (height / 2 - 2);
      pen.fillStyle = i === at ? colour("ink") : colour(value < 0 ? "minus" : "bar");
      pen.fillRect(i * bar, height / 2 - Math.max(0, size), Math.max(bar - (bar > 4 ? 1 : 0), 0.5), Math.abs(size));
    });
    pen.fillStyle = colour("field");
    pen.fillRect(0, height / 2, room, 0.5);
  };
  const show = (place) => {
    at = place;
    canvas.paint();
    tell(say("hover", { name: label, place, value: number(numbers[place], 4) }));
  };
  canvas.addEventListener("pointermove", (event) => {
    const part = event.offsetX / canvas.clientWidth;
    show(Math.min(numbers.length - 1, Math.max(0, Math.floor(part * numbers.length))));
  });
  canvas.addEventListener("keydown", (event) => {
    const next = moved(event, at, numbers.length);
    if (next === null) return;
    event.preventDefault();
    show(next);
  });
  return canvas;
}
