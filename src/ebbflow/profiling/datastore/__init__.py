"""Profiles of datastores (Pascal §4.2, §6): the performance table X_max(nodes), the time table T_add and T_rem, and the
bound p on the throughput. ``profile`` has the tables and their file, ``stepping`` learns them from a store under load.
"""

from ebbflow.profiling.datastore.profile import DatastoreProfile, LoadStep, Performance, ResizeTime
from ebbflow.profiling.datastore.stepping import DatastoreProfiling, StoreUnderLoad

__all__ = [
    "DatastoreProfile",
    "DatastoreProfiling",
    "LoadStep",
    "Performance",
    "ResizeTime",
    "StoreUnderLoad",
]
