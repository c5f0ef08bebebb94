// The neighbours of a node by how much it looked at each; choosing one asks about it.

import { candidate } from "./answers.js";
import { weightsOf } from "./data.js";
import { make } from "./make.js";
import { percent, say } from "./strings.js";

const LISTED = 8;

/** A list of the neighbours that the node asked about looked at most. */
export async function neighboursView(context, { ask }) {
  const { trace } = context, attention = trace.attentions.find(({ query }) => query === "asked") ?? trace.attentions[trace.first];
  const weights = await weightsOf(context, attention, "mean");
  const asked = trace.items[attention.query][0].text;
  const entries = trace.items[attention.key].map(({ text }, n) => ({ text, share: weights[n] })).sort((one, other) => other.share - one.share).slice(0, LISTED);
  const rows = entries.map(({ text, share }) => candidate(text, share, () => ask(text), { title: say("use.ask_node", { node: text }) }));
  return make("div", {}, make("h3", {}, say("use.neighbours", { node: asked })), make("ul", { class: "use-candidates" }, ...rows),
    make("p", { class: "note" }, say("use.equal_node", { equal: percent(1 / trace.items[attention.key].length) })));
}
