"""The Learner thesis: training its agent in the simulator, and pictures of what it learned."""
