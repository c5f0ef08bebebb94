// The picture of an answer with the regions that a word, or a label, looked at; beside it the untouched picture.

import { attentionsToPictures, merged } from "./data.js";
import { make, moved } from "./make.js";
import { percent, say } from "./strings.js";

const DARKEST = 0.8; // of the cover where a region got nothing

/** Words or labels to choose from, above the picture with the regions of the chosen one lit up. */
export async function regionsView(context) {
  const { trace } = context, attentions = attentionsToPictures(trace);
  const attention = attentions.findLast(({ query }) => query === "target" || query === "asked") ?? attentions.at(-1);
  const shown = await merged(context, attention, "mean", { level: "word", specials: false, share: false }), width = shown.columns.length;
  const box = ({ places }) => trace.items[attention.key][places[0]].box;
  const regions = shown.columns.map((unit, n) => ({ box: box(unit), n })).filter((region) => region.box);
  const words = shown.rows.map((unit, row) => ({ text: unit.text, row, box: trace.items[attention.query][unit.places[0]].box })).filter((word) => !word.box);
  if (!words.length || !regions.length) return null;
  const shares = ({ row }) => regions.map(({ n }) => shown.values[row * width + n]);
  const { source, width: wide, height } = trace.pictures[attention.key];
  const canvas = make("canvas", { class: "over", width: wide, height, "aria-hidden": "true" });
  const image = () => make("img", { src: source, width: wide, height, alt: "" });
  const stage = make("div", { class: "pictured" }, image(), canvas), plain = make("div", { class: "pictured" }, image());
  for (const holder of [stage, plain]) holder.style.aspectRatio = `${wide} / ${height}`;
  const caption = make("p", { class: "note" });
  const choose = (n, { aloud = true } = {}) => {
    buttons.forEach((button, each) => { button.setAttribute("aria-pressed", String(each === n)); button.tabIndex = each === n ? 0 : -1; });
    const values = shares(words[n]);
    cover(canvas, regions, values);
    const best = values.indexOf(Math.max(...values));
    caption.textContent = say("use.region", { word: words[n].text, percent: percent(values[best]), region: placed(regions[best]), equal: percent(1 / regions.length) }, attention.query === "asked" ? "asked" : "");
    if (aloud) context.tell(caption.textContent);
  };
  const buttons = words.map((word, n) => make("button", {
    type: "button", class: "use-word", onclick: () => choose(n), onpointerenter: (event) => { if (event.pointerType !== "touch") choose(n); },
    onkeydown: (event) => {
      const next = moved(event, n, words.length);
      if (next === null) return;
      event.preventDefault();
      buttons[next].focus();
      choose(next);
    },
  }, make("span", { class: "letters" }, word.text)));
  choose(0, { aloud: false });
  return make("div", { class: "use-regions" }, make("div", { class: "use-line", role: "group", "aria-label": say("use.words") }, ...buttons),
    make("div", { class: "use-pair" }, stage, plain), caption);
}

/** Darken each region, the less it got the more. */
function cover(canvas, regions, values) {
  const context = canvas.getContext("2d"), top = Math.max(...values, 1e-9);
  context.clearRect(0, 0, canvas.width, canvas.height);
  regions.forEach(({ box: [left, high, right, low] }, n) => {
    context.fillStyle = `rgb(0 0 0 / ${DARKEST * (1 - Math.max(0, values[n]) / top)})`;
    const [x, y, end, bottom] = [left * canvas.width, high * canvas.height, right * canvas.width, low * canvas.height].map(Math.round);
    context.fillRect(x, y, end - x, bottom - y);
  });
}

/** Where a region lies, as row and column from 1. */
function placed({ box: [left, top, right, bottom] }) {
  return say("placed", { row: Math.round(top / (bottom - top)) + 1, column: Math.round(left / (right - left)) + 1 });
}
