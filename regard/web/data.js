// What a trace holds, as screens need it: its attentions, weights by words or pieces, colours.

export { merged, unitsOf, weightsOf } from "./units.js";

/** Whether the model wrote while it looked at what it had read ("", as sentences say it); if not, "alone": all attention stays within what was read. */
export function formOf(trace) {
  return trace?.attentions.some((one) => one.query === "target" && one.key === "source") ?? true ? "" : "alone";
}

/** Attentions to the parts of a picture that is at hand. */
export function attentionsToPictures(trace) {
  return trace.attentions.filter((one) => one.key in trace.pictures);
}

/** Whether it is a map of what speaks for a label in a picture, which has no heads. */
export function isMap(trace, one) {
  return one.query === "asked" && one.key in trace.pictures;
}

/** Attentions, which have heads. */
export function attentionsWithHeads(trace) {
  return trace.attentions.filter((one) => !isMap(trace, one));
}

/** Whether there are words, which may be of several pieces: a trace of regions and labels has none. */
export function hasWords(trace) {
  return !attentionsToPictures(trace).length
    || trace.attentions.some((one) => !["asked", "label"].includes(one.query) && !(one.query in trace.pictures));
}

/** Whether the arithmetic of an attention can be shown. */
export function hasSteps(trace, attention) {
  return trace.stepped.includes(attention.name);
}

/** The attention of that name, or the one to begin with. */
export function attentionOf(trace, name) {
  return trace.attentions.find((one) => one.name === name) ?? trace.attentions[trace.first];
}

/** A function from (value, row) to 0..1, as the chosen scale has it. */
export function scaleOf(shown, name) {
  const width = shown.columns.length;
  if (name === "full") return (value) => value;
  if (name === "row") {
    const tops = shown.rows.map((_, r) => highest(shown.values.subarray(r * width, (r + 1) * width)));
    return (value, row) => value / tops[row];
  }
  const top = highest(shown.values);
  return name === "root" ? (value) => Math.sqrt(value / top) : (value) => value / top;
}

/** The largest of some numbers, or almost nothing. */
export function highest(values) {
  let most = 1e-9;
  for (let i = 0; i < values.length; i++) if (values[i] > most) most = values[i];
  return most;
}

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Whether the screen is dark: as the reader chose, or else as the system is. */
export function isScreenDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && dark.matches);
}

function isDark() {
  return !printing() && isScreenDark();
}

/** Paper is white, narrow, and shows what nobody scrolled to. */
export function printing() {
  return document.documentElement.classList.contains("printing");
}

const tables = {};

/** Call this whenever the system turns light or dark. */
export function whenRecoloured(call) {
  dark.addEventListener("change", call);
}

/** 256 colours from nothing to all, as (red, green, blue, red, ...); for a file those of a light page. */
export function palette(trace, { light = false } = {}) {
  const name = !light && isDark() ? "dark" : "light";
  return (tables[name] ??= Uint8ClampedArray.from({ length: 768 }, (_, i) => {
    const stops = trace.colours[name], at = (Math.floor(i / 3) / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2), part = at - low, channel = i % 3;
    return Math.round(stops[low][channel] * (1 - part) + stops[low + 1][channel] * part);
  }));
}

/** A picture of one pixel per cell. */
export function pixels(shown, scale) {
  const height = shown.rows.length, width = shown.columns.length;
  const image = new ImageData(width, height), cells = new Uint32Array(image.data.buffer), shades = shadesOf(palette(shown.trace));
  for (let row = 0, i = 0; row < height; row++) {
    for (const end = i + width; i < end; i++) {
      cells[i] = shown.masked?.[i] ? 0 : shades[Math.round(255 * Math.min(1, Math.max(0, scale(shown.values[i], row))))]; // what is masked is left open
    }
  }
  return image;
}

/** The colours of a palette as pixels, so that a cell is written at once. */
function shadesOf(colours) {
  const shades = new Uint32Array(256), bytes = new Uint8ClampedArray(shades.buffer);
  for (let level = 0; level < 256; level++) bytes.set([colours[3 * level], colours[3 * level + 1], colours[3 * level + 2], 255], 4 * level);
  return shades;
}
