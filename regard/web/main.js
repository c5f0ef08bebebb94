// The frame of the explorer: it opens the source, reads the address, and draws the chosen screen again whenever something changes.

import { buildControls, fillControls, names } from "./controls.js";
import { whenRecoloured } from "./data.js";
import { canForce, forcedTokens } from "./forced.js";
import { fillFrame, fillKernel, hideTrouble, showTrouble, tell } from "./frame.js";
import { make } from "./make.js";
import { OF_ANSWERS, SCREENS, screensOf } from "./screens.js";
import { SourceError, openSource } from "./source.js";
import { QUESTION, addressOf, change, namedScreen, onChange, readAddress, settle, state } from "./state.js";
import { say, speak } from "./strings.js";

const find = (id) => document.getElementById(id);
const source = openSource();

/** What every screen is drawn from; `show` makes another trace the one that is shown, `awaited` says that one is being asked for. */
const context = { trace: null, source, state, change, addressOf, tell, show, models: [], facts: null, awaited: false, signal: null };
let controller = new AbortController();
let asking = null; // of the question in the address

/** Show a trace on every screen, as the answer to the question that `changes` name. */
async function show(trace, changes = {}, { step = true } = {}) {
  Object.assign(context, { trace, awaited: false });
  Object.assign(state, { at: "", token: "0", part: "", forced: "", before: "", hypothesis: "", opened: "", other: "", beside: "" });
  settle(trace, screensOf(context));
  await change(changes, { step });
}

/** Draw the chosen screen; what was being drawn is given up. */
async function draw() {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller, screens = screensOf(context);
  speak(state.lang);
  choose();
  fillFrame(context, screens);
  fillControls(context);
  for (const name of Object.keys(SCREENS)) {
    find(name).hidden = name !== state.screen;
    if (name !== state.screen) find(name).replaceChildren();
  }
  find("main").setAttribute("aria-busy", "true");
  try {
    if (screens.includes(state.screen)) await SCREENS[state.screen].draw(find(state.screen), { ...context, signal });
    else tell(say("empty"));
  } catch (error) {
    if (!signal.aborted) report(error, draw);
  }
  if (signal.aborted) return;
  find("main").removeAttribute("aria-busy");
  if (isOutdated()) await ask(context.trace.question);
}

/** Whether another answer is shown than the one that is forced now: the search was forced elsewhere since. */
function isOutdated() {
  const { trace } = context;
  return source.live && OF_ANSWERS.includes(state.screen) && Boolean(trace?.question) && (trace.forced ?? "") !== forcedOf(trace.question);
}

/** What the address forces the answer to a question to begin with, if the model's answers can be forced. */
function forcedOf({ model, verb }) {
  const able = context.models.filter((one) => one.can.includes("explain") && (!verb || one.verb === verb));
  return canForce(able.find(({ name }) => !model || name === model)) ? forcedTokens(state).join(",") : "";
}

/** Some screens show some attentions only. */
function choose() {
  if (!context.trace) return;
  const offered = names(context);
  if (state.screen === "image" && !offered.includes(state.attention)) Object.assign(state, { attention: offered.at(-1), head: "mean", at: "" });
  if (state.screen !== "inside") return;
  if (state.head === "mean") state.head = "0";
  if (!offered.includes(state.attention) && offered.length) state.attention = offered.at(-1);
}

/** A sentence for what the source could not do; anything else is a mistake of ours, and is not hidden. */
function report(error, again) {
  if (error.name === "AbortError") return;
  if (!(error instanceof SourceError)) throw error;
  const retry = () => { hideTrouble(); again(); };
  showTrouble(error, { retry, key: source.live ? (key) => { source.key = key; retry(); } : null });
}

/** Open what this page is about: the trace of a file, or the models of a server and the question in the address. */
async function open() {
  try {
    if (source.live) {
      context.facts = await source.describe();
      context.models = context.facts.models;
    } else context.trace = await source.open();
  } catch (error) {
    return report(error, open);
  }
  await arrive();
  if (!source.live && source.kernel) source.kernel.ready.then(join);
}

/** The kernel answers: what needs the model is there from now on, and what is shown stays. */
async function join() {
  try {
    context.facts = await source.describe();
  } catch (error) {
    return report(error, join);
  }
  context.models = context.facts.models;
  source.live = true;
  const { screen } = state, { model, verb, inputs, options = {} } = context.trace.question ?? {};
  const { prefix, ...chosen } = options, text = inputs === undefined ? {} : { input: [inputs].flat().join("\t") };
  settle(context.trace, screensOf(context));
  await change(model ? { screen, model, verb, ...text, options: Object.keys(chosen).length ? JSON.stringify(chosen) : "" } : { screen });
}

/** Draw what the address names; the screen `use` answers its question itself, as it answers a typed one. */
async function arrive() {
  settle(context.trace, screensOf(context));
  context.awaited = source.live && Boolean(state.input || state.opened) && !context.trace && namedScreen() !== "use";
  await draw();
  if (state.cut === "1" && !state.input) tell(say("cut"));
  if (context.awaited) await ask();
}

/** The question in the address; of a text of several sentences, one of them may be looked at. */
function questionInAddress() {
  const { part, input, options, ...others } = Object.fromEntries(QUESTION.map((name) => [name, state[name] || undefined]));
  return { ...others, inputs: part ?? input, options: options ? JSON.parse(options) : undefined };
}

/** Ask a question again, or the one in the address. */
async function ask(question = questionInAddress()) {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const { part, forced, before } = state;
  tell(say("asking"));
  try {
    const asked = { ...question, input: question.inputs, forced: forcedOf(question) };
    const trace = await (question.inputs ? source.explain(asked, { signal }) : source.open(state.opened, { signal }));
    if (!signal.aborted) await show(trace, { part, forced, before }, { step: false });
  } catch (error) {
    if (!signal.aborted) report(error, () => ask(question));
  }
}

function build() {
  find("main").append(...Object.keys(SCREENS).map((name) => make("section", { id: name, "data-name": name, hidden: true })));
  find("language").addEventListener("click", () => change({ lang: state.lang === "fr" ? "en" : "fr" }));
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); find("main").focus(); });
  buildControls(change);
  onChange(({ read = false, question = false }) => {
    if (question && source.live) context.trace = null;
    return read ? arrive() : draw();
  });
  if (source.kernel) source.kernel.watcher = () => fillKernel(context);
  whenRecoloured(draw);
  for (const [event, paper] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => { document.documentElement.classList.toggle("printing", paper); draw(); });
  }
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
}

build();
readAddress();
open().then(() => { document.documentElement.dataset.drawn = String(Math.round(performance.now())); });
