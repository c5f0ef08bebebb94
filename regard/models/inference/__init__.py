"""What makes models fast when they generate: fused steps for CUDA and for a CPU."""
