"""The command line: `linoss fit`, `evaluate`, `predict`, `forecast`, and more."""

from linoss.cli._app import app, main

__all__ = ["app", "main"]
