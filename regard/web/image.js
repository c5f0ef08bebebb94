// The screen of a picture: as it is, and beside it a map of where each word, or the answer, looked in it.

import { bars, make, moved } from "./make.js";
import { attentionOf, palette, weightsOf } from "./data.js";
import { curves } from "./deletion_curves.js";
import { exportBar, drawing, plain, tag } from "./export.js";
import { measured } from "./measures.js";
import { describe } from "./names.js";
import { number, percent, say } from "./strings.js";

const DARKEST = 0.85; // of the cover where a region got least
const FINE = 600; // pixels on a side of the canvas that boxes are drawn on
const BOXES = ["#ffb000", "#64b5ff", "#ff6f91", "#7ee081"];

/** Fill the section with a picture and where one word, or the answer, looked in it; and another word's beside it, if asked for. */
export async function drawImage(section, context) {
  const { state, change, tell, signal } = context, shown = await seen(context);
  if (signal.aborted) return;
  const [word, region] = chosen(shown), other = besideOf(shown, word);
  const side = make("aside", {}), holder = make("div", {});
  section.replaceChildren(make("div", { class: "split" }, holder, side));
  const pick = (number, place) => change({ at: `${number},${place}` });
  const choose = (place) => pick(word, place).then(() => focus("#over"));
  holder.append(scrubber(shown, word, (number) => pick(number, highest(shown, number)).then(() => focus(`[data-word="${number}"]`))));
  const maps = [word, ...(other === null ? [] : [other])];
  if (state.paint === "numbers") holder.append(...maps.map((number) => table(shown, number)));
  else {
    holder.append(make("div", { class: "panels" }, untouched(shown, region), ...maps.map((number, n) => stage(shown, { word: number, region, choose, first: n === 0 }))),
      make("p", { id: "keys", class: "note" }, say("regions", {}, shown.form)), ...cropNote(shown));
  }
  holder.append(...besidePicker(shown, word, change));
  holder.append(make("p", { class: "note", id: "strongest" }, strongest(shown, word)), exporter(context, shown, word));
  tell(sentence(shown, word, region));
  fillSide(side, shown, word);
}

function focus(name) {
  document.querySelector(name)?.focus();
}

/** Words that look and regions that are looked at, special ones left out. */
async function seen(context) {
  const { trace, state } = context, attention = attentionOf(trace, state.attention);
  const named = (item, place) => ({ ...item, place, name: item.text.trim() || "␣" }); // pieces carry the space before them
  const listed = (items) => items.map(named).filter((item) => !item.special || item.box);
  const words = listed(trace.items[attention.query]).filter((item) => !item.special);
  const regions = listed(trace.items[attention.key]).filter((item) => item.box);
  const weights = await weightsOf(context, attention, state.head), width = trace.items[attention.key].length;
  const rows = words.length ? words : listed(trace.items[attention.query]);
  const values = rows.map((row) => Float32Array.from(regions, (region) => weights[row.place * width + region.place]));
  const form = rows.every((row) => row.box) ? "patch" : attention.query; // regions that look at one another have no words
  return { attention, form, words: rows, regions, values, picture: trace.pictures[attention.key], trace, state };
}

function chosen(shown) {
  const { at } = shown.state, [word, region] = at.split(",").map(Number);
  if (at && word < shown.words.length && region < shown.regions.length) return [word, region];
  return [0, highest(shown, 0)];
}

/** The word whose map stands beside the chosen one's, or null. */
function besideOf(shown, word) {
  const other = Number(shown.state.beside);
  return shown.state.beside !== "" && other < shown.words.length && other >= 0 && other !== word ? other : null;
}

/** A choice of another word, or question, to compare with. */
function besidePicker(shown, word, change) {
  if (shown.words.length < 2) return [];
  const options = [["", say("nothing_beside")], ...shown.words.flatMap((item, n) => (n === word ? [] : [[String(n), item.name]]))];
  const select = make("select", { name: "beside", onchange: () => change({ beside: select.value }) }, ...options.map(([value, text]) => make("option", { value }, text)));
  select.value = besideOf(shown, word) === null ? "" : shown.state.beside;
  return [make("label", { class: "field beside" }, make("span", {}, say("beside_it", {}, shown.form)), select)];
}

function highest(shown, word) {
  return shown.values[word].reduce((most, value, place, all) => (value > all[most] ? place : most), 0);
}

function sentence(shown, word, region) {
  const value = shown.values[word][region];
  const text = say("region", {
    query: nameOf(shown, word), region: placed(shown.regions[region]),
    percent: percent(value), value: number(value, 4), equal: percent(1 / shown.regions.length),
  }, shown.form);
  return highest(shown, word) === region ? `${text} ${say("best")}` : text;
}

function nameOf(shown, word) {
  return shown.form === "patch" ? placed(shown.words[word]) : shown.words[word].name;
}

/** The three regions that got most, for those who do not see the map. */
function strongest(shown, word) {
  const order = [...shown.values[word].keys()].sort((one, other) => shown.values[word][other] - shown.values[word][one]).slice(0, 3);
  const links = order.map((region) => say("region_link", { region: placed(shown.regions[region]), percent: percent(shown.values[word][region]) }));
  return say("strongest_regions", { query: nameOf(shown, word), links: links.join("; ") });
}

/** Where a region lies, as row and column from 1. */
function placed({ box: [left, top, right, bottom] }) {
  return say("placed", { row: Math.round(top / (bottom - top)) + 1, column: Math.round(left / (right - left)) + 1 });
}

/** The words in a row, one of which is chosen; arrow keys go through them. */
function scrubber(shown, word, choose) {
  const walk = (event) => {
    const next = moved(event, word, shown.words.length);
    if (next === null) return;
    event.preventDefault();
    choose(next);
  };
  const buttons = shown.words.map((item, n) => make("button", {
    type: "button", "aria-pressed": String(n === word), tabindex: n === word ? "0" : "-1", "data-word": n, dir: "auto",
    onclick: () => choose(n), onkeydown: walk,
  }, item.name));
  return make("div", { class: "scrubber", role: "group", "aria-label": say(shown.attention.query, {}, "side") }, ...buttons);
}

/** A box in shares of the sides, as a style. */
function boxStyle([left, top, right, bottom]) {
  return { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` };
}

function framed(shown, region) {
  const frame = make("span", { class: "framed", "aria-hidden": "true" });
  Object.assign(frame.style, boxStyle(shown.regions[region].box));
  return frame;
}

function panel(shown, caption, ...layers) {
  const { width, height } = shown.picture, scaled = make("div", { class: "pictured" }, ...layers);
  scaled.style.aspectRatio = `${width} / ${height}`;
  scaled.dataset.paint = shown.state.paint;
  return make("figure", {}, scaled, make("figcaption", {}, caption));
}

/** The picture as the model was shown it, with nothing over it but a frame. */
function untouched(shown, region) {
  const { source, width, height } = shown.picture, crops = shown.trace.facts.crops ?? [];
  const image = make("img", { src: source, width, height, alt: shown.trace.facts.text ?? "" });
  return panel(shown, say("picture_itself"), image, framed(shown, region), ...(crops.length ? [boxes(crops)] : []));
}

/** The map of one word: by itself in colours, or as light on the picture. */
function stage(shown, { word, region, choose, first }) {
  const { source, width, height } = shown.picture, name = nameOf(shown, word);
  const across = Math.max(2, Math.round(1 / (shown.regions[0].box[2] - shown.regions[0].box[0])));
  const over = make("canvas", first ? {
    id: "over", class: "over", tabindex: "0", role: "application", "aria-describedby": "keys",
    "aria-label": say("covered", { n: shown.regions.length, word: name }, shown.form),
    onkeydown: (event) => {
      const next = moved(event, region, shown.regions.length, across);
      if (next === null) return;
      event.preventDefault();
      choose(next);
    },
  } : { class: "over", role: "img", "aria-label": say("covered", { n: shown.regions.length, word: name }, shown.form) });
  over.addEventListener("click", (event) => { const place = under(event, shown); if (place >= 0) choose(place); });
  cover(over, shown, word);
  const image = shown.state.paint === "map" ? [] : [make("img", { src: source, width, height, alt: "" })];
  const map = panel(shown, say("map_of", { word: name }, shown.form), ...image, over, framed(shown, region));
  map.append(legend(shown, word));
  return map;
}

/** What was cut out of the picture, as boxes; a dot marks the top left of each crop. */
function boxes(crops) {
  const words = crops.map((corners, n) => listed(n + 1, corners.map(([x, y]) => `${percent(x)} ${percent(y)}`)));
  const canvas = make("canvas", { class: "crops", role: "img", "aria-label": `${say("crops")} ${words.reduce((one, other) => say("also", { one, other }))}` });
  Object.assign(canvas, { width: FINE, height: FINE });
  const pen = canvas.getContext("2d");
  pen.lineWidth = 4;
  crops.forEach((corners, n) => {
    const places = corners.map(([x, y]) => [x * FINE, y * FINE]);
    pen.strokeStyle = pen.fillStyle = BOXES[n % BOXES.length];
    pen.beginPath();
    places.forEach(([x, y]) => pen.lineTo(x, y));
    pen.closePath();
    pen.stroke();
    pen.beginPath();
    pen.arc(...places[0], 9, 0, 2 * Math.PI);
    pen.fill();
  });
  return canvas;
}

/** A name and what belongs to it. */
function listed(name, values) {
  return say("listed", { name, values: values.join(", ") });
}

function cropNote(shown) {
  return (shown.trace.facts.crops ?? []).length ? [make("p", { class: "note" }, say("crops"))] : [];
}

function under(event, shown) {
  const area = event.currentTarget.getBoundingClientRect();
  const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
  return shown.regions.findIndex(({ box: [left, top, right, bottom] }) => x >= left && x < right && y >= top && y < bottom);
}

/** The least and the most that a word gave to a region: a map is stretched between them. */
function rangeOf(shown, word) {
  const values = shown.values[word];
  return [values.reduce((least, value) => Math.min(least, value), Infinity), values.reduce((most, value) => Math.max(most, value), 0)];
}

/** The level of a region, from 0 for the least of its map to 255 for the most. */
function levelOf([least, most], value) {
  return Math.round(255 * Math.min(1, Math.max(0, (value - least) / Math.max(most - least, 1e-9))));
}

/** Each region as a rectangle of one colour; the lengths of the canvas are those of the picture. */
function cover(canvas, shown, word) {
  Object.assign(canvas, { width: shown.picture.width, height: shown.picture.height });
  const pen = canvas.getContext("2d"), colours = palette(shown.trace), range = rangeOf(shown, word);
  shown.regions.forEach(({ box }, place) => {
    const level = levelOf(range, shown.values[word][place]);
    pen.fillStyle = shown.state.paint === "light" ? `rgb(0 0 0 / ${DARKEST * (1 - level / 255)})` : shade(colours, level);
    const [x, y, right, bottom] = [box[0] * canvas.width, box[1] * canvas.height, box[2] * canvas.width, box[3] * canvas.height].map(Math.round);
    pen.fillRect(x, y, right - x, bottom - y);
  });
}

function shade(colours, level) {
  return `rgb(${colours[3 * level]} ${colours[3 * level + 1]} ${colours[3 * level + 2]})`;
}

/** What the shades of a map mean: its own least and most. */
function legend(shown, word) {
  const colours = palette(shown.trace), stops = [], [least, most] = rangeOf(shown, word);
  for (let i = 0; i < 256; i += 15) stops.push(shown.state.paint === "light" ? `rgb(${i} ${i} ${i})` : shade(colours, i));
  const ramp = make("i", { "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  return make("div", { class: "ramp" }, make("span", {}, say("least", { value: percent(least) })), ramp, make("span", {}, say("most", { value: percent(most) })));
}

/** The same numbers, row by row as the regions lie. */
function table(shown, word) {
  const tops = [...new Set(shown.regions.map(({ box }) => box[1]))].sort((a, b) => a - b);
  const best = highest(shown, word);
  const rows = tops.map((top, r) => make("tr", {}, make("th", { scope: "row" }, String(r + 1)),
    ...shown.regions.flatMap(({ box }, place) => (box[1] === top ? [make("td", { class: place === best ? "best" : false }, number(shown.values[word][place], 4))] : []))));
  const across = shown.regions.filter(({ box }) => box[1] === tops[0]).length;
  const columns = Array.from({ length: across }, (_, n) => make("th", { scope: "col" }, String(n + 1)));
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, say("corner")), ...columns));
  const words = say("regional", { word: nameOf(shown, word) }, shown.form);
  return make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": words },
    make("table", {}, make("caption", {}, words), head, make("tbody", {}, ...rows)));
}

/** The answer's probabilities, and every number that was measured. */
function fillSide(side, shown, word) {
  const answers = shown.trace.facts.answers ?? [];
  if (answers.length) {
    const entries = answers.map(([text, share]) => ({ word: text, share, text: percent(share), written: text.trim() === shown.words[word].name }));
    side.append(make("h2", {}, say("answers")), bars(entries));
  }
  side.append(...measured(shown.trace), ...curves(shown.trace, shown.attention.name));
  side.hidden = !side.children.length;
}

/** The numbers of one word's map, and the map as a drawing over nothing. */
function exporter(context, shown, word) {
  const exact = (value) => Number(value.toPrecision(7)), values = [...shown.values[word]].map(exact);
  const lines = shown.regions.map(({ box }, place) => [...box, values[place]]);
  const words = say("map_of", { word: nameOf(shown, word) }, shown.form);
  return exportBar(context, `${shown.attention.name}-${word}`, {
    rows: () => [["left", "top", "right", "bottom", "weight"], ...lines],
    json: () => ({
      model: shown.trace.model, attention: shown.attention.name, head: shown.state.head, word: nameOf(shown, word),
      regions: shown.regions.map(({ box }, place) => ({ box, weight: values[place] })),
    }),
    svg: () => mapSvg(shown, word, `${words}, ${describe(shown.attention.name, shown.trace)}`),
  });
}

function mapSvg(shown, word, title) {
  const wide = 400, { width, height, source } = shown.picture, high = Math.round((wide * height) / width);
  const colours = palette(shown.trace, { light: true }), range = rangeOf(shown, word);
  const cells = shown.regions.map(({ box: [left, top, right, bottom] }, place) => {
    const value = shown.values[word][place], at = { x: wide + 10 + left * wide, y: top * high, width: (right - left) * wide, height: (bottom - top) * high };
    return tag("rect", { ...at, fill: shade(colours, levelOf(range, value)), "data-value": Number(value.toPrecision(7)) }, tag("title", {}, plain(percent(value))));
  });
  return drawing(2 * wide + 10, high, title, tag("image", { href: source, width: wide, height: high }), ...cells);
}
