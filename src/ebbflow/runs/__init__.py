"""Runs and what is made of them: recording, scores, oracle, sweeps, replay, Gymnasium environment."""
