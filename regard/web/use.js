// The first screen: ask a model, see its answer grow, and see at which words each word looked.

import { AnswerBox } from "./answer_box.js";
import { Asker, UNSTREAMED, lookQuestion, sentencesOf, streams } from "./asking.js";
import { answerText, hasGap } from "./answers.js";
import { inputField, sayFirst, unique } from "./fields.js";
import { Languages } from "./languages.js";
import { make, shorten } from "./make.js";
import { modelTitle } from "./model_names.js";
import { optionFields } from "./options.js";
import { SourceError } from "./source.js";
import { say } from "./strings.js";
import { troubleView } from "./trouble.js";

const PAUSE = 400; // milliseconds without typing after which a question is asked by itself
const SPOKEN = 200; // letters of an answer that the live line says
const PATIENT = ["write", "embed", "make"]; // what is asked for only by the button: it is never finished, or is a search
const desks = new Map(); // by model: what was typed, asked and answered, for as long as the page is open
let shown = null;

/** Fills the section; what stands there already stays, so that nothing that is being typed is lost. */
export async function drawUse(section, context) {
  const model = chosenModel(context);
  if (!model) { section.replaceChildren(make("p", {}, say("use.no_models"))); return; }
  const key = keyOf(model), language = say("lang");
  if (!desks.has(key)) desks.set(key, new Desk(model));
  const desk = desks.get(key);
  desk.follow(context, section);
  if (shown?.desk !== desk || shown.language !== language || !section.contains(shown.root)) {
    const root = desk.build(context.models);
    section.replaceChildren(root);
    if (shown && shown.desk !== desk) context.tell(desk.result ? desk.sentence() : "");
    shown = { desk, language, root };
    desk.show();
  }
  desk.arrive();
}

function keyOf(model) {
  return `${model.name} ${model.verb}`;
}

/** The model that the address names, or the first. */
function chosenModel({ models, state }) {
  return models.find(({ name, verb }) => name === state.model && (!state.verb || verb === state.verb)) ?? models[0] ?? null;
}

/** One model in use: its form, the newest question, the answer and the trace of it. */
class Desk {
  constructor(model) {
    this.model = model;
    this.draft = { texts: [], options: {}, numbers: null, picture: null, asked: null, lines: null };
    this.result = null; // {question, answer, trace, part, parts}
    this.history = []; // results before a word was chosen
    this.pending = null; // the question that is being answered
    this.trouble = null;
    this.timer = 0;
  }

  /** Draw for this context from now on; requests end when another screen is shown. */
  follow(context, section) {
    this.context = context;
    this.asker ??= new Asker(context.source);
    this.looker ??= new Asker(context.source);
    context.signal.addEventListener("abort", () => setTimeout(() => {
      if (!section.hidden && section.contains(this.root)) return;
      clearTimeout(this.timer);
      this.asker.cancel();
      this.looker.cancel();
    }), { once: true });
  }

  build(models) {
    const { model, draft } = this;
    const events = { onInput: () => this.typed(), onSend: () => this.ask() };
    this.read(this.context.state);
    this.field = inputField(model, draft, events);
    this.languages = new Languages(this.model, draft, { source: this.context.source, onChange: () => this.typed(), onSwap: () => this.swap() });
    this.send = make("button", { class: "use-send" }, sayFirst(`use.send_${model.verb}`, "use.send"));
    this.troubled = make("div", {});
    const example = model.reads === "picture" ? [] : [make("button", { type: "button", onclick: () => this.tryExample() }, say("use.example"))];
    const top = make("div", { class: "use-top" }, ...(models.length > 1 ? [this.chooser(models)] : []), this.languages.element);
    const form = make("form", { class: "use-form", "aria-label": say("use.form"), novalidate: true, onsubmit: (event) => { event.preventDefault(); this.ask(); } },
      top, this.field.element, ...this.lines(events), make("div", { class: "use-buttons" }, this.send, ...example), this.troubled);
    const options = optionFields(model, draft, { without: ["to", ...(model.streams ? UNSTREAMED[model.verb] ?? [] : [])], onInput: () => this.typed() });
    this.box = new AnswerBox(this);
    this.root = make("div", { class: "use" }, form, this.box.element, ...(options ? [options] : []));
    return this.root;
  }

  /** What the address names, unless something was typed since. */
  read({ input, options }) {
    if (this.addressed !== undefined || !input) return;
    this.addressed = input;
    if (this.model.inputs.type === "object") this.draft.numbers = Object.fromEntries(input.split(",").map((part) => part.split("=")));
    else this.draft.texts = this.textsOf(input);
    try { if (options) this.draft.options = JSON.parse(options); } catch { this.draft.options = {}; }
    this.unasked = true;
  }

  chooser(models) {
    const id = unique("model");
    const select = make("select", { id, onchange: () => this.choose(models[select.selectedIndex]) },
      ...models.map((model, n) => make("option", { value: n, selected: model === this.model }, modelTitle(model))));
    this.chosen = id;
    return make("div", { class: "use-field use-model" }, make("label", { for: id }, say("use.model")), select);
  }

  /** Go to another model, and what was asked of it before; one that does the same is asked the same. */
  async choose({ name, verb, task }) {
    const other = desks.get(keyOf({ name, verb })), same = task === this.model.task;
    const input = other?.addressed ?? (same ? this.addressed : "") ?? "";
    await this.context.show(other?.result?.trace ?? null, { model: name, verb, input, options: "" });
    document.getElementById(shown.desk.chosen)?.focus();
  }

  /** Where an embedder searches: lines that the reader types. */
  lines(events) {
    if (this.model.verb !== "embed") return [];
    const id = unique("lines");
    this.draft.lines ??= say("use.example_lines");
    const box = make("textarea", { id, class: "use-box", rows: "4", dir: "auto", oninput: () => { this.draft.lines = box.value; events.onInput(); } });
    box.value = this.draft.lines;
    return [make("div", { class: "use-field use-lines" }, make("label", { for: id }, say("use.lines")), box)];
  }

  tryExample() {
    const text = sayFirst(`use.example_${this.model.verb}`, this.model.example);
    this.field.put(String(text).split("\t"));
    this.ask();
  }

  /** Put a text into the box in place of what is there, and ask. */
  put(text) {
    this.field.put([text]);
    this.ask();
  }

  swap() {
    const answer = this.result && answerText(this.result.answer);
    if (answer) this.field.put([answer]);
    this.ask();
  }

  /** Something was typed: ask by itself after a pause, where answers are cheap and come to an end. */
  typed() {
    clearTimeout(this.timer);
    this.languages.detect(this.draft.texts[0] ?? "", this.context.signal);
    if (this.field.read() === null) {
      this.asker.cancel();
      this.looker.cancel();
      this.pending = null;
      return this.box.wait(false);
    }
    if (!PATIENT.includes(this.model.verb) && !this.lacksGap()) this.timer = setTimeout(() => this.ask({ alone: true }), PAUSE);
  }

  /** Whether a text has no gap yet that could be filled. */
  lacksGap() {
    return this.model.verb === "fill" && !hasGap(this.draft.texts[0]);
  }

  /** Put a text with a gap filled in place of what was asked; other gaps are asked about anew. */
  fill(text) {
    if (hasGap(text)) return this.put(text);
    this.field.put([text]);
    this.result = { ...this.result, answer: { ...this.result.answer, filled: text } };
    this.show();
    this.context.tell(this.sentence());
  }

  textsOf(input) {
    return this.model.inputs.type === "array" ? input.split("\t") : [input];
  }

  /** The address may name a question that was not asked yet, or asking it was interrupted; another screen's question is asked by the frame. */
  arrive() {
    const { input } = this.context.state;
    if (input && input !== this.addressed && this.model.inputs.type !== "object") {
      this.addressed = input;
      this.field.put(this.textsOf(input));
      this.unasked = true;
    }
    if (this.context.awaited || (!this.unasked && !this.pending)) return;
    this.unasked = false;
    if (this.asker.busy || this.field.read() === null) return;
    this.ask();
  }

  question() {
    const input = this.field.read();
    const options = { ...this.draft.options, ...this.languages.options() };
    const lines = (this.draft.lines ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
    return { model: this.model, input, options, lines };
  }

  /** Ask what the form holds; only the newest question is answered. `alone`: nobody pressed a button. */
  async ask({ alone = false } = {}) {
    clearTimeout(this.timer);
    const question = this.question();
    if (question.input === null) {
      this.context.tell(say("use.empty"));
      return this.field.focus();
    }
    this.pending = question;
    this.looker.cancel();
    this.draft.asked = [...this.draft.texts];
    this.address(question);
    this.languages.detect(this.draft.texts[0] ?? "", this.context.signal);
    this.fail(null);
    this.box.wait(true);
    try {
      const endless = new AbortController().signal; // a redraw does not end it; `follow` does, or a newer question
      const answer = await this.asker.ask(question, { signal: endless, onText: (text) => { if (this.pending === question) this.box.grow(text); } });
      if (answer === null || this.pending !== question) return;
      this.pending = null;
      this.history = [];
      this.result = { question, answer, trace: null, part: 0, parts: this.partsOf(question) };
      this.show();
      this.context.tell(this.sentence());
      await this.look();
    } catch (error) {
      if (this.pending !== question && this.pending !== null) return;
      if (alone && error.status === 422) this.refuse(error);
      else this.fail(error, () => this.ask());
    }
  }

  /** The answer as the live line says it. */
  sentence() {
    return say("use.answered_so", { answer: shorten(answerText(this.result.answer), SPOKEN) || say("use.nothing") });
  }

  /** Texts of several sentences are looked at sentence by sentence. */
  partsOf({ model, input }) {
    return model.verb === "translate" ? sentencesOf(input, this.languages.source()) : [input];
  }

  /** Ask where the model looked while it gave the answer that is shown, or one part of it. */
  async look() {
    const { result } = this, { question, answer, parts, part, prefix } = result;
    const input = parts.length > 1 ? parts[part] : question.input;
    const asked = lookQuestion({ ...question, input }, answer, prefix ? { prefix } : {});
    if (!asked || tooLong(asked.input, this.context.facts)) return this.box.look(null);
    this.box.lookAhead();
    try {
      const endless = new AbortController().signal;
      const trace = await this.looker.run(endless, (signal) => this.context.source.explain(asked, { signal }));
      if (trace === null || this.result !== result) return;
      Object.assign(result, { trace });
      await this.context.show(trace, {}, { step: false });
      this.box.look(result);
    } catch (error) {
      if (this.result === result) this.box.look(null, error);
    }
  }

  /** Write on from what was chosen: `ids` are forced, and what is before them stays. */
  async force(ids, { word, row }) {
    const before = this.result;
    this.history.push(before);
    this.result = { ...before, trace: null, forced: row, prefix: ids };
    await this.look();
    if (!this.result.trace) return;
    const { trace } = this.result;
    if (this.result.parts.length === 1) this.result.answer = { ...this.result.answer, translation: trace.facts.answer, answer: trace.facts.answer };
    await this.show();
    this.box.focusWord(row);
    this.context.tell(say("use.rewritten", { word, answer: trace.facts.answer }));
  }

  /** Continue a text from a word that was chosen. */
  async continueFrom(text, row) {
    const history = [...this.history, this.result];
    this.field.put([text]);
    await this.ask();
    this.history = history;
    await this.show();
    this.box.focusWord(row);
  }

  /** Back to what was shown before a word was chosen. */
  async undo() {
    const before = this.history.pop();
    if (!before) return;
    this.looker.cancel();
    this.result = before;
    if (this.model.verb === "write") this.field.put([before.question.input]);
    if (before.trace) await this.context.show(before.trace, {}, { step: false });
    await this.show();
    this.box.focusWord(before.forced ?? 0);
    this.context.tell(say("use.undone", { answer: before.trace?.facts.answer ?? answerText(before.answer) }));
  }

  /** Choose another sentence of a text. */
  async choosePart(part) {
    this.history = [];
    this.result = { ...this.result, part, trace: null, prefix: null };
    this.show();
    await this.look();
  }

  async show() {
    this.fail(this.trouble, this.again);
    await this.box.show();
  }

  /** Say beside the form what went wrong; what was typed and answered stays. */
  fail(error, again) {
    if (error && !(error instanceof SourceError)) throw error;
    Object.assign(this, { trouble: error, again });
    this.troubled.replaceChildren(...(error ? [troubleView(error, { source: this.context.source, again })] : []));
    if (!error) return;
    this.box.wait(false);
    this.context.tell(error.message);
  }

  /** What cannot be answered yet, while somebody types, is no trouble. */
  refuse(error) {
    this.pending = null;
    this.box.wait(false);
    this.box.note.textContent = error.message;
  }

  address({ input, options }) {
    const text = this.model.reads === "picture" ? "" : this.model.inputs.type === "object"
      ? Object.entries(input).map(([name, value]) => `${name}=${value}`).join(",") : [input].flat().join("\t");
    const changed = Object.keys(options).length ? JSON.stringify(options) : "";
    this.addressed = text;
    this.context.change({ screen: "use", model: this.model.name, verb: this.model.verb, input: text, options: changed }, { quiet: true });
  }

  get streamed() {
    return streams(this.model, this.draft.options);
  }
}

function tooLong(input, facts) {
  const most = facts?.limits?.explain_characters;
  return typeof input === "string" && most !== undefined && input.length > most;
}
