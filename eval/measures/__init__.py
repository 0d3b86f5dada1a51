"""What a study may ask about a trained model besides its errors."""
