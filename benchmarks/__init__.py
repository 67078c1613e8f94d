"""Speed and memory, measured as ratios of two things in one run; `python -m benchmarks` runs
all."""
