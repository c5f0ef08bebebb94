"""Code shared by tasks that predict labels: predictions, calibration, batches of inputs, and scores."""
