// Sentences of the screen of one step, in French.

export const insideFr = {
  stepless: "Les vecteurs n’ont pas été enregistrés avec cette trace : son calcul ne peut pas être montré.",
  stepped: "Les nombres d’une tête pendant qu’elle regardait depuis « {token} ».", query: "La requête de « {token} »",
  queried: "Ce qu’elle cherche : {n} nombres, obtenus en projetant le vecteur du jeton.",
  queried_label: "Ce qu’elle cherche : {n} nombres, appris à l’entraînement, les mêmes pour tous les textes.",
  scores: "Comparée à chaque clé, passée au softmax, puis pondérant les valeurs",
  scored: "Score : {formula}. Le softmax change les scores en poids dont la somme est 1.", key: "jeton", vector: "clé k", raw: "score",
  scaled: "réduit", bias: "biais", mask: "masque", softmax: "softmax", weight: "du modèle", value: "valeur v", seen: "visible",
  masked: "masqué", sum: "La somme", summed: "Les valeurs pondérées par le softmax et additionnées : {n} nombres.", output: "La sortie",
  projected: "La somme après la part de cette tête dans la projection de sortie ; longueur {length}.", next: "Le jeton suivant",
  predicted: "Les jetons les plus probables après toutes les couches ; écrit : « {token} », {percent}, rang {rank}.",
  next_label: "L’étiquette",
  predicted_label: "Les étiquettes les plus probables après toutes les couches ; choisie : « {token} », {percent}, rang {rank}.",
  check: "recalculé dans cette page = celui du modèle à {difference} près",
  exactly: "recalculé dans cette page = celui du modèle, exactement",
  differs: "recalculé dans cette page, s’écarte du modèle de {difference}",
  given: "Un score que cette page ne sait pas calculer : ses nombres sont ceux du modèle.", hover: "{name}[{place}] = {value}",
  strip: "{name} : {n} nombres de {low} à {high}", line: "« {key} » : score {raw}, réduit {scaled}, poids {percent} ({value}).",
  unseen: "« {key} » est masqué : son poids est 0.", vectors: "Tous les nombres", of: "{name} de « {token} »", token: "Jeton",
};
