// Sentences of the screen of a picture, in French.

export const imageFr = {
  paint: "Montré en", light_image: "lumière", colours_image: "couleurs", numbers_image: "nombres", cam: "CAM", gradcam: "Grad-CAM",
  rollout: "déroulement de l’attention", gradient: "attention pondérée par les gradients", attention_map: "attention du dernier bloc",
  region: "« {query} » a donné {percent} à la région en {region} ({value}) ; à parts égales, ce serait {equal}.",
  placed: "ligne {row}, colonne {column}",
  region_patch: "La région en {query} a donné {percent} à celle en {region} ({value}) ; à parts égales, ce serait {equal}.",
  region_asked: "{percent} de ce qui plaide pour « {query} » se trouve en {region} ({value}) ; à parts égales, ce serait {equal}.",
  covered: "Une image en {n} régions, plus claire là où « {word} » a plus regardé",
  covered_asked: "Une image en {n} régions, plus claire là où davantage plaide pour « {word} »",
  regions: "Les flèches vont de région en région, et dans la ligne du dessus de mot en mot. « Montré en nombres » dit la même chose en tableau.",
  regions_asked: "Les flèches vont de région en région, et dans la ligne du dessus d’étiquette en étiquette. « Montré en nombres » dit la même chose en tableau.",
  regions_patch: "Les flèches vont de région en région, et dans la ligne du dessus de l’une à l’autre de celles qui regardent. « Montré en nombres » dit la même chose en tableau.",
  crops: "Cadres : ce que chaque transformeur spatial a découpé ; un point marque le coin supérieur gauche du découpage.",
  regional: "Ce que « {word} » a donné à chaque région, à sa place dans l’image", corner: "ligne, colonne",
  regional_asked: "Ce qui plaide pour « {word} » dans chaque région, à sa place dans l’image", answers: "Réponses",
  curve: "Quand on retire ou ajoute des régions, celles de plus fort poids d’abord", deletion: "suppression", insertion: "insertion",
  also: "{one} ; {other}", listed: "{name} : {values}", curve_control: "dans des ordres tirés au sort",
  curve_area: "en moyenne {area}, dans des ordres tirés au sort (pointillés) {control}", curve_ends: "{name} : de {from} à {to}",
  curve_of: "Probabilité de « {label} » ; régions classées par : {method}.",
  curve_each: "Probabilité d’un mot de « {label} » (moyenne géométrique) ; régions classées par : {method}, moyenne de tous les mots.",
};
