"""The paper's experiments: `python -m paper --help`, from a clone of the repository."""
