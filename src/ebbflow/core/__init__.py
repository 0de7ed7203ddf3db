"""The vocabulary and the ports. Imports nothing of ours but the errors."""
