// Every sentence of the page, in English and French.

import { trainingEnglish } from "./strings/training.en.js";
import { trainingFrench } from "./strings/training.fr.js";
import { trustEnglish } from "./strings/trust.en.js";
import { trustFrench } from "./strings/trust.fr.js";

const STRINGS = {
  en: {
    graph: "Neighbourhood", edges: "Edges of this attention, the strongest first",
    one_node: "node {node}",
    edge: "{query} took {percent} ({value}) from {key}, answered as {answer}; an equal share is {equal}.",
    own_edge: "{query} took {percent} ({value}) from itself; an equal share is {equal}.",
    drawn_edges: "{n} of {all} edges of this attention are drawn; a ring around a node is what it took from itself.",
    faint: "Faint lines are edges of the other layers.",
    unnamed: "Names without room are left out: point at a node to read its own.",
    controls_graph: "The same model, looking otherwise", equal_control: "all neighbours weighted alike", none_control: "without neighbours",
    spread_graph: "How evenly it looked", spread: "{node} looked as if at {many} nodes with equal weights, out of {all}.",
    around: "Node {node} and {n} nodes around it; the thicker a line, the more was taken along it",
    rings: "In the middle the node that was asked about, around it those it looked at most, around these the ones they looked at in the layer before.",
    looking_graph: "node", looked_graph: "looked at", weight_graph: "weight", equal_graph: "if equal", answered_graph: "answered", known_graph: "label",
    more_edges: "{n} more edges are in the trace (-o trace.json).", "1 away": "one edge away", "2 away": "two edges away",
    skip: "Skip to the picture",
    motto: "where it looked, not why",
    other: "Français",
    screens: "Screens", controls: "What is shown",
    alignment: "Alignment", heads: "Heads", inside: "Inside one step",
    alignment_alone: "Attention", inside_alone: "Inside one look", image: "Picture",
    paint: "Shown as", light_image: "light", colours_image: "colours", numbers_image: "numbers",
    cam: "CAM", gradcam: "Grad-CAM", rollout: "attention rollout", gradient: "attention weighted by gradients",
    attention_map: "attention of the last block",
    region: "“{query}” gave {percent} to the region in {region} ({value}); an equal share is {equal}.", placed: "row {row}, column {column}",
    region_patch: "The region in {query} gave {percent} to the one in {region} ({value}); an equal share is {equal}.",
    region_asked: "{percent} of what speaks for “{query}” lies in {region} ({value}); an equal share is {equal}.",
    covered: "A picture in {n} regions, brighter where “{word}” looked more",
    covered_asked: "A picture in {n} regions, brighter where more speaks for “{word}”",
    regions: "Arrow keys move from region to region, and in the line above from word to word. “Shown as numbers” is the same in a table.",
    regions_asked: "Arrow keys move from region to region, and in the line above from label to label. “Shown as numbers” is the same in a table.",
    regions_patch: "Arrow keys move from region to region, and in the line above through those that look. “Shown as numbers” is the same in a table.",
    crops: "Boxes: what each spatial transformer cut out; a dot marks the top left of the crop.",
    regional: "What “{word}” gave to each region, as they lie in the picture", corner: "row, column",
    regional_asked: "What speaks for “{word}” in each region, as they lie in the picture",
    answers: "Answers", curve: "If regions go or come, the highest first", deletion: "deletion", insertion: "insertion",
    also: "{one}; {other}", listed: "{name}: {values}", curve_control: "in random orders", curve_area: "on average {area}, in random orders (dashed) {control}",
    curve_ends: "{name}: from {from} to {to}", curve_of: "How probable “{label}” is; regions as ranked by {method}.",
    curve_each: "How probable a word of “{label}” is (geometric mean); regions as ranked by {method}, mean of all words.",
    source: "read", target: "written", fed: "already written", label: "label", asked: "asked about", patches: "patches", nodes: "nodes",
    step_side: "step", place_side: "place", row_side: "rows above", above_side: "row above", left_side: "to the left", omics_side: "omics",
    text: "Read", answer: "Written", answer_alone: "Answer",
    attention: "Attention", head: "Head", mean: "mean of all {n}", only: "the only one", nth: "head {n}",
    level: "Level", word: "words", subword: "subwords",
    specials: "Special tokens", share: "Rows sum to 1", down: "Highest first",
    scale: "Colours", max: "0 to highest", full: "0 to 1", row: "row by row", root: "square root",
    view: "View", matrix: "matrix", ribbon: "ribbons", table: "table",
    sort: "Order", place: "by layer", entropy: "entropy (bits)", diagonality: "diagonality",
    itself: "itself", "previous token": "previous token", "next token": "next token", "first token": "first token",
    "last token": "last token", "rest of its word": "rest of its word", "article to noun": "article to noun",
    "noun to article": "noun to article", "adjective to noun": "adjective to noun", "noun to adjective": "noun to adjective",
    "AER of this sentence": "AER of this sentence", "AER of the diagonal": "AER of the diagonal",
    "AER, mean": "Aligned pairs: AER", "AER, permuted": "Aligned pairs: permuted", "AER, diagonal": "Aligned pairs: diagonal",
    "AER, even": "Aligned pairs: even look",
    kind: "Which", all: "all", token: "Token",
    prompt: "Point at a cell, or use the arrow keys, to read its weight.",
    cell: "“{query}” gave {percent} of its attention to “{key}” ({value}).",
    best: "Its highest weight.",
    unlooked: "“{query}” gave {percent} to special tokens, which are hidden.",
    looked: "Where “{query}” looked",
    hidden: "(special)",
    numbers: "Measured",
    links: "Boxes: links made by hand; solid is sure, dashed is possible.",
    keys: "Arrow keys move, Home and End jump, Enter opens the step. The table view holds the same numbers.",
    keyless: "Arrow keys move, Home and End jump. The table view holds the same numbers.",
    canvas: "Matrix of attention weights: {rows} rows ({queries}), {columns} columns ({keys})",
    caption: "Attention weights of {name}; rows: {queries}, columns: {keys}.",
    gallery: "{n} heads, each with its {measure}. Arrow keys move, Enter opens one.", gallery_one: "{n} head, with its {measure}. Enter opens it.",
    measured: "{measure} {value}",
    picture: "{name} head {n}: {measures}",
    nothing: "Nothing but special tokens: show them to see the weights.",
    stepless: "The vectors were not saved with this trace, so its arithmetic cannot be shown.",
    stepped: "The numbers of one head while it looked from “{token}”.",
    query: "The query of “{token}”", queried: "What it looks for: {n} numbers, projected from the token's vector.",
    queried_label: "What it looks for: {n} numbers, learned in training and the same for every text.",
    scores: "Compared with every key, softmaxed, and used to weight the values",
    scored: "Score: {formula}. The softmax turns scores into weights that sum to 1.",
    key: "token", vector: "key k", raw: "score", scaled: "scaled", bias: "bias", mask: "mask", softmax: "softmax",
    weight: "model's", value: "value v", seen: "visible", masked: "masked",
    sum: "The sum", summed: "Values weighted by the softmax and summed: {n} numbers.",
    output: "The output",
    projected: "The sum after this head's part of the output projection; length {length}.",
    next: "The next token", predicted: "Likeliest tokens after all layers; written: “{token}”, {percent}, rank {rank}.",
    next_label: "The label", predicted_label: "Likeliest labels after all layers; chosen: “{token}”, {percent}, rank {rank}.",
    check: "recomputed in this page = model's to {difference}", exactly: "recomputed in this page = model's exactly",
    differs: "recomputed in this page differs from the model's by {difference}",
    given: "A score this page cannot compute: its numbers are the model's.",
    hover: "{name}[{place}] = {value}", strip: "{name}: {n} numbers from {low} to {high}",
    line: "“{key}”: score {raw}, scaled {scaled}, weight {percent} ({value}).",
    unseen: "“{key}” is masked: its weight is 0.",
    vectors: "All numbers", of: "{name} of “{token}”",
    footer: "This page is self-contained and makes no network requests. Weights show where a head looked; whether that mattered is another question, answered by measures with controls.",
    footer_live: "This page asks only the server that sent it. Weights show where a head looked; whether that mattered is another question, answered by measures with controls.",
    welcome: "Use a model, and see where it looked", empty: "There is nothing to show yet.", asking: "The model is answering …",
    cut: "The text was too long for the address, so the link does not hold it: paste it again.",
    again: "Try again", key_label: "Key", key_use: "Use this key", key_note: "It is kept in this page only, until you close it.",
    error_0: "The server cannot be reached. Nothing is lost: try again when it is back.",
    error_401: "This server wants a key, or does not know this one.", error_404: "The server no longer has this: ask again.",
    error_408: "The request did not arrive in time: try again.", error_413: "This is too large for the server: send less.",
    error_422: "The server cannot use this: {reason}", error_429: "The server is busy: try again in {wait} s.",
    error_500: "The model failed at this. {reason}", error_503: "The server has no room at the moment: try again in {wait} s.",
    error_504: "The answer took too long: try again, or send less.", error_other: "The server refused this ({status}): {reason}",
  },
  fr: {
    graph: "Voisinage", edges: "Arêtes de cette attention, les plus fortes d’abord",
    one_node: "nœud {node}",
    edge: "{query} a pris {percent} ({value}) chez {key}, classé {answer} ; à parts égales, ce serait {equal}.",
    own_edge: "{query} a pris {percent} ({value}) chez lui-même ; à parts égales, ce serait {equal}.",
    drawn_edges: "{n} des {all} arêtes de cette attention sont dessinées ; un anneau autour d’un nœud est ce qu’il a pris chez lui-même.",
    faint: "Les traits pâles sont des arêtes des autres couches.",
    unnamed: "Les noms pour lesquels la place manque sont omis : pointez un nœud pour lire le sien.",
    controls_graph: "Le même modèle, regardant autrement", equal_control: "tous les voisins à parts égales", none_control: "sans voisins",
    spread_graph: "Répartition du regard", spread: "Tout se passe comme si {node} avait regardé {many} nœuds à parts égales, sur {all}.",
    around: "Le nœud {node} et {n} nœuds autour de lui ; plus un trait est épais, plus le nœud a pris par cette arête",
    rings: "Au milieu, le nœud interrogé ; autour, ceux qu’il a le plus regardés ; autour d’eux, ceux qu’ils ont regardés dans la couche précédente.",
    looking_graph: "nœud", looked_graph: "regardé", weight_graph: "poids", equal_graph: "si égal", answered_graph: "réponse", known_graph: "classe connue",
    more_edges: "{n} arêtes de plus sont dans la trace (-o trace.json).", "1 away": "à une arête", "2 away": "à deux arêtes",
    skip: "Aller à l’image",
    motto: "où il a regardé, pas pourquoi",
    other: "English",
    screens: "Écrans", controls: "Ce qui est montré",
    alignment: "Alignement", heads: "Têtes", inside: "Une étape",
    alignment_alone: "Attention", inside_alone: "Un regard", image: "Image",
    paint: "Montré en", light_image: "lumière", colours_image: "couleurs", numbers_image: "nombres",
    cam: "CAM", gradcam: "Grad-CAM", rollout: "déroulement de l’attention", gradient: "attention pondérée par les gradients",
    attention_map: "attention du dernier bloc",
    region: "« {query} » a donné {percent} à la région en {region} ({value}) ; à parts égales, ce serait {equal}.", placed: "ligne {row}, colonne {column}",
    region_patch: "La région en {query} a donné {percent} à celle en {region} ({value}) ; à parts égales, ce serait {equal}.",
    region_asked: "{percent} de ce qui plaide pour « {query} » se trouve en {region} ({value}) ; à parts égales, ce serait {equal}.",
    covered: "Une image en {n} régions, plus claire là où « {word} » a plus regardé",
    covered_asked: "Une image en {n} régions, plus claire là où davantage plaide pour « {word} »",
    regions_asked: "Les flèches vont de région en région, et dans la ligne du dessus d’étiquette en étiquette. « Montré en nombres » dit la même chose en tableau.",
    regions_patch: "Les flèches vont de région en région, et dans la ligne du dessus de l’une à l’autre de celles qui regardent. « Montré en nombres » dit la même chose en tableau.",
    regions: "Les flèches vont de région en région, et dans la ligne du dessus de mot en mot. « Montré en nombres » dit la même chose en tableau.",
    crops: "Cadres : ce que chaque transformeur spatial a découpé ; un point marque le coin supérieur gauche du découpage.",
    regional: "Ce que « {word} » a donné à chaque région, à sa place dans l’image", corner: "ligne, colonne",
    regional_asked: "Ce qui plaide pour « {word} » dans chaque région, à sa place dans l’image",
    also: "{one} ; {other}", listed: "{name} : {values}", curve_control: "dans des ordres tirés au sort", curve_area: "en moyenne {area}, dans des ordres tirés au sort (pointillés) {control}",
    curve_ends: "{name} : de {from} à {to}", curve_of: "Probabilité de « {label} » ; régions classées par : {method}.",
    curve_each: "Probabilité d’un mot de « {label} » (moyenne géométrique) ; régions classées par : {method}, moyenne de tous les mots.",
    answers: "Réponses", curve: "Quand on retire ou ajoute des régions, celles de plus fort poids d’abord", deletion: "suppression", insertion: "insertion",
    source: "lu", target: "écrit", fed: "déjà écrit", label: "étiquette", asked: "demandé", patches: "morceaux d’image", nodes: "nœuds",
    step_side: "pas", place_side: "emplacement", row_side: "lignes du dessus", above_side: "ligne du dessus", left_side: "à gauche", omics_side: "omiques",
    text: "Lu", answer: "Écrit", answer_alone: "Réponse",
    attention: "Attention", head: "Tête", mean: "moyenne des {n}", only: "la seule", nth: "tête {n}",
    level: "Niveau", word: "mots", subword: "sous-mots",
    specials: "Jetons spéciaux", share: "Lignes de somme 1", down: "Le plus haut d’abord",
    scale: "Couleurs", max: "de 0 au plus haut", full: "de 0 à 1", row: "ligne par ligne", root: "racine carrée",
    view: "Vue", matrix: "matrice", ribbon: "rubans", table: "tableau",
    sort: "Ordre", place: "par couche", entropy: "entropie (bits)", diagonality: "diagonalité",
    itself: "lui-même", "previous token": "jeton précédent", "next token": "jeton suivant", "first token": "premier jeton",
    "last token": "dernier jeton", "rest of its word": "reste du mot", "article to noun": "de l’article au nom",
    "noun to article": "du nom à l’article", "adjective to noun": "de l’adjectif au nom", "noun to adjective": "du nom à l’adjectif",
    "AER of this sentence": "AER de cette phrase", "AER of the diagonal": "AER de la diagonale", "AER, mean": "Paires alignées : AER",
    "AER, permuted": "Paires alignées : liens permutés", "AER, diagonal": "Paires alignées : diagonale",
    "AER, even": "Paires alignées : regard égal",
    kind: "Lesquelles", all: "toutes", token: "Jeton",
    prompt: "Pointez une case, ou utilisez les flèches, pour lire son poids.",
    cell: "« {query} » a donné {percent} de son attention à « {key} » ({value}).",
    best: "Son poids le plus fort.",
    unlooked: "« {query} » a donné {percent} aux jetons spéciaux, qui sont cachés.",
    looked: "Où « {query} » a regardé",
    hidden: "(spéciaux)",
    numbers: "Mesuré",
    links: "Cadres : liens faits à la main ; plein, sûr ; tireté, possible.",
    keys: "Les flèches déplacent la sélection, Début et Fin vont au bout de la ligne, Entrée ouvre l’étape. Le tableau contient les mêmes nombres.",
    keyless: "Les flèches déplacent la sélection, Début et Fin vont au bout de la ligne. Le tableau contient les mêmes nombres.",
    canvas: "Matrice de poids d’attention : {rows} lignes ({queries}), {columns} colonnes ({keys})",
    caption: "Poids d’attention de {name} ; lignes : {queries}, colonnes : {keys}.",
    gallery: "{n} têtes, sous chacune : {measure}. Les flèches déplacent la sélection, Entrée en ouvre une.", gallery_one: "{n} tête, dessous : {measure}. Entrée l’ouvre.",
    measured: "{measure} {value}",
    picture: "{name} tête {n} : {measures}",
    nothing: "Rien que des jetons spéciaux : affichez-les pour voir les poids.",
    stepless: "Les vecteurs n’ont pas été enregistrés avec cette trace : son calcul ne peut pas être montré.",
    stepped: "Les nombres d’une tête pendant qu’elle regardait depuis « {token} ».",
    query: "La requête de « {token} »", queried: "Ce qu’elle cherche : {n} nombres, obtenus en projetant le vecteur du jeton.",
    queried_label: "Ce qu’elle cherche : {n} nombres, appris à l’entraînement, les mêmes pour tous les textes.",
    scores: "Comparée à chaque clé, passée au softmax, puis pondérant les valeurs",
    scored: "Score : {formula}. Le softmax change les scores en poids dont la somme est 1.",
    key: "jeton", vector: "clé k", raw: "score", scaled: "réduit", bias: "biais", mask: "masque", softmax: "softmax",
    weight: "du modèle", value: "valeur v", seen: "visible", masked: "masqué",
    sum: "La somme", summed: "Les valeurs pondérées par le softmax et additionnées : {n} nombres.",
    output: "La sortie",
    projected: "La somme après la part de cette tête dans la projection de sortie ; longueur {length}.",
    next: "Le jeton suivant", predicted: "Les jetons les plus probables après toutes les couches ; écrit : « {token} », {percent}, rang {rank}.",
    next_label: "L’étiquette", predicted_label: "Les étiquettes les plus probables après toutes les couches ; choisie : « {token} », {percent}, rang {rank}.",
    check: "recalculé dans cette page = celui du modèle à {difference} près", exactly: "recalculé dans cette page = celui du modèle, exactement",
    differs: "recalculé dans cette page, s’écarte du modèle de {difference}",
    given: "Un score que cette page ne sait pas calculer : ses nombres sont ceux du modèle.",
    hover: "{name}[{place}] = {value}", strip: "{name} : {n} nombres de {low} à {high}",
    line: "« {key} » : score {raw}, réduit {scaled}, poids {percent} ({value}).",
    unseen: "« {key} » est masqué : son poids est 0.",
    vectors: "Tous les nombres", of: "{name} de « {token} »",
    footer: "Cette page est autonome et n’envoie aucune requête. Les poids montrent où une tête a regardé ; savoir si cela a compté est une autre question, à laquelle répondent des mesures avec témoins.",
    footer_live: "Cette page ne s’adresse qu’au serveur qui l’a envoyée. Les poids montrent où une tête a regardé ; savoir si cela a compté est une autre question, à laquelle répondent des mesures avec témoins.",
    welcome: "Utiliser un modèle et voir où il a regardé", empty: "Il n’y a encore rien à montrer.", asking: "Le modèle répond…",
    cut: "Le texte était trop long pour l’adresse : le lien ne le contient pas, collez-le à nouveau.",
    again: "Réessayer", key_label: "Clé", key_use: "Utiliser cette clé", key_note: "Elle ne reste que dans cette page, jusqu’à ce que vous la fermiez.",
    error_0: "Le serveur est injoignable. Rien n’est perdu : réessayez quand il sera revenu.",
    error_401: "Ce serveur demande une clé, ou ne connaît pas celle-ci.", error_404: "Le serveur ne l’a plus : posez à nouveau la question.",
    error_408: "La demande n’est pas arrivée à temps : réessayez.", error_413: "C’est trop grand pour le serveur : envoyez-en moins.",
    error_422: "Le serveur ne peut pas s’en servir : {reason}", error_429: "Le serveur est occupé : réessayez dans {wait} s.",
    error_500: "Le modèle a échoué. {reason}", error_503: "Le serveur n’a pas de place pour l’instant : réessayez dans {wait} s.",
    error_504: "La réponse a pris trop de temps : réessayez, ou envoyez-en moins.", error_other: "Le serveur a refusé ({status}) : {reason}",
  },
};

Object.assign(STRINGS.en, trainingEnglish, trustEnglish);
Object.assign(STRINGS.fr, trainingFrench, trustFrench);

let language = "en";

export const LANGUAGES = Object.keys(STRINGS);

/** The first language of the reader's that the page speaks. */
export function preferred() {
  const asked = document.documentElement.dataset.lang; // in the address of a server's page
  if (LANGUAGES.includes(asked)) return asked;
  const wanted = navigator.languages?.length ? navigator.languages : [navigator.language ?? "en"];
  return wanted.map((name) => name.slice(0, 2).toLowerCase()).find((name) => LANGUAGES.includes(name)) ?? "en";
}

export function speak(name) {
  language = LANGUAGES.includes(name) ? name : "en";
  document.documentElement.lang = language;
  return language;
}

/** The sentence of that name with its gaps filled, in its own form for a case where there is one; a name without a sentence stands for itself. */
export function say(name, gaps = {}, form = "") {
  const text = STRINGS[language][`${name}_${form}`] ?? STRINGS[language][name] ?? name;
  return text.replace(/\{(\w+)\}/g, (whole, gap) => (gap in gaps ? String(gaps[gap]) : whole));
}

export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A number of any size in four figures; large ones grouped, small ones with a power of ten. */
export function shortNumber(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e9)) return value.toLocaleString(language, { notation: "scientific", maximumSignificantDigits: 3 });
  return value.toLocaleString(language, size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}

/** One decimal; what would round to nothing but is something says so. */
export function percent(value) {
  if (value > 0 && value < 0.0005) return `< ${percent(0.001)}`;
  return value.toLocaleString(language, { style: "percent", maximumFractionDigits: 1 });
}
