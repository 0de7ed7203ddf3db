"""The seed's real-world evaluation (Rules, §5.3): static and dynamic scaling of the Google cluster query."""
