"""How figures and tables look, whatever they show."""
