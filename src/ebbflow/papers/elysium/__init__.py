"""Elysium (Lombardi et al., IEEE TPDS): symbiotic scaling of operators and nodes. See README.md in this package."""
