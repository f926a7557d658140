"""Pickles are read as data: arrays come out, nothing else is done."""

import pickle
from collections import OrderedDict

import numpy as np
import pytest

from linoss.data import DataError
from paper.pickles import Pickled, array_at, read_pickle


@pytest.fixture
def read(tmp_path):
    """Bytes of a pickle to what is read of them."""

    def read(content):
        (tmp_path / "a.pkl").write_bytes(content)
        return read_pickle(tmp_path / "a.pkl")

    return read


ARRAYS = [
    np.arange(12.0).reshape(3, 4),
    np.arange(12, dtype=np.int32).reshape(2, 3, 2),
    np.array([True, False]),
    np.zeros((0, 3), np.float32),
    np.frombuffer(bytes(range(256)), np.uint8),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(3, dtype=">f4"),
]


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_of_python_2_and_3(read, python2_pickle, array, protocol):
    value = {"x": array}
    content = python2_pickle(value) if protocol == 2 else pickle.dumps(value, protocol=protocol)
    found = read(content)["x"].array()
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_plain_values_and_text_that_is_not_ascii(read, python2_pickle):
    value = {"AGE": 34, "HEIGHT": 182.5, "Gender": " m", "name": "J\xf6rg"}
    assert read(python2_pickle(value)) == value
    assert read(pickle.dumps([1, (2.5, None), {"a": True}])) == [1, (2.5, None), {"a": True}]


def test_a_command_is_refused_and_not_carried_out(read, trap):
    content, mark = trap
    with pytest.raises(DataError, match=r"a.pkl: is not read: asks for (posix|nt).mkdir"):
        read(content)
    assert not mark.exists()


HOSTILE = {
    "eval": b"cbuiltins\neval\n(S'1'\ntR.",
    "system": b"cos\nsystem\n(S'true'\ntR.",
    "python 2 names": b"c__builtin__\neval\n(S'1'\ntR.",
    "subprocess": b"csubprocess\nPopen\n(S'true'\ntR.",
    "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.",
    "another function of numpy": b"cnumpy\nload\n(S'x'\ntR.",
    "of numpy's testing": b"cnumpy.testing._private.utils\nrunstring\n(S'1'\n}tR.",
    "an old instance": b"(ios\nsystem\n(S'true'\n.",
    "an instance": b"(cos\nsystem\nS'true'\no.",
    "the class of arrays, called": b"cnumpy\nndarray\n(K\x03tR.",
    "the class of arrays, made": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "the class of arrays, changed": b"cnumpy\nndarray\n}S'x'\nK\x01sb.",
    "an encoder": b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
    "another class": pickle.dumps(OrderedDict(a=1), protocol=2),
    "a persistent object": b"S'x'\nQ.",
    "an extension": b"\x82\x01.",
    "a type without its code": b"\x80\x02cnumpy\ndtype\n)\x81}b.",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_array_is_refused(read, python2_pickle, content):
    """And changes nothing for pickles that come after it."""
    with pytest.raises(DataError, match="expected a pickle of NumPy arrays, and nothing else"):
        read(content)
    assert read(python2_pickle({"x": np.arange(3.0)}))["x"].array().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "has no content"),
        ((1, (3,), None, False, b""), "content of another kind"),
        ((1, (3,), "f8", False, [object]), "content of another kind"),
    ],
)
def test_strange_content_of_an_array_is_refused(state, message):
    pickled = Pickled()
    pickled.__setstate__(state)
    with pytest.raises(DataError, match=message):
        pickled.array()


def test_arrays_of_objects_are_read_over_but_not_made(read):
    values = {"x": np.array([{}, []], object), "y": np.ones(2), "n": np.float64(3)}
    content = read(pickle.dumps(values, protocol=4))
    assert content["y"].array().tolist() == [1, 1]
    with pytest.raises(DataError, match=r"content of another kind|has type 'O8'"):
        content["x"].array()


def test_a_shape_that_does_not_fit_is_refused(read, python2_pickle):
    content = python2_pickle({"x": np.arange(3.0)}).replace(b"K\x03\x85", b"K\x07\x85")
    with pytest.raises(DataError, match="does not fit its content"):
        read(content)["x"].array()


def test_damage_is_refused(read, python2_pickle):
    content = python2_pickle({"x": np.arange(30.0), "y": {"a": 1}})
    random, refused = np.random.default_rng(0), 0
    for _ in range(300):
        damaged = bytearray(content[: random.integers(1, len(content) + 1)])
        for place in random.integers(0, len(damaged), 3):
            damaged[place] = random.integers(0, 256)
        try:
            found = read(bytes(damaged))
            if isinstance(found, dict) and isinstance(found.get("x"), Pickled):
                found["x"].array()
        except DataError:
            refused += 1
    assert refused > 200


def test_what_is_asked_for_must_be_there(read, tmp_path):
    path, content = tmp_path / "a.pkl", {"signal": {"wrist": {"ACC": [1, 2]}}}
    with pytest.raises(DataError, match=r"a.pkl: has no signal/wrist/BVP"):
        array_at(path, content, "signal", "wrist", "BVP")
    with pytest.raises(DataError, match=r"signal/wrist/ACC is no array"):
        array_at(path, content, "signal", "wrist", "ACC")
    with pytest.raises(DataError, match=r"S1.pkl: cannot be read"):
        read_pickle(tmp_path / "S1.pkl")
