// A slider over the evaluations of a run, in which an alignment forms: where the model looked in the same input at each.

import { attentionsToPictures, merged } from "./data.js";
import { drawImage } from "./image.js";
import { make } from "./make.js";
import { tableView } from "./grid.js";
import { maskedSentence } from "./masks.js";
import { matrixView } from "./matrix.js";
import { describe } from "./names.js";
import { best } from "./ribbon.js";
import { number, percent, say, shortNumber } from "./strings.js";

const PACE = 700; // milliseconds of an evaluation when they are played
const MOST = 60; // traces that are kept

/** A heading, choices, the slider and the picture of one evaluation; `update` adds evaluations as they come. */
export function evaluationSlider(context) {
  return new Slider(context);
}

class Slider {
  constructor(context) {
    Object.assign(this, { context, steps: [], at: 0, run: null, traces: new Map(), timer: 0, resumed: 0, shown: null });
    const { state, change, signal } = context;
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.none = make("p", { class: "note" }, say("traces_none"));
    this.range = make("input", { type: "range", id: "evaluation", min: 0, step: 1, oninput: () => { this.stop(); this.move(Number(this.range.value)); } });
    this.output = make("output", { for: "evaluation" });
    this.example = make("select", { name: "example", onchange: () => this.choose({ example: this.example.value, look: "" }) });
    this.look = make("select", { name: "look", onchange: () => this.choose({ look: this.look.value }) });
    this.view = make("select", { name: "view", onchange: () => this.choose({ view: this.view.value }) }, ...["matrix", "table"].map((name) => make("option", { value: name }, say(name))));
    const button = (name, onclick) => make("button", { type: "button", onclick }, say(name));
    this.play = button("traces_play", () => (this.timer ? this.stop() : this.start()));
    this.play.hidden = this.still;
    this.picture = make("div", { id: "forming" });
    this.notes = make("div", {});
    const field = (name, element) => make("label", { class: "field" }, make("span", {}, say(name)), element);
    this.body = make("div", { class: "evaluations" },
      make("div", { class: "choices" }, field("traces_example", this.example), field("traces_look", this.look), field("view", this.view)),
      make("div", { class: "slide" }, field("traces_slider", this.range), button("traces_before", () => this.step(-1)), button("traces_next", () => this.step(1)), this.play),
      make("p", {}, this.output), this.picture, this.notes, this.still ? make("p", { class: "note" }, say("traces_still")) : "");
    this.elements = [make("h2", {}, say("traces_title")), this.none, this.body];
    this.choose = (changes) => { Object.assign(state, changes); change(changes, { quiet: true }); this.draw(); };
    signal.addEventListener("abort", () => this.stop(), { once: true });
  }

  /** Take in the evaluations of a run; the newest is shown unless another was chosen. */
  async update(run) {
    const { state } = this.context, steps = run.traces.steps;
    if (run.state.resumed !== this.resumed) this.traces.clear();
    Object.assign(this, { run, resumed: run.state.resumed });
    this.none.hidden = steps.length > 0;
    this.body.hidden = !steps.length;
    if (!steps.length) return;
    const same = steps.length === this.steps.length && steps.at(-1) === this.steps.at(-1);
    const wanted = steps.indexOf(Number(state.evaluation));
    this.steps = steps;
    this.at = wanted >= 0 ? wanted : steps.length - 1;
    this.range.max = steps.length - 1;
    this.range.value = this.at;
    this.fillExamples(run.traces.inputs);
    if (!same || !this.shown) await this.draw();
    else this.describe();
  }

  fillExamples(inputs) {
    const { state } = this.context;
    if (this.example.options.length !== inputs.length) {
      this.example.replaceChildren(...inputs.map((text, n) => make("option", { value: n }, text.length > 60 ? `${text.slice(0, 59)}…` : text)));
    }
    if (!(Number(state.example) < inputs.length)) state.example = "0";
    this.example.value = state.example;
  }

  step(by) {
    this.stop();
    this.move(Math.min(this.steps.length - 1, Math.max(0, this.at + by)));
  }

  /** Show the evaluation at this place, and name it in the address; the newest needs no name there. */
  async move(at) {
    this.at = at;
    this.range.value = at;
    const newest = at === this.steps.length - 1;
    this.context.change({ evaluation: newest ? "" : String(this.steps[at]) }, { quiet: true });
    await this.draw();
  }

  start() {
    this.play.textContent = say("traces_stop");
    if (this.at === this.steps.length - 1) this.at = -1;
    const turn = async () => {
      await this.move(this.at + 1);
      if (!this.timer) return;
      if (this.at >= this.steps.length - 1) this.stop();
      else this.timer = setTimeout(turn, PACE);
    };
    this.timer = setTimeout(turn, 0);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.play.textContent = say("traces_play");
  }

  /** The trace of one example at a step; the longest unused make room. */
  trace(step, example) {
    const name = `${step}/${example}`;
    let found = this.traces.get(name);
    if (!found) {
      found = this.context.source.get(`/v1/run/traces/${step}/${example}`, { signal: this.context.signal }).then((answer) => answer.view);
      found.catch(() => this.traces.delete(name));
    }
    this.traces.delete(name);
    this.traces.set(name, found);
    for (const oldest of this.traces.keys()) {
      if (this.traces.size <= MOST) break;
      this.traces.delete(oldest);
    }
    return found;
  }

  async draw() {
    const { state, signal } = this.context, step = this.steps[this.at], example = Number(state.example), order = (this.order = (this.order ?? 0) + 1);
    this.describe();
    let trace;
    try {
      trace = await this.trace(step, example);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted || order !== this.order) return;
      this.picture.replaceChildren(make("p", { class: "bad" }, error.message));
      this.notes.replaceChildren();
      return;
    }
    if (signal.aborted || order !== this.order) return; // another evaluation was chosen meanwhile
    this.shown = trace;
    const [name, head] = this.fillLooks(trace);
    this.picture.dataset.step = "";
    await this.paint(trace, trace.attentions.find((one) => one.name === name), head, order);
    if (order !== this.order) return;
    this.picture.dataset.step = step;
    this.describe();
  }

  /** Offer what is kept of this trace, and return what is shown of it. */
  fillLooks(trace) {
    const { state } = this.context, views = trace.attentions.flatMap((one) => viewsOf(trace, one));
    const chosen = views.find((view) => view.value === state.look) ?? views[0];
    if ([...this.look.options].map((option) => option.value).join() !== views.map((view) => view.value).join()) {
      this.look.replaceChildren(...views.map((view) => make("option", { value: view.value }, view.text)));
    }
    this.look.value = chosen.value;
    this.view.value = state.view === "table" ? "table" : "matrix";
    this.view.closest("label").hidden = attentionsToPictures(trace).some((one) => one.name === chosen.name);
    return [chosen.name, chosen.head];
  }

  async paint(trace, attention, head, order) {
    const { context } = this, { signal } = context, inner = { ...context, trace };
    if (attentionsToPictures(trace).includes(attention)) {
      const state = { ...context.state, attention: attention.name, head, at: this.spot ?? "", paint: "light", beside: "", other: "" };
      const change = async (changes) => { this.spot = changes.at ?? this.spot; await this.draw(); };
      await drawImage(this.picture, { ...inner, state, change, tell: () => {} });
    } else {
      const shown = await merged(inner, attention, head, { level: trace.level, specials: false, share: false });
      if (signal.aborted || order !== this.order) return;
      const view = context.state.view === "table" ? tableView(shown, say("traces_title"), best) : this.matrix(shown);
      this.picture.replaceChildren(view.element);
      view.draw();
      this.spread = spreadOf(shown);
    }
    this.notes.replaceChildren(...notesOf(trace, this.spread).map((text) => make("p", { class: "note" }, text)));
  }

  /** The matrix of an evaluation, in colours from 0 to 1 that mean the same at every step. */
  matrix(shown) {
    const { context } = this, pick = (row, column) => context.tell(cellSentence(shown, row, column));
    return matrixView(shown, (value) => value, { room: this.picture.clientWidth || 320, gold: [], pick, open: () => {}, keyed: false });
  }

  /** Say which evaluation is shown, with its score. */
  describe() {
    const step = this.steps[this.at], table = this.run.curves.evaluation, place = table?.step.indexOf(step) ?? -1;
    const scores = Object.entries(table?.values ?? {}).filter(([name, values]) => name !== "seconds" && place >= 0 && values[place] !== null);
    const text = say("traces_at", { step: shortNumber(step), n: this.at + 1, all: this.steps.length });
    this.output.textContent = [text, ...scores.map(([name, values]) => say("traces_score", { name, value: shortNumber(values[place]) }))].join(" · ");
    this.range.setAttribute("aria-valuetext", this.output.textContent);
  }
}

/** The mean of the heads, and each head where heads are kept. */
function viewsOf(trace, one) {
  const mean = { value: `${one.name}/mean`, name: one.name, head: "mean", text: say("mean_kept", { name: describe(one.name, trace) }) };
  if (trace.means.includes(one.name) || one.heads.length < 2) return [mean];
  const nth = (n) => ({ value: `${one.name}/${n}`, name: one.name, head: String(n), text: say("nth_kept", { name: describe(one.name, trace), head: say("nth", { n }) }) });
  return [mean, ...one.heads.map((_, n) => nth(n))];
}

function cellSentence(shown, row, column) {
  if (shown.masked?.[row * shown.columns.length + column]) return maskedSentence(shown, row, column);
  const value = shown.values[row * shown.columns.length + column];
  return say("cell", { query: shown.rows[row].text, key: shown.columns[column].text, percent: percent(value), value: number(value, 4) });
}

/** At how many places a row looks as if evenly, on average: two to the power of the entropy of its shares. */
export function spreadOf({ values, rows, columns }) {
  const width = columns.length;
  const counts = rows.map((_, r) => {
    const line = values.subarray(r * width, (r + 1) * width), total = line.reduce((sum, value) => sum + value, 0);
    if (!total) return width;
    return 2 ** -line.reduce((sum, value) => (value > 0 ? sum + (value / total) * Math.log2(value / total) : sum), 0);
  });
  return { many: counts.reduce((sum, count) => sum + count, 0) / counts.length, all: width };
}

function notesOf(trace, spread) {
  const forced = trace.facts.forced ? "traces_forced" : trace.items.target ? "traces_written" : "";
  const spoken = spread ? say("traces_spread", { side: say("traces_side"), many: number(spread.many, 1), all: spread.all }) : "";
  return [spoken, forced && say(forced), say("traces_kept")].filter(Boolean);
}
