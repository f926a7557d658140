"""The command line: `linoss fit`, `evaluate`, `predict`, `forecast`, and more."""

import sys

try:
    from linoss.cli._app import EXAMPLES, app, main
except KeyboardInterrupt:  # Ctrl-C before there is a command
    sys.exit(130)

__all__ = ["EXAMPLES", "app", "main"]
