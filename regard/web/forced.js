// What an answer is forced to begin with, as the address names it: ids of tokens, and what was forced before them, for the way back.

const NOTHING = "-"; // in the list of what was forced before

/** The ids of the tokens that the answer in the address begins with. */
export function forcedTokens({ forced }) {
  return (forced ?? "").split(",").filter((part) => /^\d+$/.test(part)).map(Number);
}

/** The changes of the state that force these tokens. */
export function forceTokens(state, tokens) {
  return { forced: tokens.join(","), before: [...list(state), state.forced || NOTHING].join(";") };
}

/** The changes of the state that bring back what was forced before. */
export function undoForced(state) {
  const earlier = list(state), last = earlier.at(-1) ?? NOTHING;
  return { forced: last === NOTHING ? "" : last, before: earlier.slice(0, -1).join(";") };
}

function list({ before }) {
  return before ? before.split(";") : [];
}

/** Whether the answers of a model can be made to begin with given tokens while it is watched. */
export function canForce(model) {
  return Boolean(model?.look?.properties?.prefix);
}
