"""A recorded run read, made into a scenario, and played again under any strategy."""
