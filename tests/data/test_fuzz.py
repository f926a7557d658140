"""Whatever happens to a valid file, reading it gives valid data or a `DataError`."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linoss.data import DataError, Table, read, read_table

PIECES = [b"\0", b",", b"\n", b'"', b"\r", b":", b"'", b"inf", b"nan", b"1e999", b"1e308", b"\xff"]
PIECES += [b"@data", b"9" * 25, b"-", b";", b" ", b"%", b"?", b"\x80\x00\x00\x7f", b"20240101"]


@st.composite
def mutations(draw):
    """A function of bytes that does a few things to them."""
    place = st.floats(0, 1, allow_nan=False)
    kinds = st.sampled_from(["cut", "flip", "set", "insert", "remove", "swap", "double"])
    steps = draw(
        st.lists(st.tuples(kinds, place, place, st.integers(0, 255)), min_size=1, max_size=4)
    )

    def apply(content):
        for kind, first, second, value in steps:
            content = mutate(content, kind, first, second, value)
        return content

    return apply


def mutate(content, kind, first, second, value):
    i, j = int(first * len(content)), int(second * len(content))
    lines = content.splitlines(keepends=True) or [b""]
    p, q = int(first * (len(lines) - 1)), int(second * (len(lines) - 1))
    if kind == "cut":
        return content[:i]
    if kind == "flip":
        return (
            content[:i]
            + bytes(byte ^ (1 << value % 8) for byte in content[i : i + 1])
            + content[i + 1 :]
        )
    if kind == "set":
        return content[:i] + bytes([value]) + content[i + 1 :]
    if kind == "insert":
        return content[:i] + PIECES[value % len(PIECES)] + content[i:]
    if kind == "remove":
        return content[: min(i, j)] + content[min(i, j) + value % 20 :]
    if kind == "swap":
        lines[p], lines[q] = lines[q], lines[p]
    else:
        lines.insert(q, lines[p])
    return b"".join(lines)


READERS = {".csv": (read, read_table), ".parquet": (read, read_table)}


def test_unharmed_files_are_read(valid, assert_valid):
    readers = READERS.get(valid.suffix, (read,))
    reader = readers[-1] if valid.name.startswith("table") else readers[0]
    assert_valid(reader(valid))


@pytest.mark.usefixtures("unchecked")  # a type check would read an array on disk at random
@settings(
    max_examples=2 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(mutation=mutations())
def test_harmed_file(valid, corpus, assert_valid, mutation):
    valid.write_bytes(mutation(corpus[valid.name]))
    for reader in READERS.get(valid.suffix, (read,)):
        with contextlib.suppress(DataError):
            found = reader(valid)
            assert_valid(found)
            if isinstance(found, Table):
                found.continued(3)
