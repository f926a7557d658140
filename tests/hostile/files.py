"""Damaged files of every format, and damaged streams: valid data, or a `DataError`."""

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

from drivers import Finding, load

from linoss.cli._samples import SampleReader
from linoss.data import DataError, Table, read, read_table

PIECES = [b"\0", b",", b"\n", b'"', b"\r", b":", b"'", b"inf", b"nan", b"1e999", b"1e308", b"\xff"]
PIECES += [b"@data", b"9" * 25, b"-", b";", b" ", b"%", b"?", b"\x80\x00\x00\x7f", b"20240101"]
KINDS = ("cut", "flip", "set", "insert", "remove", "swap", "double")
STREAMS = {
    "numbers": b"1,2\n3,\n-1e3,nan\n",
    "header": b"x,z\n1,2\n3,4\n",
    "times": b"time,x,z\n2024-01-01,1,2\n2024-01-02 10:00,3,?\n",
    "arrays": b"[1, 2]\n[null, 3.5]\n",
    "objects": b'{"x": 1, "z": 2}\n{"z": 3, "x": null}\n',
}


def mutated(content, draw):
    """Do a few things to bytes."""
    for _ in range(draw.randint(1, 4)):
        kind, value = draw.choice(KINDS), draw.randrange(256)
        content = mutate(content, kind, draw.random(), draw.random(), value)
    return content


def mutate(content, kind, first, second, value):
    """One thing, at places that are shares of the length."""
    i, j = int(first * len(content)), int(second * len(content))
    lines = content.splitlines(keepends=True) or [b""]
    p, q = int(first * (len(lines) - 1)), int(second * (len(lines) - 1))
    if kind == "cut":
        return content[:i]
    if kind == "flip":
        flipped = bytes(byte ^ (1 << value % 8) for byte in content[i : i + 1])
        return content[:i] + flipped + content[i + 1 :]
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


@contextlib.contextmanager
def driver():
    """Damage a file or a stream, and read it."""
    corpus, check = load("data/conftest.py").CORPUS, load("data/conftest.py").check_valid
    names = [*corpus, *STREAMS]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")

        def case(draw):
            name = draw.choice(names)
            try:
                if name in STREAMS:
                    _listen(mutated(STREAMS[name], draw), timed=name == "times")
                else:
                    path = Path(folder) / name
                    path.write_bytes(mutated(corpus[name], draw))
                    found = draw.choice(_readers(path))(path)
                    check(found)
                    if isinstance(found, Table):
                        found.continued(3)
            except DataError as error:
                if len(str(error)) > 2000:
                    raise Finding(f"a message of {len(str(error))} characters") from None
                return "refused"
            return "read"

        yield case


def _readers(path):
    return (read, read_table) if path.suffix in (".csv", ".parquet") else (read,)


def _listen(content, *, timed):
    for values, times in SampleReader(io.BytesIO(content), 2, ("x", "z"), needs_times=timed):
        assert values.shape == (len(times), 2)
