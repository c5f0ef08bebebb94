// The screen of a run: how it stands in words, its curves, its answers over time, and where it looked at each evaluation.

import { curveFigure } from "./curves.js";
import { evaluationSlider } from "./evaluations.js";
import { make } from "./make.js";
import { sampleHistory } from "./run_samples.js";
import { SourceError } from "./source.js";
import { say, shortNumber } from "./strings.js";

const SOON = 2000, LATER = 10000; // milliseconds until the next look at a run that trains, and at one that does not
const ACTIVE = ["running", "preparing"];
const OTHERS = ["loss", "seconds"];

/** Fill the section with the run of this server, and keep it up to date until the screen is left. */
export async function drawTraining(section, context) {
  const { source, signal } = context;
  const run = await source.get("/v1/run", { signal });
  if (signal.aborted) return;
  const parts = build(context);
  section.replaceChildren(...parts.elements);
  let said = "";
  const show = async (latest) => {
    if (said === "") context.tell(say("run_hint"), { hint: true });
    else if (latest.state.state !== said) context.tell(describeState(latest)); // each step would be too much to hear
    said = latest.state.state;
    await parts.update(latest);
  };
  await show(run);
  watch(context, run, parts, show);
}

/** Look at the run again and again; a lost connection is said, and is no reason to give up. */
function watch(context, first, parts, show) {
  const { source, signal } = context;
  let latest = first, wait = ACTIVE.includes(first.state.state) ? SOON : LATER;
  const look = async () => {
    if (signal.aborted) return;
    try {
      latest = await source.get("/v1/run", { signal });
      parts.lost(null);
      if (!document.hidden) await show(latest);
      wait = ACTIVE.includes(latest.state.state) ? SOON : LATER;
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (!(error instanceof SourceError)) throw error;
      parts.lost(error, latest);
    }
    schedule();
  };
  const schedule = () => {
    const timer = setTimeout(look, wait);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  };
  schedule();
}

/** How a run stands, in one sentence. */
export function describeState({ name, state }) {
  const gaps = { name, step: shortNumber(state.step), steps: shortNumber(state.steps ?? 0), reason: state.reason };
  const open = state.state === "running" && !state.steps ? "open" : "";
  const known = say(`run_${state.state}`, gaps, open);
  return known === `run_${state.state}` ? say("run_unknown", gaps) : known;
}

/** What else is to be said of it: how it ended, what is best, what was lost. */
function detailsOf({ state }) {
  const details = [];
  if (state.state === "finished" && ["steps", "seconds", "patience"].includes(state.reason)) details.push(say(`end_${state.reason}`));
  const scores = Object.entries(state.best).filter(([, value]) => Number.isFinite(value)).map(([name, value]) => `${name} ${shortNumber(value)}`);
  if (scores.length) details.push(say("run_best", { step: shortNumber(state.best_step ?? 0), scores: scores.join(", ") }));
  if (state.resumed) details.push(say(state.resumed === 1 ? "run_resumed_one" : "run_resumed", { n: state.resumed, from: shortNumber(state.resumed_from ?? 0) }));
  if (state.damaged.length) details.push(say("run_damaged", { names: state.damaged.join(", ") }));
  if (state.faults.skipped) details.push(say("run_skipped", { n: state.faults.skipped }));
  if (state.unreadable) details.push(say("run_unreadable", { n: state.unreadable }));
  return details;
}

/** Everything of the screen, made once; `update` writes into it. */
function build(context) {
  const title = make("h2", {}), state = make("p", { id: "state" }), details = make("ul", { class: "facts" }), trouble = make("p", { class: "bad", hidden: true });
  const progress = make("progress", { max: 1, hidden: true });
  const curves = curveParts(context), slider = evaluationSlider(context), samples = sampleHistory(context);
  const table = make("details", { id: "run-numbers" }, make("summary", {}, say("numbers_title"))), log = make("pre", { tabindex: "0" });
  const settings = make("pre", { tabindex: "0" });
  let latest = null;
  const fill = () => { if (table.open && latest) table.replaceChildren(table.firstChild, numberTable(latest, context.state.score)); };
  table.addEventListener("toggle", fill);
  const elements = [
    title, state, progress, trouble, details, ...slider.elements, ...curves.elements, table, ...samples.elements,
    make("details", {}, make("summary", {}, say("log_title")), log), make("details", {}, make("summary", {}, say("settings_title")), settings),
  ];
  const update = async (run) => {
    latest = run;
    title.textContent = say("run_title", { name: run.name });
    state.textContent = describeState(run);
    state.className = ["killed", "failed"].includes(run.state.state) ? "bad" : "";
    details.replaceChildren(...detailsOf(run).map((text) => make("li", {}, text)));
    progress.hidden = run.state.state !== "running" || !run.state.steps;
    progress.value = run.state.steps ? run.state.step / run.state.steps : 0;
    progress.setAttribute("aria-label", describeState(run));
    log.textContent = run.log.join("\n");
    settings.textContent = flatten(run.settings).join("\n");
    curves.update(run);
    fill();
    samples.update(run);
    await slider.update(run);
  };
  const lost = (error, run) => {
    trouble.hidden = !error;
    if (!error || trouble.textContent) return;
    const time = new Date().toLocaleTimeString(context.state.lang);
    trouble.textContent = `${say("run_lost", { time })} ${say("run_ended", { name: run.name })}`;
    context.tell(trouble.textContent);
  };
  return { elements, update, lost: (error, run) => { if (!error) trouble.textContent = ""; lost(error, run); } };
}

/** Names and values of all settings, one in a line. */
function flatten(settings, before = "") {
  return Object.entries(settings).flatMap(([name, value]) => {
    const isSection = value && typeof value === "object" && !Array.isArray(value);
    return isSection ? flatten(value, `${before}${name}.`) : [`${before}${name} = ${JSON.stringify(value)}`];
  });
}

/** Points of a measurement, without the evaluations that lack it. */
function pointsOf(curves, kind, name) {
  const table = curves[kind];
  if (!table?.values[name]) return [];
  return table.step.map((step, n) => [step, table.values[name][n]]).filter(([, value]) => value !== null);
}

const names = (curves, kind) => Object.keys(curves[kind]?.values ?? {});
const lossOf = (curves) => names(curves, "training").find((name) => name === "loss" || name.endsWith("_loss")) ?? "loss";
const speedOf = (curves) => names(curves, "training").find((name) => name.endsWith("_per_second"));

/** The score that is shown: the chosen one, else the one that chooses the best weights, else the first. */
function scoreOf({ curves, goal }, chosen) {
  const scores = names(curves, "evaluation").filter((name) => !OTHERS.includes(name));
  return { scores, score: [chosen, goal].find((name) => scores.includes(name)) ?? scores[0] ?? "" };
}

/** Four curves, and the choice of the score. */
function curveParts(context) {
  const { state, change } = context;
  const loss = curveFigure(), score = curveFigure(), rate = curveFigure(), speed = curveFigure();
  const select = make("select", { name: "score", onchange: () => change({ score: select.value }) });
  const label = make("label", { class: "field" }, make("span", {}, say("which_score")), select);
  const grid = make("div", { class: "curves" }, ...[loss, score, rate, speed].map((one) => one.figure));
  const update = (run) => {
    const { curves } = run, { scores, score: shown } = scoreOf(run, state.score), unit = speedOf(curves);
    if (select.options.length !== scores.length) select.replaceChildren(...scores.map((name) => make("option", { value: name }, name)));
    select.value = shown;
    label.hidden = scores.length < 2;
    const thinned = (kind) => {
      const all = curves[kind]?.of ?? 0, drawn = curves[kind]?.step.length ?? 0;
      return all > drawn ? say("curve_thinned", { shown: drawn, all: shortNumber(all) }) : null;
    };
    loss.update(say("loss_title"), [
      { name: say("loss_training"), points: pointsOf(curves, "training", lossOf(curves)) }, { name: say("loss_validation"), points: pointsOf(curves, "evaluation", "loss") },
    ], thinned("training"));
    score.update(say("score_title", { name: shown }), [{ name: shown, points: pointsOf(curves, "evaluation", shown) }], thinned("evaluation"));
    rate.update(say("rate_title"), [{ name: say("rate_title"), points: pointsOf(curves, "training", "rate") }]);
    speed.figure.hidden = !unit;
    if (unit) speed.update(speedTitle(unit), [{ name: speedTitle(unit), points: pointsOf(curves, "training", unit) }]);
  };
  return { elements: [label, grid], update };
}

/** The speed in words: the unit that is counted stands in the name of the measurement. */
function speedTitle(measurement) {
  const unit = measurement.replace("_per_second", ""), name = `unit_${unit}`, words = say(name);
  return say("speed_title", { unit: words === name ? unit : words });
}

/** All drawn numbers by step. */
function numberTable({ curves }, chosen) {
  const { score } = scoreOf({ curves }, chosen), unit = speedOf(curves);
  const columns = [
    [`${say("loss_title").split(/ ?:/)[0]}, ${say("loss_training")}`, pointsOf(curves, "training", lossOf(curves))],
    [`${say("loss_title").split(/ ?:/)[0]}, ${say("loss_validation")}`, pointsOf(curves, "evaluation", "loss")],
    [score, pointsOf(curves, "evaluation", score)], [say("rate_title"), pointsOf(curves, "training", "rate")],
    ...(unit ? [[speedTitle(unit), pointsOf(curves, "training", unit)]] : []),
  ].filter(([, points]) => points.length).map(([name, points]) => [name, new Map(points)]);
  const steps = [...new Set(columns.flatMap(([, points]) => [...points.keys()]))].sort((a, b) => b - a);
  return make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": say("numbers_caption") }, make("table", {},
    make("caption", {}, say("numbers_caption")),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, say("curve_step")), ...columns.map(([name]) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...steps.map((step) => make("tr", {}, make("th", { scope: "row" }, String(step)),
      ...columns.map(([, points]) => make("td", {}, points.has(step) ? shortNumber(points.get(step)) : "")))))));
}
