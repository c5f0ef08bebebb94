// Names of models in words: what they do, then what they are called.

import { sayFirst } from "./fields.js";
import { say } from "./strings.js";

/** What a model does, and its name: "Translate · en-fr". */
export function modelTitle(model) {
  return say("use.model_title", { does: sayFirst(`use.verb_${model.task}`, `use.verb_${model.verb}`, model.kind), name: model.name });
}
