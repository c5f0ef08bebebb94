// Sentences of what stands around every screen, in French.

export const frameFr = {
  skip: "Aller à l’image", motto: "où il a regardé, pas pourquoi", other: "English", screens: "Écrans", controls: "Ce qui est montré",
  alignment: "Alignement", heads: "Têtes", inside: "Une étape", alignment_alone: "Attention", inside_alone: "Un regard", image: "Image",
  source: "lu", target: "écrit", fed: "déjà écrit", label: "étiquette", asked: "demandé", patches: "morceaux d’image", nodes: "nœuds",
  step_side: "pas", place_side: "emplacement", row_side: "lignes du dessus", above_side: "ligne du dessus", left_side: "à gauche",
  omics_side: "omiques", text: "Lu", answer: "Écrit", answer_alone: "Réponse",
  footer: "Cette page est autonome et n’envoie aucune requête. Les poids montrent où une tête a regardé ; savoir si cela a compté est une autre question, à laquelle répondent des mesures avec témoins.",
  footer_live: "Cette page ne s’adresse qu’au serveur qui l’a envoyée. Les poids montrent où une tête a regardé ; savoir si cela a compté est une autre question, à laquelle répondent des mesures avec témoins.",
  welcome: "Utiliser un modèle et voir où il a regardé", empty: "Il n’y a encore rien à montrer.", asking: "Le modèle répond…",
  cut: "Le texte était trop long pour l’adresse : le lien ne le contient pas, collez-le à nouveau.", again: "Réessayer", key_label: "Clé",
  key_use: "Utiliser cette clé", key_note: "Elle ne reste que dans cette page, jusqu’à ce que vous la fermiez.",
  error_0: "Le serveur est injoignable. Rien n’est perdu : réessayez quand il sera revenu.",
  error_401: "Ce serveur demande une clé, ou ne connaît pas celle-ci.", error_404: "Le serveur ne l’a plus : posez à nouveau la question.",
  error_408: "La demande n’est pas arrivée à temps : réessayez.", error_413: "C’est trop grand pour le serveur : envoyez-en moins.",
  error_422: "Le serveur ne peut pas s’en servir : {reason}", error_429: "Le serveur est occupé : réessayez dans {wait} s.",
  error_500: "Le modèle a échoué. {reason}", error_503: "Le serveur n’a pas de place pour l’instant : réessayez dans {wait} s.",
  error_504: "La réponse a pris trop de temps : réessayez, ou envoyez-en moins.", error_other: "Le serveur a refusé ({status}) : {reason}",
  how_shown: "Comment c’est montré", theme_auto: "Couleurs de la page : automatiques", theme_light: "Couleurs de la page : claires",
  theme_dark: "Couleurs de la page : sombres", explain_term: "Qu’est-ce que c’est : {term} ?", export: "Enregistrer en",
  saved: "Enregistré sous {name}.", copy_link: "Copier le lien", copied: "Le lien vers cette vue est copié.",
  copy_by_hand: "Copiez ce lien : {address}",
};
