// What is shown lives in the address, so that a link or the back button brings it back: what was asked, and the view.

import { LANGUAGES, preferred } from "./strings.js";

const LONGEST = 1500; // letters of an input that an address takes along
const CHOICES = {
  paint: ["map", "light", "colours", "numbers"], level: ["word", "part", "subword"], specials: ["0", "1"], share: ["0", "1"], down: ["0", "1"],
  scale: ["auto", "max", "full", "row", "root"], theme: ["auto", "light", "dark"], view: ["matrix", "ribbon", "table"], lang: LANGUAGES,
  drawn: ["tree", "table"],
};

/** What names a question to a model, `part` being the sentence of a longer input that is looked at; the rest is how the answer is looked at. */
export const QUESTION = ["model", "verb", "input", "options", "part"];

export const state = {};
const watchers = [];
const framed = location.protocol === "about:"; // inside a notebook the address belongs to the notebook
let defaults = {};
let waiting = {}; // what the address names and only a trace can tell whether there is
let pending = 0;

/** What is shown unless the address says otherwise: a function of the trace, and of the screens that fit it. */
export function defaultsOf(trace, screens) {
  return {
    model: "", verb: "", input: "", options: "", part: "", cut: "",
    screen: screens[0] ?? "", attention: trace?.attentions[trace.first]?.name ?? "", head: "mean", level: trace?.level ?? "word",
    specials: "0", share: "0", scale: "auto", view: "matrix", sort: "place", down: "0", kind: "all", token: "0", at: "", paint: "map",
    zoom: "", over: "", unfolded: "", sentence: "", beside: trace?.other ? "o" : "", opened: "", other: "", theme: "auto", pair: "",
    forced: "", before: "", hypothesis: "", drawn: "tree", beams: "",
    evaluation: "", example: "0", sample: "0", look: "", score: "",
    lang: trace?.lang ?? preferred(),
  };
}

/** Make the state fit what is shown now; an address written by hand or for another trace may name what is not here. */
export function settle(trace, screens) {
  const wanted = { ...state, ...waiting };
  const before = defaults;
  defaults = defaultsOf(trace, screens);
  for (const name of Object.keys(defaults)) {
    const chosen = name in waiting || (name in state && state[name] !== before[name]);
    state[name] = chosen ? wanted[name] : defaults[name];
  }
  const allowed = { ...CHOICES, screen: screens, attention: trace?.attentions.map((one) => one.name) ?? [""] };
  for (const [name, values] of Object.entries(allowed)) if (!values.includes(state[name])) state[name] = defaults[name];
  const heads = trace?.attentions.find((one) => one.name === state.attention)?.heads.length ?? 0;
  if (!(Number(state.head) >= 0 && Number(state.head) < heads)) state.head = "mean";
  if (trace) waiting = {};
}

/** The screen that the address names, whether or not there is something to show on it yet. */
export function namedScreen() {
  return waiting.screen ?? state.screen;
}

/** Call this whenever the state has changed; `question` says whether the address names another question than before. */
export function onChange(call) {
  watchers.push(call);
}

/** The address of what would be shown after these changes; a long input stays out of it. */
export function addressOf(changes) {
  const next = { ...state, ...waiting, ...changes };
  if (next.input.length > LONGEST) Object.assign(next, { input: "", part: "", cut: "1" });
  const parts = Object.keys(defaults).filter((name) => next[name] !== defaults[name]);
  return "#" + parts.map((name) => `${name}=${encodeURIComponent(next[name])}`).join("&");
}

/** Whether the address leaves out the input, which is too long for it. */
export function isCut() {
  return state.cut === "1" || state.input.length > LONGEST;
}

/** Change some of it, and return when it is drawn; `step` makes the back button return to what was there, `quiet` redraws nothing. */
export async function change(changes, { step = false, quiet = false } = {}) {
  for (const name of Object.keys(changes)) delete waiting[name];
  if ("input" in changes) state.cut = "";
  Object.assign(state, changes);
  const address = addressOf({});
  clearTimeout(pending);
  const write = () => history[step ? "pushState" : "replaceState"](null, "", address);
  if (!framed && quiet) pending = setTimeout(write, 120); // browsers refuse addresses that change too often
  else if (!framed) write();
  if (!quiet) await Promise.all(watchers.map((call) => call({ question: false })));
}

/** Read what the address names; it counts once `settle` has seen what there is. */
export function readAddress() {
  const address = location.hash || (document.documentElement.dataset.address ?? ""); // of a saved page: what was shown
  const given = framed ? {} : Object.fromEntries(new URLSearchParams(address.slice(1)));
  const before = QUESTION.map((name) => state[name]).join("\n");
  const empty = defaultsOf(null, []);
  for (const name of Object.keys(state)) delete state[name];
  waiting = Object.fromEntries(Object.entries(given).filter(([name]) => name in empty));
  for (const name of QUESTION) state[name] = waiting[name] ?? "";
  return before !== QUESTION.map((name) => state[name]).join("\n");
}

for (const event of ["popstate", "hashchange"]) {
  addEventListener(event, () => {
    const question = readAddress();
    watchers.forEach((call) => call({ question, read: true }));
  });
}
