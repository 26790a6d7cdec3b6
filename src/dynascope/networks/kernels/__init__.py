"""Kernels of our own for GPUs, where PyTorch has none that suits many small networks at once. They need Triton."""
