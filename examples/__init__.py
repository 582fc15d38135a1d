"""Scripts that show the layers at work."""
