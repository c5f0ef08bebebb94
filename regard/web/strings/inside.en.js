// Sentences of the screen of one step, in English.

export const insideEn = {
  stepless: "The vectors were not saved with this trace, so its arithmetic cannot be shown.",
  stepped: "The numbers of one head while it looked from “{token}”.", query: "The query of “{token}”",
  queried: "What it looks for: {n} numbers, projected from the token's vector.",
  queried_label: "What it looks for: {n} numbers, learned in training and the same for every text.",
  scores: "Compared with every key, softmaxed, and used to weight the values",
  scored: "Score: {formula}. The softmax turns scores into weights that sum to 1.", key: "token", vector: "key k", raw: "score",
  scaled: "scaled", bias: "bias", mask: "mask", softmax: "softmax", weight: "model's", value: "value v", seen: "visible", masked: "masked",
  sum: "The sum", summed: "Values weighted by the softmax and summed: {n} numbers.", output: "The output",
  projected: "The sum after this head's part of the output projection; length {length}.", next: "The next token",
  predicted: "Likeliest tokens after all layers; written: “{token}”, {percent}, rank {rank}.", next_label: "The label",
  predicted_label: "Likeliest labels after all layers; chosen: “{token}”, {percent}, rank {rank}.",
  check: "recomputed in this page = model's to {difference}", exactly: "recomputed in this page = model's exactly",
  differs: "recomputed in this page differs from the model's by {difference}",
  given: "A score this page cannot compute: its numbers are the model's.", hover: "{name}[{place}] = {value}",
  strip: "{name}: {n} numbers from {low} to {high}", line: "“{key}”: score {raw}, scaled {scaled}, weight {percent} ({value}).",
  unseen: "“{key}” is masked: its weight is 0.", vectors: "All numbers", of: "{name} of “{token}”", token: "Token",
};
