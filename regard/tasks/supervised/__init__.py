"""What tasks share that answer with a label: predictions, calibration, batches of inputs, and scores."""
