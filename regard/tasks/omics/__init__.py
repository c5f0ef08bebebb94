"""Classification of samples that are described by several tables (multi-omics)."""
