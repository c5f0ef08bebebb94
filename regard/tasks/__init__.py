"""Where data, model, objective, decoding and metric meet; this literal dict is the whole registry."""

from regard.tasks.translation import Translation
from regard.tasks.translator import Translator

TASKS = {
    "translation": (Translation, Translator),
}
