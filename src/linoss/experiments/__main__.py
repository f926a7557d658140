"""`python -m linoss.experiments EXPERIMENT`: reproduce one of the paper's experiments."""

import sys

import typer

from linoss.experiments import command
from linoss.training import TrainingError


def main() -> None:
    """Run the command; what a user can mend is one line, and exit code 1."""
    try:
        typer.run(command)
    except (ValueError, OSError, ImportError, TrainingError) as error:
        sys.exit(f"Error: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
