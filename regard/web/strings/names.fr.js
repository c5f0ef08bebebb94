// What attentions are called, in French.

export const namesFr = {
  "names.first": "première couche", "names.layer": "couche {n}", "names.last": "dernière couche", "names.only": "seule couche",
  "names.at": "{layer}, {what}", "names.of": "{what} : {layer}", "names.from_to": "de {from} vers {to}",
  "names.cross": "regard vers la source", "names.cross_picture": "regard vers l’image", "names.chosen": "la région choisie",
  "names.before": "regard vers les mots qui précèdent", "names.pixels": "regard vers les pixels qui précèdent", "names.left": "regard vers la gauche",
  "names.reading": "lecture", "names.picture": "lecture de l’image", "names.regions": "mise en relation des régions",
  "names.above_row": "lignes du dessus, le long de la ligne", "names.above_column": "lignes du dessus, le long de la colonne",
  "names.pool": "ce dont la réponse est tirée", "names.neighbours": "regard vers les voisins",
  "names.memory_read": "lecture dans la mémoire", "names.memory_write": "écriture dans la mémoire",
  "names.generator": "le peintre, regard sur son image", "names.discriminator": "le juge, regard sur l’image",
  "names.omics": "regard d’un type de données vers les autres",
  "names.map_cam": "carte d’activation de la classe (CAM)", "names.map_gradcam": "gradients de la dernière carte (Grad-CAM)",
  "names.map_attention": "attention de la dernière couche", "names.map_rollout": "attention à travers toutes les couches (rollout)",
  "names.map_gradient": "attention pondérée par les gradients",
};
