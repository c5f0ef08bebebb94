// What a run answered to its samples, evaluation by evaluation: what stays the same above, what changes in a table.

import { make } from "./make.js";
import { say } from "./strings.js";

/** A heading, the choice of a sample, and its answers over time. */
export function sampleHistory({ state, change }) {
  const heading = make("h2", {}, say("samples_title")), none = make("p", { class: "note" }, say("samples_none"));
  const fixed = make("dl", { class: "sample" }), table = make("table", {});
  const select = make("select", { name: "sample", onchange: () => change({ sample: select.value }) });
  const label = make("label", { class: "field" }, make("span", {}, say("samples_example")), select);
  const scroll = make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": say("samples_title") }, table);
  const update = ({ samples }) => {
    const listed = samples.filter(({ answers }) => answers.length).reverse(), count = listed[0]?.answers.length ?? 0;
    none.hidden = count > 0;
    for (const part of [label, fixed, scroll]) part.hidden = !count;
    if (!count) return;
    const chosen = Number(state.sample) < count ? Number(state.sample) : 0;
    if (select.options.length !== count) select.replaceChildren(...listed[0].answers.map((_, n) => make("option", { value: n }, String(n + 1))));
    select.value = String(chosen);
    label.hidden = count < 2;
    fill(fixed, table, listed.map(({ step, answers }) => [step, answers[chosen] ?? {}]));
  };
  return { elements: [heading, none, label, fixed, scroll], update };
}

/** The name of a part of a sample, in words where there are any. */
function partName(name) {
  const text = say(`f_${name}`);
  return text === `f_${name}` ? name : text;
}

function fill(fixed, table, rows) {
  const names = [...new Set(rows.flatMap(([, sample]) => Object.keys(sample)))];
  const changes = names.filter((name) => name === "answer" || new Set(rows.map(([, sample]) => sample[name])).size > 1);
  const varying = changes.length ? changes : names.slice(-1), same = names.filter((name) => !varying.includes(name));
  fixed.replaceChildren(...same.flatMap((name) => [make("dt", {}, partName(name)), make("dd", { dir: "auto" }, rows[0][1][name] ?? "")]));
  table.replaceChildren(
    make("caption", {}, say("samples_caption")),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, say("curve_step")), ...varying.map((name) => make("th", { scope: "col", class: "words" }, partName(name))))),
    make("tbody", {}, ...rows.map(([step, sample]) => make("tr", {}, make("th", { scope: "row" }, String(step)),
      ...varying.map((name) => make("td", { class: "words", dir: "auto" }, sample[name] ?? ""))))),
  );
}
