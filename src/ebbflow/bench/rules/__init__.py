"""The six tests of the Rules seed, and a policy tried on a load."""
