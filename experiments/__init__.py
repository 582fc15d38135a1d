"""The paper's experiments, one module each; run them as `python -m experiments.<name>`."""
