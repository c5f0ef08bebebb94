// Every screen of the explorer: the module that draws it, and of what it can be drawn.

import { drawAlignment } from "./alignment.js";
import { canShowTree, drawDecode } from "./decode.js";
import { comparable, drawCompare } from "./compare.js";
import { attentionsToPictures, attentionsWithHeads } from "./data.js";
import { drawGraph } from "./graph.js";
import { drawHeads } from "./heads.js";
import { drawImage } from "./image.js";
import { drawInside } from "./inside.js";
import { drawUse } from "./use.js";
import { drawTraining } from "./training.js";
import { drawTrust } from "./trust.js";

const hasWeights = ({ trace }) => Boolean(trace) && (attentionsWithHeads(trace).length > 0 || !attentionsToPictures(trace).length);

/** Screens in their order; the first that fits is shown first. Of graphs and pictures the vectors are often too many to be kept. */
export const SCREENS = {
  training: { draw: drawTraining, fits: ({ source, facts }) => source.live && Boolean(facts?.run) },
  use: { draw: drawUse, fits: ({ source, models, facts }) => source.live && (models.length > 0 || !facts?.run) },
  graph: { draw: drawGraph, fits: ({ trace }) => Boolean(trace?.graph) },
  image: { draw: drawImage, fits: ({ trace }) => Boolean(trace) && attentionsToPictures(trace).length > 0 },
  alignment: { draw: drawAlignment, fits: hasWeights },
  heads: { draw: drawHeads, fits: hasWeights },
  inside: {
    draw: drawInside,
    fits: ({ trace }) => Boolean(trace) && (trace.stepped.length > 0 || !(trace.graph || attentionsToPictures(trace).length)),
  },
  decode: { draw: drawDecode, fits: canShowTree },
  compare: { draw: drawCompare, fits: ({ source, models }) => source.live && comparable(models).length > 0 },
  trust: { draw: drawTrust, fits: ({ source, models }) => source.live && models.length > 0 },
};

/** The screens that draw one answer, as it was given. */
export const OF_ANSWERS = ["graph", "image", "alignment", "heads", "inside"];

/** Names of the screens that have something to show: a function of `{ trace, source, models, facts }`. */
export function screensOf(context) {
  return Object.keys(SCREENS).filter((name) => SCREENS[name].fits(context));
}
