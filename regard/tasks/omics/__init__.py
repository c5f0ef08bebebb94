"""Classes of samples of which several tables are known."""
