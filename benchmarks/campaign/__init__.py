"""The campaign of benchmarks/faults.py: what is run, how it is disturbed, and what must still hold afterwards."""
