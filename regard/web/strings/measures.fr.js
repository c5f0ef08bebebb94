// Sentences of what is measured, in French.

export const measuresFr = {
  entropy: "entropie (bits)", diagonality: "diagonalité", itself: "lui-même", "previous token": "jeton précédent",
  "next token": "jeton suivant", "first token": "premier jeton", "last token": "dernier jeton", "rest of its word": "reste du mot",
  "article to noun": "de l’article au nom", "noun to article": "du nom à l’article", "adjective to noun": "de l’adjectif au nom",
  "noun to adjective": "du nom à l’adjectif", "pronoun to noun": "du pronom au nom", "AER of this sentence": "AER de cette phrase", "AER of the diagonal": "AER de la diagonale",
  "AER, mean": "Paires alignées : AER", "AER, permuted": "Paires alignées : liens permutés", "AER, diagonal": "Paires alignées : diagonale",
  "AER, even": "Paires alignées : regard égal", numbers: "Mesuré", measured: "{measure} {value}", silenced: "effet du silence",
  beside: "{value} (témoin {control})",
  aligns: "Ces regards trouvent les bons mots mieux que leurs témoins : {value} de liens faux ou manquants contre {control} au mieux ; 0 serait parfait.",
  aligns_not: "Ces regards ne trouvent pas les bons mots mieux que leurs témoins : {value} de liens faux ou manquants contre {control}. Ne les lisez pas comme un alignement.",
};
