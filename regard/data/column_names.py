"""What columns of tables and fields of JSON lines are usually called, in English and French."""

RUNNING_TEXTS = (
    *("text", "texts", "sentence", "review", "content", "body", "comment", "message", "tweet", "post", "document"),
    *("texte", "phrase", "avis", "commentaire", "contenu"),
)
"""What a column of texts is called that hardly ever stands beside another one."""
TEXTS = (
    *RUNNING_TEXTS,
    *("description", "headline", "title", "question", "query", "utterance", "input", "name", "word", "abstract"),
    *("titre", "mot", "nom"),
)
LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "stars", "rating", "score", "topic", "intent"),
    *("emotion", "language", "lang", "tag", "polarity", "stance", "genre", "type", "output", "y"),
    *("classe", "catégorie", "categorie", "étiquette", "etiquette", "note", "langue", "thème", "theme"),
)
PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("text1", "text2")),
    *(("sentence_a", "sentence_b"), ("text_a", "text_b"), ("question1", "question2"), ("question", "passage")),
    *(("question", "sentence"), ("question", "context"), ("query", "passage"), ("query", "document")),
    *(("#1 string", "#2 string"), ("s1", "s2"), ("text", "hypothesis"), ("phrase1", "phrase2")),
)
"""What columns are called that hold the two texts of a pair."""
FIRST_TEXTS = (*TEXTS, "sentence1", "sentence_a", "premise", "source")
SECOND_TEXTS = ("second", "sentence2", "sentence_b", "hypothesis", "text2", "aspect", "response")
VERDICTS = ("gold_label", "entailment_judgment", "quality", "is_duplicate", "entailment", "answer", "paraphrase")
"""What the label of a pair may be called too."""
DEGREES = ("relatedness_score", "similarity", "similarity_score", "score", "relatedness", "degree", "similarité")
"""What a number is called that says how alike the texts of a pair are."""
REFERENCES = (*LABELS, *VERDICTS, "summary", "translation", "reference", "entities")
"""What the column of labels, or of texts that are right, may be called."""
CHOICE_LISTS = (
    *("choices", "endings", "options", "answers", "alternatives", "candidates"),
    *("choix", "réponses", "reponses"),
)
"""What a column is called that holds a list of answers to choose from."""
SOURCES = ("source", "source term", "src", "term", "terme")
TARGETS = ("target", "target term", "tgt", "trg", "translation", "traduction", "cible")
"""What the columns of terms and of their translations are called in a glossary."""
QUESTIONS = ("question", "query")
CONTEXTS = ("context", "passage", "paragraph", "text", "contexte", "texte")
"""What a column is called that holds the text which a question is about."""
PICTURE_FILES = (
    *("path", "file", "filename", "file_name", "image", "picture", "photo", "img"),
    *("chemin", "fichier"),
)
"""What a column of picture files is usually called."""
PICTURE_LABELS = ("label", "class", "category", "classe", "catégorie", "categorie", "étiquette", "etiquette")
"""What the label of a picture is called: of its other columns, any may hold numbers and words."""
CAPTIONS = (
    *("caption", "captions", "text", "sentence", "sentences", "raw", "comment"),
    *("légende", "legende", "légendes", "legendes"),
)
"""What a column is called that says what is in a picture."""
PREMISES = (
    *("article", "passage", "context", "ctx", "story", "premise", "p", "startphrase", "sentence", "goal", "prompt"),
    *("question", "question_stem", "stem", "asks-for"),
)
"""What the columns are called that a choice is made for, in the order in which they are joined."""
RIGHT_CHOICES = (
    *("label", "answer", "answerkey", "answerrightending", "most-plausible-alternative", "gold", "gold_label"),
    *("réponse", "reponse"),
)
"""What a column is called that says which choice is right."""
SAMPLES = (
    *("sample", "samples", "sample_id", "id", "name", "patient", "patient_id"),
    *("échantillon", "echantillon", "nom"),
)
"""What a column is called that names samples or patients."""
