// Cells on a canvas: shades of one head, hatching where nothing may be looked at, or several heads over one another.

import { colour } from "./make.js";
import { palette } from "./data.js";

/** Colours of Okabe and Ito, which colour-blind eyes tell apart, and a pattern for each. */
export const LAYERS = [
  { colour: "#0072b2", pattern: "plain" }, { colour: "#d55e00", pattern: "stripes" },
  { colour: "#009e73", pattern: "dots" }, { colour: "#cc79a7", pattern: "bars" },
];

const SIZE = 6; // pixels after which a pattern repeats

/** A function that draws the cells of a rectangle of the matrix on a canvas. */
export function cellPainter(shown, scale, layers = []) {
  return (context, area) => {
    const sight = inSight(shown, area);
    context.fillStyle = colour("back");
    context.fillRect(0, 0, area.across, area.down);
    if (layers.length > 1) paintLayers(context, sight, area, layers);
    else paintShades(context, shown, scale, sight, area);
    if (shown.masked) hatch(context, shown, sight, area);
    lines(context, sight, area);
  };
}

/** The first and the last row and column that can be seen. */
function inSight(shown, { x, y, across, down, cell }) {
  return {
    first: Math.max(0, Math.floor(y / cell)), last: Math.min(shown.rows.length, Math.ceil((y + down) / cell)),
    from: Math.max(0, Math.floor(x / cell)), to: Math.min(shown.columns.length, Math.ceil((x + across) / cell)), width: shown.columns.length,
  };
}

function paintShades(context, shown, scale, { first, last, from, to, width }, { x, y, cell }) {
  if (last <= first || to <= from) return;
  const small = document.createElement("canvas"), colours = palette(shown.trace);
  const image = new ImageData(to - from, last - first);
  let at = 0;
  for (let row = first; row < last; row++) {
    for (let column = from; column < to; column++, at += 4) {
      const level = Math.round(255 * Math.min(1, Math.max(0, scale(shown.values[row * width + column], row))));
      image.data.set(colours.subarray(3 * level, 3 * level + 3), at);
      image.data[at + 3] = 255;
    }
  }
  Object.assign(small, { width: to - from, height: last - first });
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, from * cell - x, first * cell - y, (to - from) * cell, (last - first) * cell);
}

/** Each head has its part of every cell, the darker the more it gave. */
function paintLayers(context, { first, last, from, to, width }, { x, y, cell }, layers) {
  const across = layers.length > 2 ? 2 : layers.length, down = Math.ceil(layers.length / 2);
  layers.forEach(({ values, scale, style }, n) => {
    const fill = pattern(context, style);
    const wide = cell / across, high = cell / (layers.length > 2 ? down : 1);
    const [left, top] = [(n % across) * wide, (layers.length > 2 ? Math.floor(n / 2) : 0) * high];
    context.fillStyle = fill;
    for (let row = first; row < last; row++) {
      for (let column = from; column < to; column++) {
        const level = Math.min(1, Math.max(0, scale(values[row * width + column], row)));
        if (level < 0.02) continue;
        context.globalAlpha = level;
        context.fillRect(column * cell - x + left, row * cell - y + top, wide, high);
      }
    }
  });
  context.globalAlpha = 1;
}

/** A fill of one colour with its pattern: told apart without seeing colours. */
export function pattern(context, { colour: ink, pattern: name }) {
  if (name === "plain") return ink;
  const tile = document.createElement("canvas");
  Object.assign(tile, { width: SIZE, height: SIZE });
  const pen = tile.getContext("2d");
  pen.fillStyle = ink;
  pen.fillRect(0, 0, SIZE, SIZE);
  pen.fillStyle = pen.strokeStyle = "rgb(255 255 255 / .75)";
  if (name === "dots") pen.fillRect(2, 2, 2, 2);
  else if (name === "bars") pen.fillRect(0, 2, SIZE, 1.5);
  else slanted(pen);
  return context.createPattern(tile, "repeat");
}

function slanted(pen) {
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const shift of [-SIZE, 0, SIZE]) {
    pen.moveTo(shift, SIZE);
    pen.lineTo(shift + SIZE, 0);
  }
  pen.stroke();
}

/** What may not be looked at is hatched: it is no small number, it is none. */
function hatch(context, shown, { first, last, from, to, width }, { x, y, cell }) {
  const tile = document.createElement("canvas");
  Object.assign(tile, { width: SIZE, height: SIZE });
  const pen = tile.getContext("2d");
  pen.fillStyle = colour("card");
  pen.fillRect(0, 0, SIZE, SIZE);
  pen.strokeStyle = colour("field");
  slanted(pen);
  context.fillStyle = context.createPattern(tile, "repeat");
  for (let row = first; row < last; row++) {
    for (let column = from; column < to; column++) {
      if (shown.masked[row * width + column]) context.fillRect(column * cell - x, row * cell - y, cell, cell);
    }
  }
}

function lines(context, { first, last, from, to }, { x, y, across, down, cell }) {
  if (cell < 12) return;
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.beginPath();
  for (let column = from; column <= to; column++) {
    context.moveTo(column * cell - x + 0.5, 0);
    context.lineTo(column * cell - x + 0.5, down);
  }
  for (let row = first; row <= last; row++) {
    context.moveTo(0, row * cell - y + 0.5);
    context.lineTo(across, row * cell - y + 0.5);
  }
  context.stroke();
}
