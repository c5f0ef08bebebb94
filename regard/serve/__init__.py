"""Trained models as a service: a worker that batches step by step, and an HTTP API that existing clients speak to."""
