"""Rules of certificates; each module of this folder declares some as its ``RULES``."""
