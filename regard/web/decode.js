// The screen of the search: its tree as it was searched; a branch that was left out can be forced, and the search goes on from there.

import { forceTokens, forcedTokens, undoForced } from "./forced.js";
import { make } from "./make.js";
import { describe, explain, findPath, readTree, textOf, tokensOf } from "./search_tree.js";
import { number, say } from "./strings.js";
import { treeTable, treeView } from "./tree_view.js";

const trees = new WeakMap(); // of every trace that is shown: trees by what was forced, and how many beams there were
const WIDTHS = [1, 2, 3, 4, 5, 6, 8, 10];

/** Whether the search of this answer can be shown: it came with the file, or the server's model searches. */
export function canShowTree(context) {
  return Boolean(context.trace && (context.trace.tree || (context.source.live && modelOf(context))));
}

/** Draw the tree of the answer's search. */
export async function drawDecode(section, context) {
  const { state, signal, tell, source } = context, forced = forcedTokens(state);
  const [free, tree] = await Promise.all([searchTree(context, []), searchTree(context, forced)]);
  if (signal.aborted) return;
  const live = source.live, chosen = chosenPlace(tree, state, forced);
  const side = make("aside", {}), box = make("div", { class: "scroll decode-tree" });
  const act = { choose: (place) => choose(place), force: (place) => force(context, tree, place) };
  const view = state.drawn === "table" ? null : treeView(tree, chosen, { pick: (place) => pick(place), hear: (place) => tell(describe(tree, place)) });
  box.append(view ? view.element : treeTable(tree));
  if (!view) {
    box.classList.add("tall");
    for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", say("decode.table")]]) box.setAttribute(name, value);
  }
  section.replaceChildren(toolbar(context, tree), ...verdict(context, free, tree, forced), box, legend(), make("p", { class: "note" }, explain(tree)), side);
  fillSide(side, tree, chosen, live, act);
  if (view && section.dataset.focus === "tree") view.focus(chosen);
  else {
    tell(say("decode.prompt", {}, live ? "live" : ""), { hint: true });
    box.scrollLeft = 0;
  }
  delete section.dataset.focus;

  function choose(place) {
    section.dataset.focus = "tree";
    return context.change({ hypothesis: String(place) });
  }

  /** A click on what was left out forces it; anything else is chosen, to be read. */
  function pick(place) {
    section.dataset.focus = "tree";
    if (live && tree.nodes[place].fate === "pruned") return act.force(place);
    return choose(place);
  }
}

/** Force the search along a hypothesis; what was forced before is in the history, and in the button to undo it. */
function force(context, tree, place) {
  return context.change({ ...forceTokens(context.state, tokensOf(tree, place)), hypothesis: "" }, { step: true });
}

function undo(context) {
  return context.change({ ...undoForced(context.state), hypothesis: "" }, { step: true });
}

function chosenPlace(tree, state, forced) {
  const place = Number(state.hypothesis);
  if (state.hypothesis !== "" && tree.nodes[place]) return place;
  return forced.length ? findPath(tree, forced) : tree.winner;
}

/** The tree of the search that begins with these tokens, asked for once. */
function searchTree(context, forced) {
  const { trace, state, source, signal } = context;
  if (!source.live) return readTree(trace.tree);
  const known = trees.get(trace) ?? trees.set(trace, new Map()).get(trace), name = `${state.beams}/${forced.join(",")}`;
  if (!known.has(name)) {
    const asked = askTree(context, forced, signal);
    known.set(name, asked);
    asked.catch(() => known.delete(name));
  }
  return known.get(name);
}

async function askTree({ trace, state, source, models }, forced, signal) {
  const question = questionOf(trace, state), model = modelOf({ trace, state, models });
  const allowed = model.tree?.properties ?? {}, options = Object.fromEntries(Object.entries(question.options ?? {}).filter(([name]) => name in allowed && name !== "prefix"));
  if (state.beams) options.beams = Number(state.beams);
  if (forced.length) options.prefix = forced;
  const answer = await source.call("/v1/tree", { model: model.name, verb: model.verb, inputs: question.inputs, options }, { signal });
  return readTree(answer.tree);
}

/** What was asked, so that it can be asked again: the trace knows it, or the address does. */
function questionOf(trace, state) {
  if (trace.question) return trace.question;
  return { model: state.model || undefined, verb: state.verb || undefined, inputs: state.input, options: state.options ? JSON.parse(state.options) : {} };
}

/** The served model whose answer is shown, if its search can be seen. */
function modelOf({ trace, state, models }) {
  const { model, verb } = questionOf(trace, state), able = models.filter((one) => one.can.includes("tree"));
  return able.find((one) => one.name === (model ?? trace.model) && (!verb || one.verb === verb));
}

/** Drawing or table, and how many hypotheses are kept. */
function toolbar({ state, change, source, facts }, tree) {
  const views = ["tree", "table"].map((name) => make("button", {
    type: "button", "aria-pressed": String(state.drawn === name), "data-drawn": name, onclick: () => change({ drawn: name }),
  }, say(`decode.${name}_view`)));
  const group = make("div", { class: "scrubber", role: "group", "aria-label": say("decode.view") }, ...views);
  if (!source.live) return make("div", { class: "decode-bar" }, group);
  const most = facts?.limits?.beams ?? 8, current = tree.search.beams;
  const widths = [...new Set([...WIDTHS.filter((n) => n <= most), current])].sort((one, other) => one - other);
  const select = make("select", { name: "beams", onchange: () => change({ beams: select.value, forced: "", before: "", hypothesis: "" }, { step: true }) },
    ...widths.map((n) => make("option", { value: String(n) }, String(n))));
  select.value = String(current);
  return make("div", { class: "decode-bar" }, group, make("label", { class: "field" }, make("span", {}, say("decode.beams")), select));
}

/** The answer that won by itself, and beside it the one that was forced. */
function verdict(context, free, tree, forced) {
  const line = (each, name) => {
    const node = each.nodes[each.winner];
    const gaps = { text: textOf(each, each.winner), total: number(node.total), score: number(node.normalized ?? node.total) };
    return make("li", { "data-verdict": name }, make("b", {}, say(`decode.verdict_${name}`)), " ", say("decode.verdict", gaps));
  };
  if (!forced.length) return [make("ul", { class: "verdict" }, line(free, "won"))];
  const apart = tree.nodes[tree.winner].normalized - free.nodes[free.winner].normalized;
  const words = Math.abs(apart) < 1e-4 ? say("decode.same") : say(apart < 0 ? "decode.lower" : "decode.higher", { n: number(Math.abs(apart)) });
  const buttons = [make("button", { type: "button", class: "undo", onclick: () => undo(context) }, say("decode.undo"))];
  return [make("ul", { class: "verdict" }, line(free, "won"), line(tree, "forced")), make("p", { class: "decode-bar" }, make("span", {}, words), ...buttons)];
}

/** What the shapes of the drawing mean. */
function legend() {
  return make("ul", { class: "tree-legend" }, ...["best", "kept", "ended", "pruned"].map((fate) =>
    make("li", {}, make("i", { class: fate, "aria-hidden": "true" }), say(`decode.fate_${fate}`))));
}

/** The chosen hypothesis in words, with what can be done about it. */
function fillSide(side, tree, place, live, act) {
  const button = live && place && tree.nodes[place].token !== tree.end ? [make("button", { type: "button", class: "force", onclick: () => act.force(place) }, say("decode.force", { text: textOf(tree, place) }))] : [];
  side.replaceChildren(make("h2", {}, say("decode.chosen")), make("p", {}, describe(tree, place)), ...button);
}
