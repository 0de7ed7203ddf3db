"""Replay a recorded run under other strategies.

``readers`` reads a recording, ``batch_fit`` fits the cost of its batches, ``plan`` turns it into a scenario.
"""
