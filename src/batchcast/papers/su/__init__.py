"""Wang, Dai, Yu & Dong 2021: run times from clusters of job names."""
