"""Policies written in Python, and policies printed as English."""
