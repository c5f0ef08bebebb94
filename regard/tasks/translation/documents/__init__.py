"""Translation of documents with glossary terms, tags and placeholders."""
