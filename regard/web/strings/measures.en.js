// Sentences of what is measured, in English.

export const measuresEn = {
  entropy: "entropy (bits)", diagonality: "diagonality", itself: "itself", "previous token": "previous token", "next token": "next token",
  "first token": "first token", "last token": "last token", "rest of its word": "rest of its word", "article to noun": "article to noun",
  "noun to article": "noun to article", "adjective to noun": "adjective to noun", "noun to adjective": "noun to adjective",
  "pronoun to noun": "pronoun to noun",
  "AER of this sentence": "AER of this sentence", "AER of the diagonal": "AER of the diagonal", "AER, mean": "Aligned pairs: AER",
  "AER, permuted": "Aligned pairs: permuted", "AER, diagonal": "Aligned pairs: diagonal", "AER, even": "Aligned pairs: even look",
  numbers: "Measured", measured: "{measure} {value}", silenced: "effect when silenced", beside: "{value} (control {control})",
  aligns: "These looks find the right words better than their controls do: {value} wrong or missing links against {control} at best; 0 would be perfect.",
  aligns_not: "These looks find the right words no better than their controls do: {value} wrong or missing links against {control}. Do not read them as an alignment.",
};
