"""Labels of texts and tags of words: files, batches, training and use."""
