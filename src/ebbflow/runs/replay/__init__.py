"""Recorded runs replayed under other strategies."""
