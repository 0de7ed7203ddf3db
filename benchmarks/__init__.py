"""What Ebbflow costs, and what it brings; ``make bench`` runs all, ``python -m benchmarks NAME`` one."""
