"""Symbiotic scaling of operators and nodes, after Elysium."""
