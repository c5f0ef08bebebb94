// What an attention is called in words; its name in the code stands beside it in small print.

import { make } from "./make.js";
import { say } from "./strings.js";

const MAPS = ["cam", "gradcam", "attention", "rollout", "gradient"];

/** Names of attentions with the words that stand for them; the first pattern that fits counts. */
const PATTERNS = [
  [/^(?:reader\.)?pool(?:\.attention)?$/, () => "pool"],
  [/^(?:step\.)?read$/, () => "memory_read"],
  [/^(?:step\.)?write$/, () => "memory_write"],
  [/^generator\.attention(?:\.attention)?$/, () => "generator"],
  [/^discriminator\.attention(?:\.attention)?$/, () => "discriminator"],
  [/^layers\.\d+$/, () => "neighbours"],
  [/\.cross\.chosen$/, () => "chosen"],
  [/\.cross$/, ({ pictured }) => (pictured ? "cross_picture" : "cross")],
  [/^decoder\.\d+\.attention$/, () => "before"],
  [/^above\.\d*[02468]\.attention$/, () => "above_row"],
  [/^above\.\d*[13579]\.attention$/, () => "above_column"],
  [/^reader\.\d+\.attention$/, () => "regions"],
  [/^encoder\.blocks\.\d+\.attention$/, () => "picture"],
  [/^(?:reader\.)?encoder\.\d+\.attention$/, ({ pictured }) => (pictured ? "picture" : "reading")],
  [/^(?:reader\.)?blocks\.\d+\.attention$/, ({ query, key, pictured }) => {
    if (key === "left") return "left";
    if (key === "fed") return "before";
    if (pictured) return query === "target" ? "pixels" : query === "label" ? "pool" : "picture";
    return "reading";
  }],
];

/** What an attention looks at: the key of its words, or null for a name that no model of ours has. */
function purposeOf(name, trace) {
  const attention = trace?.attentions?.find((candidate) => candidate.name === name) ?? {};
  const pictured = Boolean(trace?.pictures && attention.key in trace.pictures);
  if (MAPS.includes(name) && (attention.query === "asked" || name !== "attention")) return `map_${name}`;
  if (name === "attention") return "omics";
  const fitting = PATTERNS.find(([pattern]) => pattern.test(name));
  return fitting ? fitting[1]({ ...attention, pictured }) : null;
}

/** The name without the numbers of layers: attentions of one kind have it in common. */
export function kindOf(name) {
  return name.replace(/\.\d+/g, "");
}

/** Which layer of its stack it is, in words; nothing for what has no layers. */
function layerOf(name, trace) {
  if (!/\.\d+/.test(name)) return "";
  const stack = (trace?.attentions ?? []).map((attention) => attention.name).filter((other) => kindOf(other) === kindOf(name));
  const place = stack.indexOf(name);
  if (place < 0) return say("names.layer", { n: Number(name.match(/\.(\d+)/)[1]) + 1 });
  if (stack.length === 1) return say("names.only");
  if (place === 0) return say("names.first");
  return place === stack.length - 1 ? say("names.last") : say("names.layer", { n: place + 1 });
}

/** What an attention does, in words: "last layer, looking at the source"; a name that is not known stands for itself. */
export function describe(name, trace) {
  const [, from, to] = name.match(/^(.+) to (.+)$/) ?? [];
  if (from) return say("names.from_to", { from, to });
  const purpose = purposeOf(name, trace);
  if (!purpose) return name;
  const what = say(`names.${purpose}`), layer = layerOf(name, trace);
  if (!layer) return what;
  return say(["reading", "picture", "regions", "above_row", "above_column"].includes(purpose) ? "names.of" : "names.at", { layer, what });
}

/** What all attentions of one kind do, whatever their layer. */
export function describeKind(kind, trace) {
  const member = (trace?.attentions ?? []).find((attention) => kindOf(attention.name) === kind)?.name;
  const purpose = member && purposeOf(member, trace);
  return purpose ? say(`names.${purpose}`) : kind;
}

/** The words, and the name in the code beside them in small print. */
export function named(name, trace) {
  const words = describe(name, trace);
  return make("span", { class: "named" }, words, ...(words === name ? [] : [" ", make("small", { translate: "no" }, name)]));
}
