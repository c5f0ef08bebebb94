// Sentences of what stands around every screen, in English.

export const frameEn = {
  skip: "Skip to the picture", motto: "where it looked, not why", other: "Français", screens: "Screens", controls: "What is shown",
  alignment: "Alignment", heads: "Heads", inside: "Inside one step", alignment_alone: "Attention", inside_alone: "Inside one look",
  image: "Picture", source: "read", target: "written", fed: "already written", label: "label", asked: "asked about", patches: "patches",
  nodes: "nodes", step_side: "step", place_side: "place", row_side: "rows above", above_side: "row above", left_side: "to the left",
  omics_side: "omics", text: "Read", answer: "Written", answer_alone: "Answer",
  footer: "This page is self-contained and makes no network requests. Weights show where a head looked; whether that mattered is another question, answered by measures with controls.",
  footer_live: "This page asks only the server that sent it. Weights show where a head looked; whether that mattered is another question, answered by measures with controls.",
  welcome: "Use a model, and see where it looked", empty: "There is nothing to show yet.", asking: "The model is answering …",
  cut: "The text was too long for the address, so the link does not hold it: paste it again.", again: "Try again", key_label: "Key",
  key_use: "Use this key", key_note: "It is kept in this page only, until you close it.",
  error_0: "The server cannot be reached. Nothing is lost: try again when it is back.",
  error_401: "This server wants a key, or does not know this one.", error_404: "The server no longer has this: ask again.",
  error_408: "The request did not arrive in time: try again.", error_413: "This is too large for the server: send less.",
  error_422: "The server cannot use this: {reason}", error_429: "The server is busy: try again in {wait} s.",
  error_500: "The model failed at this. {reason}", error_503: "The server has no room at the moment: try again in {wait} s.",
  error_504: "The answer took too long: try again, or send less.", error_other: "The server refused this ({status}): {reason}",
  unprinted: "Only what was in sight is printed: the rest was still being unpacked.",
  how_shown: "How it is shown", theme_auto: "Colours of the page: automatic", theme_light: "Colours of the page: light",
  theme_dark: "Colours of the page: dark", explain_term: "What is this: {term}?", export: "Save as", saved: "Saved as {name}.",
  copy_link: "Copy link", copied: "The link to this view has been copied.", copy_by_hand: "Copy this link: {address}",
};
