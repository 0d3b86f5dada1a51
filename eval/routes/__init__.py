"""Routes to a certificate, R0 to R5: what an entry may say and what is done for it."""
