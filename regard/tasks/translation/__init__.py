"""The translation task: data, training, inference and evaluation."""
