// The screen of trust: every method of looking inside a model held against a check and its controls, in plain words.

import { help } from "./glossary.js";
import { make } from "./make.js";
import { SourceError } from "./source.js";
import { number, percent, say } from "./strings.js";

const PAUSE = 500; // milliseconds between two looks at a measurement
const FEWEST = 2; // inputs of a check
const OPEN = ["queued", "running"];
const jobs = new Map(); // the last known state of measurements by model and direction, for a screen that is drawn again

/** Fill the section with the checks of the chosen model; they are measured when the reader asks for it. */
export async function drawTrust(section, context) {
  const model = modelOf(context);
  section.replaceChildren(make("h2", {}, say("trust_title", { model: model?.name ?? "" })), make("p", {}, say("trust_lead")));
  if (!model?.can.includes("trust")) {
    section.append(make("p", { id: "no-check" }, say("trust_none")));
    context.tell(say("trust_none"));
    return;
  }
  const view = new TrustView(context, model);
  section.append(...view.elements);
  await view.resume();
}

/** The model that is used, else the first of which something can be checked. */
function modelOf({ models, state }) {
  const chosen = models.find((one) => one.name === state.model && (!state.verb || one.verb === state.verb));
  return chosen ?? models.find((one) => one.can.includes("trust")) ?? models[0];
}

class TrustView {
  constructor(context, model) {
    Object.assign(this, { context, model, id: "", timer: 0 });
    const { signal } = context, needsInputs = model.trust?.inputs ?? false, readsPictures = model.reads === "picture";
    this.to = make("select", { name: "to", onchange: () => this.resume() }, ...model.languages.map((code) => make("option", { value: code }, languageName(code))));
    if (model.languages.length) this.to.value = model.languages.at(-1);
    this.files = make("input", { type: "file", name: "pictures", accept: "image/*", multiple: true });
    this.texts = make("textarea", { name: "texts", rows: 6 });
    this.begin = make("button", { type: "button", onclick: () => this.ask() }, say("trust_begin"));
    this.cancel = make("button", { type: "button", hidden: true, onclick: () => this.stop() }, say("trust_cancel"));
    this.progress = make("progress", { max: 1, hidden: true, "aria-label": say("trust_running", { percent: "" }) });
    this.status = make("p", { id: "trust-status" });
    this.result = make("div", { id: "trust-result" });
    const field = (name, element) => make("label", { class: "field" }, make("span", {}, say(name)), element);
    const choices = [model.languages.length > 1 ? field("trust_to", this.to) : "", !needsInputs ? "" : readsPictures ? field("trust_pictures", this.files) : field("trust_texts", this.texts)];
    this.elements = [make("div", { class: "choices" }, ...choices, this.begin, this.cancel), this.progress, this.status, this.result];
    signal.addEventListener("abort", () => clearTimeout(this.timer), { once: true });
  }

  get name() {
    return `${this.model.name}/${this.model.verb}/${this.to.value}`;
  }

  /** Show what was measured before, or is being measured. */
  async resume() {
    const { name } = this, known = jobs.get(name);
    this.reset();
    this.id = known?.id ?? "";
    if (known) {
      this.show(known);
      return this.look();
    }
    this.context.tell(say("trust_lead"), { hint: true });
    const listed = await this.find();
    if (!listed || name !== this.name || this.id) return; // another language was chosen, or a check was begun meanwhile
    this.id = listed.id;
    this.show(listed);
  }

  /** Nothing is measured yet. */
  reset() {
    clearTimeout(this.timer);
    this.result.replaceChildren();
    this.status.textContent = "";
    this.begin.hidden = this.announced = false;
    this.begin.textContent = say("trust_begin");
    this.cancel.hidden = this.progress.hidden = true;
  }

  /** The newest check of this model that the server knows, unless it came to nothing: somebody, or this page before, began it. */
  async find() {
    const { source, signal } = this.context, { model } = this;
    const query = new URLSearchParams({ model: model.name, verb: model.verb, ...(model.languages.length ? { to: this.to.value } : {}) });
    try {
      const { jobs: listed } = await source.get(`/v1/trust?${query}`, { signal });
      return listed.find(({ status }) => [...OPEN, "finished"].includes(status));
    } catch (error) {
      this.report(error);
      return null;
    }
  }

  async ask() {
    const { source, signal } = this.context, { model } = this;
    try {
      const inputs = model.trust?.inputs ? { inputs: await this.readInputs() } : {};
      if (inputs.inputs?.length < FEWEST) return this.say(say("trust_few", { unit: unitOf(model) }));
      const to = model.languages.length ? { to: this.to.value } : {};
      const job = await source.call("/v1/trust", { model: model.name, verb: model.verb, ...to, ...inputs }, { signal });
      this.id = job.id;
      this.show(job);
    } catch (error) {
      this.report(error);
    }
  }

  /** The pictures that were chosen, or the texts that were written, one on each line. */
  async readInputs() {
    if (this.model.reads === "picture") return Promise.all([...this.files.files].map(readPicture));
    return this.texts.value.split("\n").map((line) => line.trim()).filter(Boolean);
  }

  async stop() {
    try {
      await this.context.source.request(`/v1/trust/${encodeURIComponent(this.id)}`, { method: "DELETE" });
      await this.look();
    } catch (error) {
      this.report(error);
    }
  }

  async look() {
    const { source, signal } = this.context, { id } = this;
    try {
      const job = await source.get(`/v1/trust/${encodeURIComponent(id)}`, { signal });
      if (!signal.aborted && id === this.id) this.show(job);
    } catch (error) {
      if (error.status === 404) {
        jobs.delete(this.name);
        this.reset();
      }
      this.report(error);
    }
  }

  report(error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof SourceError)) throw error;
    this.say(error.message);
  }

  say(text) {
    if (this.status.textContent === text) return;
    this.status.textContent = text;
    this.context.tell(text);
  }

  show(job) {
    jobs.set(this.name, job);
    const isOpen = OPEN.includes(job.status), isStale = job.status === "finished" && !job.current, share = job.total ? job.done / job.total : 0;
    this.begin.hidden = isOpen;
    this.begin.textContent = say(job.status === "finished" ? "trust_again" : "trust_begin");
    this.begin.hidden ||= job.status === "finished" && !isStale && !this.model.trust?.inputs; // it would be the same
    this.cancel.hidden = this.progress.hidden = !isOpen;
    this.progress.value = share;
    const examples = Math.max(0, ...job.findings.map((finding) => finding.examples));
    const unit = unitOf(this.model);
    if (job.status === "running") {
      this.status.textContent = say("trust_running", { percent: percent(Math.floor(100 * share) / 100) });
      if (!this.announced) this.context.tell(this.status.textContent);
      this.announced = true; // once: every step would be too much to hear
    } else if (isStale) this.say(say("trust_stale"));
    else this.say(say(`trust_${job.status}`, { n: examples, unit, digest: job.digest.slice(0, 8), reason: job.reason }));
    this.result.replaceChildren(...(job.status === "finished" && !isStale ? [table(job.findings, this.model), ...unmeasured(job.gaps, this.model)] : []));
    clearTimeout(this.timer);
    if (isOpen) this.timer = setTimeout(() => this.look(), PAUSE);
  }
}

function languageName(code) {
  const text = say(`language_${code}`);
  return text === `language_${code}` ? code : text;
}

/** The bytes of a picture as base64, as the routes for pictures read them. */
function readPicture(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new SourceError(422, { reason: file.name }));
    reader.readAsDataURL(file);
  });
}

/** What a model is checked on, in the plural. */
function unitOf(model) {
  return say(model.reads === "picture" ? "unit_pictures" : model.trust?.inputs ? "unit_texts" : "unit_sentences");
}

/** The name of a check; what is left out of a picture are its regions. */
function checkName(check, model) {
  return check === "deletion" && model.reads === "picture" ? "region" : check;
}

/** The name of a method; the gradient of a map is another than that of a word. */
function methodName({ method, check }) {
  return method === "gradient" && !check.startsWith("map") ? "gradient_input" : method;
}

/** A row for every method and check: number, controls, lead, what counts as good, and what it says. A narrow screen shows them as cards. */
function table(findings, model) {
  const head = ["trust_method", "trust_check", "trust_value", "trust_control", "trust_lead_by", "trust_counts", "trust_says"];
  const column = (name) => make("th", { scope: "col", role: "columnheader", class: name === "trust_value" ? false : "words" }, say(name), ...(name === "trust_lead_by" ? [" ", help("interval")] : []));
  const box = make("div", { class: "scroll", role: "region", "aria-label": say("trust_caption") }, make("table", { class: "trust", role: "table" },
    make("caption", {}, say("trust_caption"), make("span", { class: "narrow" }, " ", help("interval"))),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...head.map(column))),
    make("tbody", { role: "rowgroup" }, ...findings.map((finding) => row(finding, model)))));
  new ResizeObserver(() => { box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1; }).observe(box); // only what scrolls is a stop of the Tab key
  return box;
}

/** Two decimals, and no minus before nothing. */
function decimals(value) {
  return number(Math.abs(value) < 0.005 ? 0 : value, 2);
}

/** One method in one check. */
function row(finding, model) {
  const { check, value, controls, lead, low, high, better, good, verdict, examples } = finding, name = checkName(check, model);
  const beside = Object.entries(controls).map(([control, reached]) => say(`control_${control}`, { value: decimals(reached) })).join(", ");
  const says = verdict === "unsure" ? say("says_unsure", { n: examples, unit: unitOf(model) }) : say(`says_${name}_${verdict}`);
  const tone = { good: "good", unsure: false }[verdict] ?? "bad";
  const method = methodName(finding);
  const cell = (label, classes, ...content) => make("td", { role: "cell", class: classes, "data-label": say("labelled", { label: say(label) }) }, ...content);
  return make("tr", { role: "row" },
    make("th", { scope: "row", role: "rowheader" }, say(`method_${method}`), " ", help(method)),
    cell("trust_check", "words", say(`check_${name}`)), cell("trust_value", false, decimals(value)), cell("trust_control", "words", beside),
    cell("trust_lead_by", "lead", say("trust_interval", { lead: decimals(lead), low: decimals(low), high: decimals(high) })),
    cell("trust_counts", "words", say(`counts_${better}`, { good: number(good, 2) })),
    cell("trust_says", "words", make("strong", { class: tone }, say(`verdict_${verdict}`)), ` – ${says}`));
}

/** What cannot be measured, with the reason, a line for each. */
function unmeasured(gaps, model) {
  if (!gaps?.length) return [];
  const lines = gaps.map((gap) => make("li", {}, say("trust_gap", { method: say(`method_${methodName(gap)}`), check: say(`check_${checkName(gap.check, model)}`), reason: say(`reason_${gap.reason}`) })));
  return [make("h3", {}, say("trust_gaps")), make("ul", { id: "trust-gaps" }, ...lines)];
}
