"""Prompting: a language model does a task that it was not trained for, given a template and no training."""
