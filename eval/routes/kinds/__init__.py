"""One file per route: its settings, its work, its versions, its sentence and its look."""
