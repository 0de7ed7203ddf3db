"""Scores, the hindsight optimum, and what is compared with them: strategies on the same scenario."""
