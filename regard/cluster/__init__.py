"""Several machines, by Ray: long files answered in parts, and a server of several replicas."""
