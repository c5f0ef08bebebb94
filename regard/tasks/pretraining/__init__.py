"""Pre-training on documents: next tokens, masked tokens, spans that are left out."""
