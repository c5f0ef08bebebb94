// How far a map of a picture can be trusted: what happens to the answer as regions go or come, and what that means in words.

import { colour, make, sharp } from "./make.js";
import { help } from "./glossary.js";
import { describe } from "./names.js";
import { percent, say } from "./strings.js";

const WIDTH = 240, HEIGHT = 80;
const NOTICEABLE = 0.02; // of a probability, on average

/** The curves of the method that is shown, else of the last, with a sentence on whether to trust it. */
export function curves(trace, name) {
  const all = trace.facts.curves ?? [];
  if (!all.length) return [];
  const own = all.filter(({ method }) => method === name);
  const shown = own.length ? own : all.filter(({ method }) => method === all.at(-1).method);
  return [make("h2", {}, say("curve"), " ", help("curves")), ...verdict(shown), ...ranked(shown[0], trace), ...shown.map(figure)];
}

/** In words whether what was marked mattered more than anything else did. */
function verdict(shown) {
  const measured = shown.filter(({ area, control_area: control }) => area !== undefined && control !== undefined);
  return measured.map(({ name, area, control_area: control }) => {
    const gain = name === "insertion" ? area - control : control - area;
    const worth = gain > NOTICEABLE ? "good" : gain < -NOTICEABLE ? "worse" : "bad";
    return make("p", { class: `verdict ${worth === "good" ? "good" : "bad"}`, "data-verdict": worth },
      say(`${name}_${worth}`, { area: percent(area), control: percent(control) }));
  });
}

/** Of which label the curves are, and by which map. */
function ranked({ label, method, each }, trace) {
  return label === undefined ? [] : [make("p", { class: "note" }, say(each ? "curve_each" : "curve_of", { label, method: describe(method, trace) }))];
}

/** How probable the answer stays while regions go, the highest first, or come; dashed: in random orders. */
function figure({ name, values, control, area, control_area }) {
  const spoken = [listed(say(name), values)];
  if (control) spoken.push(listed(say("curve_control"), control));
  const canvas = make("canvas", { role: "img", "aria-label": spoken.reduce(also), "data-curve": name });
  const pen = sharp(canvas, WIDTH, HEIGHT);
  const line = (list, style, dash) => {
    pen.strokeStyle = colour(style);
    pen.setLineDash(dash);
    pen.beginPath();
    list.forEach((value, n) => pen.lineTo(1 + ((WIDTH - 2) * n) / (list.length - 1), 1 + (HEIGHT - 2) * (1 - value)));
    pen.stroke();
  };
  pen.lineWidth = 2;
  if (control) line(control, "quiet", [4, 4]);
  line(values, "bar", []);
  const words = [say("curve_ends", { name: say(name), from: percent(values[0]), to: percent(values.at(-1)) })];
  if (control) words.push(say("curve_area", { area: percent(area), control: percent(control_area) }));
  return make("figure", { class: "curve" }, canvas, make("figcaption", {}, words.reduce(also), " ", help(name)));
}

/** Two statements in one line. */
function also(one, other) {
  return say("also", { one, other });
}

function listed(name, values) {
  return say("listed", { name, values: values.map((value) => percent(value)).join(", ") });
}
