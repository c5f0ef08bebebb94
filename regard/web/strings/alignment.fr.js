// Sentences of the screens of one attention and of all heads, in French.

export const alignmentFr = {
  attention: "Attention", head: "Tête", mean: "moyenne des {n}", only: "la seule", nth: "tête {n}", level: "Niveau", word: "mots",
  subword: "sous-mots", specials: "Jetons spéciaux", share: "Lignes de somme 1", down: "Le plus haut d’abord", scale: "Couleurs",
  max: "de 0 au plus haut", full: "de 0 à 1", row: "ligne par ligne", root: "racine carrée", view: "Vue", matrix: "matrice",
  ribbon: "rubans", table: "tableau", sort: "Ordre", place: "par couche", kind: "Lesquelles", all: "toutes",
  prompt: "Pointez une case, ou utilisez les flèches, pour lire son poids.",
  cell: "« {query} » a donné {percent} de son attention à « {key} » ({value}).", best: "Son poids le plus fort.",
  unlooked: "« {query} » a donné {percent} aux jetons spéciaux, qui sont cachés.", looked: "Où « {query} » a regardé", hidden: "(spéciaux)",
  links: "Cadres : liens faits à la main ; plein, sûr ; tireté, possible.",
  keys: "Les flèches déplacent la sélection, Début et Fin vont au bout de la ligne, Entrée ouvre l’étape. Le tableau contient les mêmes nombres.",
  keyless: "Les flèches déplacent la sélection, Début et Fin vont au bout de la ligne. Le tableau contient les mêmes nombres.",
  canvas: "Matrice de poids d’attention : {rows} lignes ({queries}), {columns} colonnes ({keys})",
  caption: "Poids d’attention de {name} ; lignes : {queries}, colonnes : {keys}.",
  gallery: "{n} têtes, sous chacune : {measure}. Les flèches déplacent la sélection, Entrée en ouvre une.",
  gallery_one: "{n} tête, dessous : {measure}. Entrée l’ouvre.", picture: "{name} tête {n} : {measures}",
  nothing: "Rien que des jetons spéciaux : affichez-les pour voir les poids.",
};
