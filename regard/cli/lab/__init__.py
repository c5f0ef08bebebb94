"""The commands of the course experiments, each with a line in the list that `regard lab` prints."""

from regard.cli.grammar import group
from regard.cli.lab import language, layers, recurrence, writing

lab = group("Experiments of the courses, no model of yours needed.")
lab.command()(layers.attention)
lab.command()(layers.positions)
lab.command()(layers.norms)
lab.command()(layers.complexity)
lab.command()(layers.pooling)
lab.command()(layers.graph)
lab.command()(recurrence.gradients)
lab.command("by-hand")(recurrence.by_hand)
lab.command()(writing.forcing)
lab.command()(writing.beams)
lab.command()(language.agreement)
lab.command()(language.tokenizers)
