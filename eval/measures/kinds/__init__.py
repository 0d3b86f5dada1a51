"""What a study may ask of trained models by name: measures, and published bounds."""
