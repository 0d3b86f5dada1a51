"""The frame of every page, and the page of a table of losses."""
