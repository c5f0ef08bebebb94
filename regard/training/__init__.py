"""Training: one loop for every task, resumable to the bit."""
