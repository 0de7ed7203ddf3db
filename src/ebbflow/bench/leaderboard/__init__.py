"""Strategies × loads × seeds, worked off in parallel, ranked, and kept."""
