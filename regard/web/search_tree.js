// A search as data: how its hypotheses hang together, where each stands, and what it says in words.

import { number, say } from "./strings.js";

/** A tree from JSON with what its drawing and table need: children, rows, the hypothesis that won. */
export function readTree(plain) {
  const nodes = plain.nodes.map((node, place) => ({ ...node, place, children: [], row: 0 }));
  const counts = [];
  for (const node of nodes) {
    node.row = counts[node.step] ?? 0; // its place in the ranking of its round
    counts[node.step] = node.row + 1;
    if (node.parent >= 0) nodes[node.parent].children.push(node.place);
  }
  return { ...plain, nodes, counts, steps: counts.length - 1, rows: Math.max(...counts), winner: plain.answers[0] ?? 0 };
}

/** The places of the hypotheses that lead to one, itself included, without the root. */
export function pathOf(tree, place) {
  const places = [];
  for (let at = place; at > 0; at = tree.nodes[at].parent) places.push(at);
  return places.reverse();
}

/** The ids of the tokens of a hypothesis, by which it can be forced. */
export function tokensOf(tree, place) {
  return pathOf(tree, place).map((at) => tree.nodes[at].token);
}

/** The hypothesis with these tokens, or the longest beginning of it that the tree has. */
export function findPath(tree, tokens) {
  let at = 0;
  for (const token of tokens) {
    const next = tree.nodes[at].children.find((child) => tree.nodes[child].token === token);
    if (next === undefined) return at;
    at = next;
  }
  return at;
}

/** A token as it reads: white space is not seen, and the end has a name. */
export function spell(tree, node) {
  if (!node.place) return say("decode.start");
  return node.token === tree.end ? say("decode.end") : node.text.trim() || "␣";
}

/** The text of a hypothesis. */
export function textOf(tree, place) {
  const nodes = pathOf(tree, place).map((at) => tree.nodes[at]);
  return nodes.map((node) => (node.token === tree.end ? ` ${say("decode.end")}` : node.text)).join("").trim() || say("decode.start");
}

/** What became of a hypothesis: won, kept, pruned or ended. */
export function fateOf(node) {
  return node.is_best ? "best" : node.fate;
}

/** A hypothesis in a sentence. */
export function describe(tree, place) {
  const node = tree.nodes[place];
  if (!place) return say("decode.root", { n: tree.nodes[0].children.length });
  const ranked = node.normalized === undefined ? "" : ` ${say("decode.ranked", { score: number(node.normalized) })}`;
  const gaps = { step: node.step, token: spell(tree, node), text: textOf(tree, place), total: number(node.total), gain: number(node.log_probability) };
  return `${say("decode.node", gaps)}${ranked} ${say(`decode.fate_${fateOf(node)}`)}`;
}

/** How the search went and how answers are ranked, in words. */
export function explain(tree) {
  const { beams, length_penalty: penalty } = tree.search, ended = tree.nodes.filter((node) => node.fate === "ended").length;
  const rule = penalty === 0 ? "none" : penalty === 1 ? "mean" : penalty > 0 ? "some" : "short";
  const forced = tree.prefix.length ? [say("decode.forced", { n: tree.prefix.length })] : [];
  return [say("decode.went", { beams, steps: tree.steps, ended }, beams === 1 ? "one" : ""), ...forced, say(`decode.penalty_${rule}`, { power: number(penalty, 1) })].join(" ");
}
