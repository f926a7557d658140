"""Optional dependencies, imported when they are needed."""

import importlib
from typing import Any


def optional(module: str, purpose: str, extra: str) -> Any:
    """Import a module. The error names the feature that needs it and the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}; install it with pip install {package}, or from a clone "
            f'with pip install ".[{extra}]"'
        ) from error
