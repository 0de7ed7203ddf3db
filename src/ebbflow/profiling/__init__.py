"""What a pipeline costs, learned while it runs."""
