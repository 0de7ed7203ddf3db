"""Pascal's evaluation on Cassandra (§7.2): a datastore whose nodes take minutes to join."""
