"""The physics of one oscillator: schemes, spectrum, parameters and their initialisation.

Names in signatures and symbols in equations:

| in signatures | in equations | meaning |
|---|---|---|
| `stiffness` | A | diagonal, >= 0; omega^2 of the undamped oscillator |
| `frequency` | omega / 2 pi | cycles per unit of time: what reports show |
| `damping` | G | >= 0, the paper's models have 0 |
| `timestep` | dt, h | time between samples |
| `matrix`, `forcing` | M, F | one step: x_n = M x_{n-1} + F b_n |
| `position`, `velocity` | y, z | oscillator state, x = [z, y] |
| `force` | b | B u, the forcing of the oscillators |
| `state_size` | m | number of oscillators (complex pairs count once, as in the paper's tables) |
| `hidden_size`, `in_size`, `out_size` | p, q | feature widths |
| `num_blocks` | L | depth |
"""

from linoss.dynamics._oscillators import Oscillators
from linoss.dynamics._scheme import Scheme, Step
from linoss.dynamics._spectrum import (
    eigenvalues,
    expected_eigenvalue_power,
    hamiltonian,
    oscillating_stiffness,
    spectral_radius,
    stable_stiffness,
)
from linoss.dynamics._transition import (
    SCHEMES,
    Transition,
    VaryingTransition,
    discretize,
    find_scheme,
)

__all__ = [
    "SCHEMES", "Oscillators", "Scheme", "Step", "Transition", "VaryingTransition", "discretize",
    "eigenvalues", "expected_eigenvalue_power", "find_scheme", "hamiltonian",
    "oscillating_stiffness", "spectral_radius", "stable_stiffness",
]  # fmt: skip
