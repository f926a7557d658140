"""Training on several devices: the same curve as on one, and runs that change places."""

import jax
import numpy as np
import pytest

from linoss.training import evaluate, make_mesh

pytestmark = pytest.mark.usefixtures("single_precision")


def assert_same_curve(one, other):
    for expected, actual in zip(one.history, other.history, strict=True):
        assert actual["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        assert actual["metric"] == pytest.approx(expected["metric"], rel=1e-4)
    for expected, actual in zip(
        jax.tree.leaves(one.model), jax.tree.leaves(other.model), strict=True
    ):
        np.testing.assert_allclose(actual, expected, atol=2e-4)


REGULAR, UNEQUAL = ((32, 32), 0.0), ((26, 40), 0.2)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("devices", "lengths", "missing"),
    [
        ((2, 4), *UNEQUAL),
        pytest.param((1, 4), *REGULAR, marks=pytest.mark.slow),  # regular: see the run that goes on
        pytest.param(8, *UNEQUAL, marks=pytest.mark.slow),  # parts of the batch alone: see below
    ],
)
def test_the_same_curve_as_on_one_device(make_problem, devices, lengths, missing):
    problem = make_problem(lengths, missing, dropout=0.2)
    several = problem.train(mesh=make_mesh(devices))
    assert_same_curve(problem.train(), several)
    assert all(len(x.devices()) == 1 for x in jax.tree.leaves(several.model))


@pytest.mark.integration
def test_a_run_goes_on_with_other_devices(tmp_path, make_problem):
    problem = make_problem()

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step >= 8:
            raise Stop

    with pytest.raises(Stop):
        problem.train(directory=tmp_path, mesh=make_mesh(4), on_progress=stop)
    resumed = problem.train(directory=tmp_path, mesh=make_mesh((2, 2)), resume=True)
    assert_same_curve(problem.train(), resumed)


@pytest.mark.integration
def test_evaluate_on_a_mesh(make_problem):
    problem = make_problem((10, 40), 0.2)
    arguments = (problem.model, problem.inputs, problem.objective, problem.validation_set)
    assert evaluate(*arguments, mesh=make_mesh((4, 2))) == evaluate(*arguments)


def test_a_mesh_that_does_not_divide_the_batch(make_problem):
    with pytest.raises(ValueError, match="batch_size is 8, expected a multiple of 3, the devices"):
        make_problem().train(mesh=make_mesh(3))


def test_more_devices_than_there_are():
    with pytest.raises(ValueError, match=r"devices is 3 x 4, but JAX has 8.*jax_num_cpu_devices"):
        make_mesh((3, 4))


@pytest.mark.parametrize("devices", [0, -1, 1.5, "two", (2, 0)])
@pytest.mark.usefixtures("unchecked")
def test_wrong_numbers_of_devices(devices):
    with pytest.raises(ValueError, match=r"devices is .*, expected an integer >= 1"):
        make_mesh(devices)
