// What is shown lives in the address, so that a link or the back button brings it back.

import { headed, page, pictured } from "./data.js";
import { LANGUAGES, preferred } from "./strings.js";

/** Screens that have something to show: of graphs and pictures the vectors are not kept, since there are too many. */
export const screens = [
  ...(page.graph ? ["graph"] : []), ...(pictured.length ? ["image"] : []),
  ...(headed.length || !pictured.length ? ["alignment", "heads"] : []),
  ...((page.graph || pictured.length) && !Object.keys(page.steps).length ? [] : ["inside"]),
];

export const DEFAULTS = {
  screen: screens[0], attention: page.attentions[page.first]?.name ?? "", head: "mean", level: page.level,
  specials: "0", share: "0", scale: "max", view: "matrix", sort: "place", down: "0", kind: "all", token: "0", at: "", paint: "light",
  lang: page.lang ?? preferred(),
};

export const state = { ...DEFAULTS };
const watchers = [];
const framed = location.protocol === "about:"; // inside a notebook the address belongs to the notebook

export function onChange(call) {
  watchers.push(call);
}

export function addressOf(changes) {
  const next = { ...state, ...changes };
  const parts = Object.keys(DEFAULTS).filter((name) => next[name] !== DEFAULTS[name]);
  return "#" + parts.map((name) => `${name}=${encodeURIComponent(next[name])}`).join("&");
}

let pending = 0;

/** Change some of it; `step` makes the back button return to what was there, `quiet` redraws nothing. */
export function change(changes, { step = false, quiet = false } = {}) {
  const address = addressOf(changes);
  Object.assign(state, changes);
  clearTimeout(pending);
  const write = () => history[step ? "pushState" : "replaceState"](null, "", address);
  if (!framed && quiet) pending = setTimeout(write, 120); // browsers refuse addresses that change too often
  else if (!framed) write();
  if (!quiet) watchers.forEach((call) => call());
}

export function readAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  Object.assign(state, DEFAULTS);
  for (const name of Object.keys(DEFAULTS)) if (name in given && !framed) state[name] = given[name];
  sensible();
}

/** An address written by hand or for another file may name what is not here. */
function sensible() {
  const allowed = {
    screen: screens, paint: ["light", "colours", "numbers"], level: ["word", "subword"], specials: ["0", "1"], share: ["0", "1"], down: ["0", "1"],
    scale: ["max", "full", "row", "root"], view: ["matrix", "ribbon", "table"], lang: LANGUAGES,
    attention: page.attentions.map((one) => one.name),
  };
  for (const [name, values] of Object.entries(allowed)) if (!values.includes(state[name])) state[name] = DEFAULTS[name];
  const heads = page.attentions.find((one) => one.name === state.attention)?.heads.length ?? 0;
  if (!(Number(state.head) >= 0 && Number(state.head) < heads)) state.head = "mean";
}

addEventListener("popstate", () => { readAddress(); watchers.forEach((call) => call()); });
addEventListener("hashchange", () => { readAddress(); watchers.forEach((call) => call()); });
