"""The simulator for those who learn: episodes, what is seen of them, and a Gymnasium environment."""
