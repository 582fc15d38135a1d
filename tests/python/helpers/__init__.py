"""What the tests share: problems with known solutions, and derivatives computed in other ways."""
