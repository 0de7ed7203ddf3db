"""Point forecasters that learn at every step."""
