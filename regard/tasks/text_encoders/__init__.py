"""What tasks share that train an encoder of texts with a head: files of examples, tokens, batches, training, use."""
