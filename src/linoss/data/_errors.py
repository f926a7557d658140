"""The error for invalid data, and the import of optional packages."""

from functools import partial

from linoss import _extras


class DataError(ValueError):
    """Invalid data. The message has the location, what was found and expected, and a remedy.

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
