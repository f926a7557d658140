"""The examples in the documentation of every module do what they say."""

import doctest
import importlib
import pkgutil

import pytest

import linoss
import paper

MODULES = sorted(
    module.name
    for package in (linoss, paper)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
)


@pytest.mark.integration
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.usefixtures("single_precision")
def test_module_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("name", linoss.__all__)
def test_every_export_is_documented_with_an_example(name):
    if name == "__version__":
        return
    documentation = getattr(linoss, name).__doc__
    assert documentation
    if name not in ("Transition", "VaryingTransition"):  # shown by `discretize`, which makes them
        assert ">>>" in documentation
