// Sentences of the screen of a graph, in French.

export const graphFr = {
  graph: "Voisinage", edges: "Arêtes de cette attention, les plus fortes d’abord", one_node: "nœud {node}",
  edge: "{query} a pris {percent} ({value}) chez {key}, classé {answer} ; à parts égales, ce serait {equal}.",
  own_edge: "{query} a pris {percent} ({value}) chez lui-même ; à parts égales, ce serait {equal}.",
  drawn_edges: "{n} des {all} arêtes de cette attention sont dessinées ; un anneau autour d’un nœud est ce qu’il a pris chez lui-même.",
  faint: "Les traits pâles sont des arêtes des autres couches.",
  unnamed: "Les noms pour lesquels la place manque sont omis : pointez un nœud pour lire le sien.",
  controls_graph: "Le même modèle, regardant autrement", equal_control: "tous les voisins à parts égales", none_control: "sans voisins",
  spread_graph: "Répartition du regard", spread: "Tout se passe comme si {node} avait regardé {many} nœuds à parts égales, sur {all}.",
  around: "Le nœud {node} et {n} nœuds autour de lui ; plus un trait est épais, plus le nœud a pris par cette arête",
  rings: "Au milieu, le nœud interrogé ; autour, ceux qu’il a le plus regardés ; autour d’eux, ceux qu’ils ont regardés dans la couche précédente.",
  looking_graph: "nœud", looked_graph: "regardé", weight_graph: "poids", equal_graph: "si égal", answered_graph: "réponse",
  known_graph: "classe connue", more_edges: "{n} arêtes de plus sont dans la trace (-o trace.json).", "1 away": "à une arête",
  "2 away": "à deux arêtes",
};
