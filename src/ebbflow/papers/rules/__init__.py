"""Reproduces the Rules thesis (M. Rouaux, Imperial College London, 2014). See README.md in this package."""
