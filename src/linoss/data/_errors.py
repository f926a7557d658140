"""The error for data that cannot be used, and the import of optional packages."""

import importlib
from typing import Any


class DataError(ValueError):
    """Data cannot be used. The message has the place, what was found and expected, and a remedy.

    ```python
    >>> import linoss.data
    >>> try:
    ...     linoss.data.read("absent.csv")
    ... except linoss.data.DataError as error:
    ...     print(error)
    absent.csv: there is no such file; check the path

    ```
    """


def optional(module: str, purpose: str) -> Any:
    """A module of the extra `data`, imported when it is needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f'{purpose} needs {package}; install it with pip install "linoss[data]"'
        ) from error
