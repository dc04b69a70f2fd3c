"""Exchange with the task formats of other benchmarks."""
