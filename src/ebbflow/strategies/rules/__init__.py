"""Scaling by the rules of a policy."""
