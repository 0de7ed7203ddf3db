"""Proactive scaling of a datastore, whose nodes take minutes to join and to leave (Pascal, Algorithm 2).

``strategy`` has the rules, ``ahead`` the load they look at.
"""

from ebbflow.strategies.datastore.strategy import Datastore, DatastoreCosts

__all__ = ["Datastore", "DatastoreCosts"]
