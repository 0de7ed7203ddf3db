"""The continuous engine: operators with queues between them."""
