// The screen of a picture: where each word, or the answer, looked in it; brighter where it looked more, or in colours.

import { bars, colour, make, moved, sharp } from "./make.js";
import { attentionOf, called, palette, weightsOf } from "./data.js";
import { number, percent, say } from "./strings.js";

const DARKEST = 0.85; // of the cover where a region got nothing
const FINE = 600; // pixels on a side of the canvas that boxes are drawn on
const BOXES = ["#ffb000", "#64b5ff", "#ff6f91", "#7ee081"];

/** Fill the section with a picture and where one word, or the answer, looked in it. */
export async function drawImage(section, context) {
  const { state, change, tell, signal } = context;
  const shown = await seen(context);
  if (signal.aborted) return;
  const [word, region] = chosen(shown);
  const side = make("aside", {});
  const holder = make("div", {});
  section.replaceChildren(make("div", { class: "split" }, holder, side));
  const pick = (number, place) => change({ at: `${number},${place}` });
  holder.append(scrubber(shown, word, (number) => pick(number, highest(shown, number)).then(() => focus(`[data-word="${number}"]`))));
  if (state.paint === "numbers") holder.append(table(shown, word));
  else holder.append(stage(shown, word, region, (place) => pick(word, place).then(() => focus("#over"))));
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

function highest(shown, word) {
  return shown.values[word].reduce((most, value, place, all) => (value > all[most] ? place : most), 0);
}

function sentence(shown, word, region) {
  const value = shown.values[word][region];
  const text = say("region", {
    query: shown.form === "patch" ? placed(shown.words[word]) : shown.words[word].name, region: placed(shown.regions[region]),
    percent: percent(value), value: number(value, 4), equal: percent(1 / shown.regions.length),
  }, shown.form);
  return highest(shown, word) === region ? `${text} ${say("best")}` : text;
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
    type: "button", "aria-pressed": String(n === word), tabindex: n === word ? "0" : "-1", "data-word": n,
    onclick: () => choose(n), onkeydown: walk,
  }, item.name));
  return make("div", { class: "scrubber", role: "group", "aria-label": say(shown.attention.query, {}, "side") }, ...buttons);
}

/** The picture, a cover as fine as its regions, and a frame around the chosen one. */
function stage(shown, word, region, choose) {
  const { source, width, height } = shown.picture;
  const across = Math.max(2, Math.round(1 / (shown.regions[0].box[2] - shown.regions[0].box[0])));
  const over = make("canvas", {
    id: "over", class: "over", tabindex: "0", role: "application", "aria-describedby": "keys",
    "aria-label": say("covered", { n: shown.regions.length, word: shown.words[word].name }, shown.form),
    onclick: (event) => { const place = under(event, shown); if (place >= 0) choose(place); },
    onkeydown: (event) => {
      const next = moved(event, region, shown.regions.length, across);
      if (next === null) return;
      event.preventDefault();
      choose(next);
    },
  });
  const image = make("img", { src: source, width, height, alt: shown.trace.facts.text ?? "" });
  const frame = make("span", { class: "framed", "aria-hidden": "true" });
  const [left, top, right, bottom] = shown.regions[region].box;
  Object.assign(frame.style, { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` });
  cover(over, shown, word);
  const crops = shown.trace.facts.crops ?? [];
  const scaled = make("div", { class: "pictured" }, image, over, frame, ...(crops.length ? [boxes(crops)] : []));
  scaled.style.aspectRatio = `${width} / ${height}`;
  scaled.dataset.paint = shown.state.paint;
  const notes = crops.length ? [make("p", { class: "note" }, say("crops"))] : [];
  return make("div", {}, scaled, make("p", { id: "keys", class: "note" }, say("regions", {}, shown.form)), ...notes, legend(shown, word));
}

/** What was cut out of the picture, as boxes; a dot marks the top left of each crop. */
function boxes(crops) {
  const told = crops.map((corners, n) => listed(n + 1, corners.map(([x, y]) => `${percent(x)} ${percent(y)}`)));
  const canvas = make("canvas", { class: "crops", role: "img", "aria-label": `${say("crops")} ${told.reduce(also)}` });
  Object.assign(canvas, { width: FINE, height: FINE });
  const context = canvas.getContext("2d");
  context.lineWidth = 4;
  crops.forEach((corners, n) => {
    const places = corners.map(([x, y]) => [x * FINE, y * FINE]);
    context.strokeStyle = context.fillStyle = BOXES[n % BOXES.length];
    context.beginPath();
    places.forEach(([x, y]) => context.lineTo(x, y));
    context.closePath();
    context.stroke();
    context.beginPath();
    context.arc(...places[0], 9, 0, 2 * Math.PI);
    context.fill();
  });
  return canvas;
}

function under(event, shown) {
  const area = event.currentTarget.getBoundingClientRect();
  const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
  return shown.regions.findIndex(({ box: [left, top, right, bottom] }) => x >= left && x < right && y >= top && y < bottom);
}

/** Each region as a rectangle of one colour; the lengths of the canvas are those of the picture. */
function cover(canvas, shown, word) {
  Object.assign(canvas, { width: shown.picture.width, height: shown.picture.height });
  const context = canvas.getContext("2d"), colours = palette(shown.trace), values = shown.values[word];
  const top = values.reduce((most, value) => Math.max(most, value), 1e-9);
  shown.regions.forEach(({ box }, place) => {
    const level = Math.round(255 * Math.min(1, Math.max(0, values[place] / top)));
    const [red, green, blue] = colours.subarray(3 * level, 3 * level + 3);
    context.fillStyle = shown.state.paint === "colours" ? `rgb(${red} ${green} ${blue})` : `rgb(0 0 0 / ${DARKEST * (1 - level / 255)})`;
    const [x, y, right, bottom] = [box[0] * canvas.width, box[1] * canvas.height, box[2] * canvas.width, box[3] * canvas.height].map(Math.round);
    context.fillRect(x, y, right - x, bottom - y);
  });
}

function legend(shown, word) {
  const top = shown.values[word].reduce((most, value) => Math.max(most, value), 0);
  const colours = palette(shown.trace), stops = [];
  for (let i = 0; i < 256; i += 15) {
    stops.push(shown.state.paint === "colours" ? `rgb(${colours[3 * i]} ${colours[3 * i + 1]} ${colours[3 * i + 2]})` : `rgb(${i} ${i} ${i})`);
  }
  const ramp = make("i", { "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  return make("div", { class: "ramp" }, make("span", {}, percent(0)), ramp, make("span", {}, percent(top)));
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
  const caption = make("caption", {}, say("regional", { word: shown.words[word].name }, shown.form));
  return make("div", { class: "scroll tall" }, make("table", {}, caption, head, make("tbody", {}, ...rows)));
}

/** The answer's probabilities, and every number that was measured. */
function fillSide(side, shown, word) {
  const answers = shown.trace.facts.answers ?? [];
  if (answers.length) {
    const entries = answers.map(([text, share]) => ({ word: text, share, text: percent(share), written: text.trim() === shown.words[word].name }));
    side.append(make("h2", {}, say("answers")), bars(entries));
  }
  const numbers = Object.entries(shown.trace.numbers);
  if (numbers.length) {
    const rows = numbers.map(([name, value]) =>
      make("tr", {}, make("th", { scope: "row" }, say(name)), make("td", {}, typeof value === "number" ? number(value) : String(value))));
    side.append(make("h2", {}, say("numbers")), make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, ...rows))));
  }
  const curves = drawn(shown.trace.facts.curves ?? [], shown.attention.name);
  if (curves.length) side.append(make("h2", {}, say("curve")), ...ranked(curves[0]), ...curves.map(curve));
  side.hidden = !side.children.length;
}

/** The curves of the method that is shown, else of the last. */
function drawn(curves, name) {
  const own = curves.filter(({ method }) => method === name);
  return own.length ? own : curves.filter(({ method }) => method === curves.at(-1).method);
}

/** Of which label the curves are, and by which map. */
function ranked({ label, method, each }) {
  const told = each ? "curve_each" : "curve_of";
  return label === undefined ? [] : [make("p", { class: "note" }, say(told, { label, method: called(method) }))];
}

/** How probable the answer stays while regions go, the highest first, or come; dashed: in random orders. */
function curve({ name, values, control, area, control_area }) {
  const width = 240, height = 80, spoken = [listed(say(name), values.map((value) => percent(value)))];
  if (control) spoken.push(listed(say("curve_control"), control.map((value) => percent(value))));
  const canvas = make("canvas", { role: "img", "aria-label": spoken.reduce(also) });
  const context = sharp(canvas, width, height);
  const line = (list, style, dash) => {
    context.strokeStyle = colour(style);
    context.setLineDash(dash);
    context.beginPath();
    list.forEach((value, n) => context.lineTo(1 + ((width - 2) * n) / (list.length - 1), 1 + (height - 2) * (1 - value)));
    context.stroke();
  };
  context.lineWidth = 2;
  if (control) line(control, "quiet", [4, 4]);
  line(values, "bar", []);
  const told = [say("curve_ends", { name: say(name), from: percent(values[0]), to: percent(values.at(-1)) })];
  if (control) told.push(say("curve_area", { area: percent(area), control: percent(control_area) }));
  return make("figure", { class: "curve" }, canvas, make("figcaption", {}, told.reduce(also)));
}

/** Two statements in one line. */
function also(one, other) {
  return say("also", { one, other });
}

/** A name and what belongs to it. */
function listed(name, values) {
  return say("listed", { name, values: values.join(", ") });
}
