"""Sentiment of tweets: application T2 of Elysium §5.1."""
