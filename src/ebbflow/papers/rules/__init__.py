"""Rules (M. Rouaux, Imperial College London, 2014): scaling rules with monitoring agents."""
