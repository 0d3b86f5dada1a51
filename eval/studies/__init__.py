"""Study files: their settings, how they are read and checked, the cells they ask for."""
