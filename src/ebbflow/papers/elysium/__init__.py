"""Elysium (Lombardi et al., IEEE TPDS 2017): symbiotic scaling of operators and nodes."""
