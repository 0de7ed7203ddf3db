"""Top-N topics of tweets (§6.4 and §7.2): three operators of a fleet, and a generator of tweets."""
