"""Strategies × loads × seeds, ranked."""
