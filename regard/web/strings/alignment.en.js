// Sentences of the screens of one attention and of all heads, in English.

export const alignmentEn = {
  attention: "Attention", head: "Head", mean: "mean of all {n}", only: "the only one", nth: "head {n}", level: "Level", word: "words",
  subword: "subwords", specials: "Special tokens", share: "Rows sum to 1", down: "Highest first", scale: "Colours", max: "0 to highest",
  full: "0 to 1", row: "row by row", root: "square root", view: "View", matrix: "matrix", ribbon: "ribbons", table: "table", sort: "Order",
  place: "by layer", kind: "Which", all: "all", prompt: "Point at a cell, or use the arrow keys, to read its weight.",
  cell: "“{query}” gave {percent} of its attention to “{key}” ({value}).", best: "Its highest weight.",
  unlooked: "“{query}” gave {percent} to special tokens, which are hidden.", looked: "Where “{query}” looked", hidden: "(special)",
  links: "Boxes: links made by hand; solid is sure, dashed is possible.",
  keys: "Arrow keys move, Home and End jump, Enter opens the step. The table view holds the same numbers.",
  keyless: "Arrow keys move, Home and End jump. The table view holds the same numbers.",
  canvas: "Matrix of attention weights: {rows} rows ({queries}), {columns} columns ({keys})",
  caption: "Attention weights of {name}; rows: {queries}, columns: {keys}.",
  gallery: "{n} heads, each with its {measure}. Arrow keys move, Enter opens one.",
  gallery_one: "{n} head, with its {measure}. Enter opens it.", picture: "{name} head {n}: {measures}",
  nothing: "Nothing but special tokens: show them to see the weights.",
};
