// What was measured, with its controls: numbers, a button that explains each, and a sentence on whether they are good.

import { make } from "./make.js";
import { help } from "./glossary.js";
import { number, say } from "./strings.js";

/** Measures whose worth is read off other numbers: less than every one of these is good. */
const CONTROLS = {
  "AER of this sentence": ["AER of the diagonal"],
  "AER, mean": ["AER, permuted", "AER, diagonal", "AER, even"],
};
const NOTICEABLE = 0.02;

/** The numbers of a trace as a table, each with what it means; empty if nothing was measured. */
export function measured(trace) {
  const entries = Object.entries(trace.numbers);
  if (!entries.length) return [];
  const controls = new Set(Object.values(CONTROLS).flat());
  const rows = entries.map(([name, value]) => make("tr", { class: controls.has(name) ? "control" : false },
    make("th", { scope: "row" }, say(name), " ", help(name)),
    make("td", {}, typeof value === "number" ? number(value) : String(value))));
  return [make("h2", {}, say("numbers")), make("div", { class: "scroll" }, make("table", { class: "measured" }, make("tbody", {}, ...rows))),
    ...Object.keys(CONTROLS).flatMap((name) => verdict(trace.numbers, name))];
}

/** In words whether a measure is better than every control. */
function verdict(numbers, name) {
  const controls = CONTROLS[name].filter((control) => typeof numbers[control] === "number");
  if (typeof numbers[name] !== "number" || !controls.length) return [];
  const least = Math.min(...controls.map((control) => numbers[control])), good = numbers[name] < least - NOTICEABLE;
  return [make("p", { class: good ? "good verdict" : "bad verdict" }, say(good ? "aligns" : "aligns_not", { value: number(numbers[name]), control: number(least) }))];
}

/** The same number of a head beside its control: "2.39, even look 3.81". */
export function besideControl(trace, measure, name, head, digits = 2) {
  const value = trace.measures[measure]?.[name]?.[head];
  if (value === undefined) return "";
  const control = trace.controls?.[measure]?.[name]?.[head];
  return control === undefined ? number(value, digits) : say("beside", { value: number(value, digits), control: number(control, digits) });
}
