"""Fast generation: decoding steps with few kernels on CUDA and with few calls on a CPU."""
