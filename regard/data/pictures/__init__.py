"""Pictures from files to bytes in the cache, and what is done to them while a model learns."""
