"""Images to classify: training, use, maps of the evidence, and whether they may be believed."""
