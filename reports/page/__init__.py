"""The page itself, cards, citations and the names that methods are shown by."""
