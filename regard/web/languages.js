// From which language and into which: the language of what is typed is detected and named; both can be chosen and swapped.

import { unique } from "./fields.js";
import { make } from "./make.js";
import { say } from "./strings.js";

const LEAST = 3; // letters before a language is guessed
const SURE = 20; // percent below which a guess is not named

/** The name of a language in the reader's. */
export function languageName(code) {
  try { return new Intl.DisplayNames([say("lang")], { type: "language" }).of(code); } catch { return code; }
}

/** The two lists of a translator, with what was detected; a model that knows one direction has none. */
export class Languages {
  constructor(model, draft, { source, onChange, onSwap }) {
    Object.assign(this, { model, draft, server: source, onChange, onSwap, codes: model.verb === "translate" ? model.languages ?? [] : [] });
    draft.from ??= "";
    draft.to ??= draft.options?.to ?? "";
    delete draft.options?.to;
    this.element = this.codes.length > 1 ? this.build() : make("span", { hidden: true });
  }

  build() {
    const [from, to] = ["from", "to"].map((side) => {
      const id = unique(side);
      const select = make("select", { id, onchange: () => this.choose(side, select.value) });
      this[`${side}Box`] = select;
      return make("div", { class: "use-field" }, make("label", { for: id }, say(`use.${side}`)), select);
    });
    const swap = make("button", { type: "button", class: "use-swap", "aria-label": say("use.swap"), title: say("use.swap"), onclick: () => this.swap() }, "⇄");
    this.fill();
    return make("div", { class: "use-languages" }, from, swap, to);
  }

  /** Write the lists anew: "detected: English", and what follows from it. */
  fill() {
    if (!this.fromBox) return;
    const guess = this.draft.guess, target = this.target();
    const first = { from: guess ? say("use.detected", { language: languageName(guess) }) : say("use.detect"),
      to: target && !this.draft.to ? say("use.chosen_for", { language: languageName(target) }) : say("use.automatic") };
    for (const side of ["from", "to"]) {
      const listed = [["", first[side]], ...this.codes.map((code) => [code, languageName(code)])];
      this[`${side}Box`].replaceChildren(...listed.map(([value, text]) => make("option", { value }, text)));
      this[`${side}Box`].value = this.draft[side];
    }
  }

  choose(side, code) {
    this.draft[side] = code;
    const other = side === "from" ? "to" : "from";
    if (code && this.draft[other] === code) this.draft[other] = this.codes.find((each) => each !== code) ?? "";
    this.fill();
    this.onChange();
  }

  swap() {
    const from = this.source(), to = this.target();
    Object.assign(this.draft, { from: to ?? "", to: from ?? "" });
    this.fill();
    this.onSwap();
  }

  /** The language of the text: as chosen, or as detected. */
  source() {
    return this.draft.from || this.draft.guess || "";
  }

  /** The language of the answer: as chosen, or the other one where there are two. */
  target() {
    if (this.draft.to) return this.draft.to;
    const from = this.source();
    return this.codes.length === 2 && from ? this.codes.find((code) => code !== from) : "";
  }

  /** What is asked for: nothing, where the model may find out for itself. */
  options() {
    if (this.codes.length < 2) return {};
    const to = this.draft.to || (this.draft.from ? this.target() : "");
    return to ? { to } : {};
  }

  /** Ask which language a text is in; a failure of this small help is no trouble. */
  async detect(text, signal) {
    if (!this.fromBox || text === this.detectedText) return;
    this.detectedText = text;
    this.detecting?.abort();
    if (text.trim().length < LEAST) { this.draft.guess = ""; return this.fill(); }
    this.detecting = new AbortController();
    const { signal: newer } = this.detecting;
    try {
      const [guess] = await this.server.call("/detect", { q: text.slice(0, 1000) }, { signal: newer });
      if (newer.aborted) return;
      this.draft.guess = guess.confidence >= SURE && this.codes.includes(guess.language) ? guess.language : "";
      this.fill();
    } catch { this.detectedText = null; }
  }
}
