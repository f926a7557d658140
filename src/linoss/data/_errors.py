"""The error for data that cannot be used, and the import of optional packages."""

from functools import partial

from linoss import _extras


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


optional = partial(_extras.optional, extra="data")
