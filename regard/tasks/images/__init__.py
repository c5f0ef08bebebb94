"""Image classification: training, prediction, maps of the evidence, and checks of these maps."""
