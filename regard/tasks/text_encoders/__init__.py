"""Code shared by tasks that train a text encoder with a head: files of examples, tokens, batches, training, use."""
