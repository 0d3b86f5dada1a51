"""Routes to a certificate, R0 to R5 and sets: what an entry may say and what is done for it."""
