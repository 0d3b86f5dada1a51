"""Rules of certificates; a module of this folder declares some as its ``RULES``."""
