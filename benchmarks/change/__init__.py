"""What a change costs: an installation of before against this one, in turns."""
