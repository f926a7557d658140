"""Lines of a stream: what is read, and what is refused in which words."""

import io
import math
import os

import numpy as np
import pytest

from linoss.cli._sample_reader import SampleReader
from linoss.data import DataError


def read(text, channels=2, names=None, *, timed=False):
    raw = text if isinstance(text, bytes) else text.encode()
    batches = list(SampleReader(io.BytesIO(raw), channels, names, timed=timed))
    return [sample for batch in batches for sample in zip(*batch, strict=True)]


def values(text, **options):
    return [sample.tolist() for sample, _ in read(text, **options)]


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\r\n3,4",
        " 1 , 2 \n3,4\n",
        "\ufeff1,2\n3,4\n",
        '"1","2"\n3,4\n',
        "a,b\n1,2\n3,4\n",
        '"a, b",c\n1,2\n3,4\n',
        "[1, 2]\n[3.0, 4]\n",
        '{"b": 1, "a": 2}\n{"a": 4, "b": 3}\n',
        "time,a,b\n7,1,2\n8,3,4\n",
    ],
)
def test_ways_to_write_two_samples(text):
    assert values(text) == [[1, 2], [3, 4]]


def test_lines_are_taken_as_they_come():
    """No line waits for the next, those that came together are taken together, and so are halves of
    a line that came apart."""
    source, sink = os.pipe()
    with os.fdopen(source, "rb") as stream, os.fdopen(sink, "wb", buffering=0) as writer:
        batches = iter(SampleReader(stream, 2, None, timed=False))
        for text, expected in [
            (b"1,2\n", [[1, 2]]),
            (b"3,4\n5,6\n7,", [[3, 4], [5, 6]]),
            (b"8\n", [[7, 8]]),
            (b"9,1\r\n2,", [[9, 1]]),
        ]:
            writer.write(text)
            assert next(batches).values.tolist() == expected
        writer.write(b"3")
        writer.close()
        assert next(batches).values.tolist() == [[2, 3]]
        assert next(batches, None) is None


def test_missing_values():
    found = values("1,\n,nan\nNA,?\n" + " NaN ,2\n")
    assert [[math.isnan(v) for v in row] for row in found] == [
        [False, True],
        [True, True],
        [True, True],
        [True, False],
    ]
    assert all(math.isnan(v) for v in values("[null, NaN]\n")[0])


def test_one_channel_may_be_empty():
    assert np.isnan(values("1\n\n3\n", channels=1)[1][0])


def test_names_of_the_training_decide_the_order():
    assert values("b,a\n1,2\n", names=("a", "b")) == [[2, 1]]
    assert values('{"b": 1, "a": 2}\n', names=("a", "b")) == [[2, 1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5,1,2\n6.5,3,4\n", [5, 6.5]),
        ("2024-01-01,1,2\n2024-01-01T00:01,3,4\n", [1704067200, 1704067260]),
        ("2024-01-01T01:00:00Z,1,2\n2024-01-01T03:00:00+01:00,1,2\n", [1704070800, 1704074400]),
        ("a,date,b\n1,5,2\n", [5]),
        ('{"time": 5, "a": 1, "b": 2}\n', [5]),
        ("[5, 1, 2]\n", [5]),
    ],
)
def test_times(text, expected):
    assert [time for _, time in read(text, timed=True)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", "line 2: has 1 values, expected 2 numbers"),
        ("1,2\n3,4,5\n", "line 2: has 3 values, expected 2 numbers"),
        ("1,2\n\n", "line 2: is empty, expected 2 numbers"),
        ("1,2\n3,x\n", "line 2: found 'x', expected a number, or nothing where one is missing"),
        ("1,x\n", "line 1: found 'x', expected a number"),
        ("1,inf\n", "line 1: found 'inf', expected a number up to 3.4e+38"),
        ("1,1e39\n", "line 1: found '1e39', expected a number up to"),
        ("[1, 1" + "0" * 400 + "]\n", "line 1: found 1000"),
        ('[1, "x"]\n', "line 1: found 'x', expected a number"),
        ("[1, true]\n", "line 1: found True, expected a number"),
        ("[1, [2]]\n", "line 1: found [2], expected a number"),
        ("[1, 2]\n1,2\n", "line 2: found '1,2', expected JSON, as in the first line"),
        ("[1, 2]\n7\n", "line 2: has 1 values, expected 2 numbers"),
        ("[" * 100_000 + "\n", "line 1: found '[[["),
        ('{"a": 1, "b": 2}\n{"a": 1}\n', "line 2: has the keys 'a', expected 'a, b'"),
        ("a,b,c\n", "line 1: names 3 channels, expected 2"),
        ("a,a\n", "line 1: names 'a' twice"),
        ("a,A\n", "line 1: names 'a' twice, expected names that differ in more than capitals"),
        ('a,"b\n', "line 1: unexpected end of data"),
        (b"1,\xff\n", "line 1: is not text in UTF-8"),
        ("1" * 2_000_000, "line 1: is longer than 1048576 bytes"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value).startswith(message)


def test_names_that_the_training_did_not_have():
    with pytest.raises(DataError, match=r"line 1: names 'a, c', expected the channels .* 'a, b'"):
        read("a,c\n1,2\n", names=("a", "b"))


@pytest.mark.parametrize("time", ["", "noon", "nan", "inf"])
def test_times_that_are_none(time):
    with pytest.raises(DataError, match=r"line 1: the time is .*, expected a number or date"):
        read(f"{time},1,2\n", timed=True)


def test_an_error_of_a_stream_names_the_line_and_ends_it(run, linoss_command):
    result = linoss_command(f"stream {run}", "1,2\n3,4\nfive,6\n7,8\n")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == (
        "Error: line 3: found 'five', expected a number, or nothing where one is missing\n"
    )
