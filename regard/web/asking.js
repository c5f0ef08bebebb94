// Questions to the server: only the newest counts, older ones are cancelled; where the server streams, the answer grows.

const STREAMED = { translate: ["to", "beams"], reply: ["to", "beams"], write: ["temperature", "top_p", "length", "stop", "seed"] };
const SEEDS = 2 ** 31;

/** Options that do not count because there is one answer and it is streamed. */
export const UNSTREAMED = { write: ["samples"] };

/** Asks one question at a time: a new one cancels the one before. */
export class Asker {
  constructor(source) {
    Object.assign(this, { source, controller: null });
  }

  get busy() {
    return this.controller !== null;
  }

  cancel() {
    this.controller?.abort();
    this.controller = null;
  }

  /** The answer to a question, or null if a newer one was asked meanwhile; `onText` is told the text as it grows. */
  async ask(question, { signal, onText }) {
    return this.run(signal, (inner) => answerTo(this.source, question, { signal: inner, onText }));
  }

  /** Run a request under a signal of its own; null if it was cancelled. */
  async run(signal, begin) {
    this.cancel();
    const controller = new AbortController();
    this.controller = controller;
    const stop = () => controller.abort();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const result = await begin(controller.signal);
      return controller.signal.aborted ? null : result;
    } catch (error) {
      if (controller.signal.aborted) return null;
      throw error;
    } finally {
      signal.removeEventListener("abort", stop);
      if (this.controller === controller) this.controller = null;
    }
  }
}

/** Whether the answer grows while it is written. */
export function streams(model, options) {
  const able = STREAMED[model.verb];
  return Boolean(model.streams && able) && Object.keys(options).every((name) => able.includes(name));
}

async function answerTo(source, { model, input, options, lines }, { signal, onText }) {
  if (model.verb === "embed") {
    const { answers } = await source.call("/v1/search", { model: model.name, inputs: [input], texts: lines, options }, { signal });
    return answers[0];
  }
  if (streams(model, options)) return streamed(source, { model, input, options }, { signal, onText });
  const { answers } = await source.call(`/v1/${model.verb}`, { model: model.name, inputs: model.together ? input : wrap(input), options }, { signal });
  return model.together ? { each: answers } : answers[0];
}

/** A list of texts is one input, unless it is said to be. */
export function wrap(input) {
  return Array.isArray(input) ? [input] : input;
}

/** The answer of a model that writes, piece by piece; a text that is continued comes with its beginning. */
async function streamed(source, { model, input, options }, { signal, onText }) {
  const { to, length, ...others } = options;
  const writes = model.verb === "write", begin = writes ? input : "";
  const body = {
    model: to ? `${model.name}:${to}` : model.name, prompt: input, stream: true, ...others,
    ...(writes ? { max_tokens: length ?? model.options.properties.length.default, seed: options.seed ?? Math.floor(Math.random() * SEEDS) } : {}),
  };
  let text = begin, ended = "stop";
  const onData = ({ choices }) => {
    for (const choice of choices) {
      text += choice.text ?? "";
      ended = choice.finish_reason ?? ended;
    }
    onText(text);
  };
  await source.stream("/v1/completions", body, { signal, onData });
  const member = writes ? "text" : model.verb === "translate" ? "translation" : "answer";
  return { [member]: text, ...(ended === "length" && !writes ? { unfinished: 1 } : {}) };
}

/** The answer that a trace tells. */
export function answerOf({ verb }, trace) {
  const member = { translate: "translation", caption: "caption" }[verb] ?? "answer";
  return { [member]: trace.facts.answer };
}

/** The options that an explanation takes, of those that were chosen; it begins with tokens, not with a text. */
function lookOptions(model, options) {
  const known = model.look?.properties ?? {};
  return Object.fromEntries(Object.entries(options).filter(([name]) => name in known && name !== "prefix"));
}

/** What to ask for to see where a model looked while it gave this answer; null where it cannot be shown. */
export function lookQuestion({ model, input, options }, answer) {
  if (!model.can?.includes("explain")) return null;
  const base = { model: model.name, verb: model.verb };
  if (model.verb === "write") return { ...base, input: answer.text, options: { length: 1, temperature: 0 } };
  return { ...base, input: wrap(input), options: lookOptions(model, options) };
}

/** Where a model looked while it gave this answer, or null where it cannot be shown. */
export async function traceAnswer(source, question, answer, { signal }) {
  const asked = lookQuestion(question, answer);
  return asked ? source.explain(asked, { signal }) : null;
}

/** The sentences of a text, as the language it is in separates them. */
export function sentencesOf(text, language) {
  if (!Intl.Segmenter) return [text];
  const segments = [...new Intl.Segmenter(language || undefined, { granularity: "sentence" }).segment(text)];
  return segments.map(({ segment }) => segment.trim()).filter(Boolean);
}
