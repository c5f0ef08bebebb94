// Sentences of the screens of one attention and of all heads, in English.

export const alignmentEn = {
  attention: "Attention", head: "Head", mean: "mean of all {n}", only: "the only one", nth: "head {n}", level: "Level", word: "words",
  subword: "pieces", specials: "Special tokens", share: "Rows sum to 1", down: "Highest first", scale: "Colours", max: "0 to highest",
  full: "0 to 1", row: "row by row", root: "square root", view: "View", matrix: "matrix", ribbon: "ribbons", table: "table", sort: "Order",
  place: "by layer", kind: "Which", all: "all", prompt: "Point at a cell, or use the arrow keys, to read its weight.",
  cell: "“{query}” gave {percent} of its attention to “{key}” ({value}).", best: "Its highest weight.", looked: "Where “{query}” looked",
  hidden: "(out of sight)", links: "Boxes: links made by hand; solid is sure, dashed is possible.",
  keys: "Arrow keys move, Home and End jump, Enter opens the step, o opens a word into its parts, + and − change the size (or Ctrl and the wheel, or two fingers). The table view holds the same numbers.",
  keyless: "Arrow keys move, Home and End jump, o opens a word into its parts, + and − change the size (or Ctrl and the wheel, or two fingers). The table view holds the same numbers.",
  canvas: "Matrix of attention weights: {rows} rows ({queries}), {columns} columns ({keys})",
  caption: "Attention weights of {name}; rows: {queries}, columns: {keys}.", gallery: "{n} heads. Arrow keys move, Enter opens one.",
  gallery_one: "{n} head. Enter opens it.", picture: "{name} head {n}: {measures}",
  nothing: "Nothing but special tokens: show them to see the weights.", part: "parts of words", auto: "automatic",
  unfold: "Open “{word}” into its parts", fold: "Close “{word}” again", zoom: "Size of the cells", smaller: "Smaller", larger: "Larger",
  whole: "All in sight", readable: "Words readable", masked_cell: "masked",
  masked_pair: "“{query}” could not look at “{key}”: it comes later.", link: "“{query}” at “{key}” {percent}",
  strongest: "Strongest looks: {links}.", over: "Several heads over one another (up to four)", sentences: "Sentences",
  all_sentences: "All {n} sentences", one_sentence: "Sentence {n} of {all}", by_sentence: "One by one", together: "All together",
  sentence_before: "Sentence before", sentence_after: "Next sentence", row_top: "the highest of its row", hatched: "could not be looked at",
  heads_missing: "{n} of {all} heads are not printed: they were never in sight. Scroll to them before you print.",
  below_each: "Below each picture: {measure}.",
};
