"""A program as C99: a header with one function, for a sample or a window, and a file of weights.

No memory is allocated: all variables are in a state, of which the caller has one for each stream.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss.export._c_lines import Constants, PartWriter, Work, indented, loop, quoted
from linoss.export._program import Moments, Program, WholeWindow


@dataclass(frozen=True)
class CFiles:
    """The text of both files, and their memory."""

    header: str
    weights: str
    flash: int
    """Bytes of constants, without the code."""
    ram: int
    """Bytes of a state."""


def c_files(program: Program, name: str, *, int8: bool = False) -> CFiles:
    """C code for a program. All names in it begin with `name`, as does the file of weights.

    With `int8`, each row of a model's matrices is quantised to 255 levels.
    """
    if int8 and program.precise:
        raise ValueError(
            "int8 is True, but there are untrained oscillators, whose readout would lose "
            "accuracy; omit it"
        )
    whole = program.window is not None and not program.streams
    if not whole or len(program.parts) > 1:
        program.refuse_step()
    constants, work = Constants(name, int8), Work()
    if program.window is not None and whole:
        arrays, function = _forecast(program, program.window, name, constants, work)
    else:
        arrays, function = _step(program, name, constants, work)
    arrays["work"] = max(work.size, 1)
    flash, ram = constants.bytes + function.pop("more"), 4 * sum(arrays.values())
    labels = ""
    if program.classes:
        labels = f"extern const char *const {name}_classes[{len(program.classes)}];\n"
    header = _HEADER.format(
        name=name,
        guard=f"{name.upper()}_H",
        task=program.task,
        channels=program.channels,
        states="".join(f"    float {state}[{size}];\n" for state, size in arrays.items()),
        constants=constants.declarations,
        labels=labels,
        flash=flash,
        ram=ram,
        **function,
    )
    text = [f'#include "{name}.h"\n', constants.definitions]
    if program.classes:
        words = ", ".join(quoted(label) for label in program.classes)
        text.append(f"const char *const {name}_classes[{len(program.classes)}] = {{{words}}};\n")
    return CFiles(header, "\n".join(text), flash, ram)


_HEADER = """\
/* {name}: {task}, {what}. Written by linoss.
 *
 * {flash} bytes of constants, {ram} bytes of state.
 *
{usage}
 * Do not compile with -ffast-math, which assumes that there is no NaN.
 */
#ifndef {guard}
#define {guard}

#include <math.h>
#include <stdint.h>
#include <string.h>

#define {name}_CHANNELS {channels}
#define {name}_OUTPUTS {answers}
{defined}
typedef struct {{
{states}}} {name}_state;

{constants}{labels}
{code}
#endif
"""

# ---- One sample ----

_STEP_USAGE = """\
 *     static {name}_state state;              all 0 before the first sample
 *     float answer[{name}_OUTPUTS];
 *     {name}_step(&state, sample, answer);
 *
 * sample has {name}_CHANNELS numbers, NaN for missing ones. answer is the output for all
 * samples so far.{more}"""

_AHEAD = """
 * With ahead = 1 the step is one of the {horizon} to forecast: NaN in sample for unknown values.
 * Forecast from a copy of the state."""

_INTERVAL = """
 * interval is the time since the sample before, in the unit of the data, and any for the first."""

_STEP = """\
static inline void {name}_reset({name}_state *state) {{ memset(state, 0, sizeof *state); }}

static inline void {name}_step({name}_state *state, const float *sample, float *answer{more}) {{
    float *const w = state->work;
{body}}}
"""


def _step(
    program: Program, name: str, constants: Constants, work: Work
) -> tuple[dict[str, int], dict[str, Any]]:
    """The arrays of the state, and the parts specific to a function of one sample."""
    lines = [
        *PartWriter(program.parts[0], constants, work).lines(),
        *PartWriter(program.answer.only("answer"), constants, work).lines({"answer": "answer"}),
    ]
    more, parameter = "", ""
    if program.horizon:
        more, parameter = _AHEAD.format(horizon=program.horizon), ", int ahead"
    elif program.irregular:
        more, parameter = _INTERVAL, ", float interval"
    return dict(program.states), {
        "more": 0,
        "what": "one sample at a time",
        "usage": _STEP_USAGE.format(name=name, more=more),
        "answers": program.out_size,
        "defined": "",
        "code": _STEP.format(name=name, more=parameter, body=indented(lines, 1)),
    }


# ---- A whole window ----

_FORECAST_USAGE = """\
 *     static {name}_state state;
 *     float answers[{name}_HORIZON][{name}_OUTPUTS];
 *     {name}_forecast(&state, samples, steps{usage}, answers[0]);
 *
 * samples are the last steps, {name}_CHANNELS numbers each, NaN for missing ones; at most
 * {past} steps are used.{more}
 * For each forecast step, answers has one number for each variable: {order}."""

_TIMES = """
 * times are those of all steps, then of the {horizon} ahead, in the unit of the fit: {unit}."""

_FUTURE = """
 * future has the steps to forecast, as samples; NaN for values not known in advance."""

_FORECAST = """\
static inline void {name}_forecast(
    {name}_state *state, const float *samples, int steps{parameters}, float *answers) {{
    float *const w = state->work;
    memset(state, 0, sizeof *state);
    if (steps > {past}) {{
{skip}        steps = {past};
    }}
{survey}    for (int n = 0; n < steps + {horizon}; ++n) {{
        const int ahead = n >= steps, h = n - steps;
        const float *sample = ahead ? {future} : samples + n * {channels};
{forwards}        if (!ahead) {{
{seen}            continue;
        }}
        (void)h;
{answer}    }}
}}
"""

_MOMENT = """\
static inline void {name}_moment(float *moment, double time) {{
    static const double frequencies[] = {{{frequencies}}};
    moment[0] = (float)((time - {start}) / {span});
    for (int i = 0; i < {size}; ++i) {{
        const double turns = time * frequencies[i];
        moment[1 + i] = (float)(turns - floor(turns));
    }}
}}

"""


def _forecast(
    program: Program, window: WholeWindow, name: str, constants: Constants, work: Work
) -> tuple[dict[str, int], dict[str, Any]]:
    """The arrays of the state, and the parts specific to a function of a whole window."""
    arrays, clock = dict(program.states), window.clock
    channels, horizon, targets = program.channels, program.horizon, program.out_size
    parameters, usage, more, moment, code = "", "", "", [], ""
    skip = [f"samples += (steps - {window.past}) * {channels};"]
    if clock is not None:
        arrays["moment"] = clock.size
        moment = [f"{name}_moment(state->moment, times[n]);"]
        skip.append(f"times += steps - {window.past};")
        parameters, usage = ", const double *times", ", times"
        more, code = _TIMES.format(horizon=horizon, unit=clock.unit), _moment(name, clock)
    future, begin = f"future + h * {channels}", []
    if program.known:
        parameters, usage = f"{parameters}, const float *future", f"{usage}, future"
        more += _FUTURE
    else:
        arrays["unknown"], future = channels, "state->unknown"
        begin = [loop(channels, "state->unknown[i] = NAN;")]
    if window.survey is not None:
        arrays |= {key: term.size for key, term in window.survey.outputs.items()}
        begin += [
            "for (int n = 0; n < steps; ++n) {",
            f"    const float *sample = samples + n * {channels};",
            *(
                f"    {line}"
                for line in moment + PartWriter(window.survey, constants, work).lines()
            ),
            "}",
        ]
    seen, first = _linear(window, arrays, constants, targets)
    outputs = ["answer", *(key for key in program.answer.outputs if key != "answer")]
    places = {key: f"(answers + {i * targets})" for i, key in enumerate(outputs)}
    tables = {
        key: f"({constants.floats(x)} + h * {x.shape[1]})" for key, x in window.tables.items()
    }
    forwards = moment + PartWriter(program.parts[0], constants, work).lines()
    answer = first + PartWriter(program.answer, constants, work, tables).lines(places)
    answer.append(f"answers += {name}_OUTPUTS;")
    text = _FORECAST.format(
        name=name, parameters=parameters, past=window.past, horizon=horizon, channels=channels,
        future=future, skip=indented(skip, 2), survey=indented(begin, 1),
        forwards=indented(forwards, 2), seen=indented(seen, 3), answer=indented(answer, 2),
    )  # fmt: skip
    order = ", ".join(["forecast", *outputs[1:]])
    return arrays, {
        "more": 0 if clock is None else 8 * len(clock.frequencies),
        "what": "whole windows",
        "usage": _FORECAST_USAGE.format(
            name=name, usage=usage, past=window.past, more=more, order=order
        ),
        "answers": targets * len(outputs),
        "defined": f"#define {name}_HORIZON {horizon}\n",
        "code": code + text,
    }


def _moment(name: str, clock: Moments) -> str:
    """The function that converts a time to a moment."""
    return _MOMENT.format(
        name=name,
        frequencies=", ".join(f"{x:.17g}" for x in clock.frequencies) or "0",
        start=f"{clock.start:.17g}",
        span=f"{clock.span:.17g}",
        size=len(clock.frequencies),
    )


def _linear(
    window: WholeWindow, arrays: dict[str, int], constants: Constants, targets: int
) -> tuple[list[str], list[str]]:
    """Lines that compute the features of the linear forecast, and the forecast."""
    count = len(window.direct)
    if not count:
        return [], []
    arrays |= {"means": count, "first": targets}
    lengths = np.bincount(window.blocks)
    block, share = constants.indices(window.blocks), constants.floats(1 / lengths[window.blocks])
    weights = constants.floats(window.direct.T)
    seen = [
        "const int lag = steps - 1 - n;",
        f"for (int i = 0; i < {targets}; ++i)",
        f"    state->means[{block}[lag] * {targets} + i] += state->relative[i] * {share}[lag];",
    ]
    first = [
        f"for (int i = 0; i < {targets}; ++i) {{",
        "    state->first[i] = 0.0f;",
        f"    for (int j = 0; j < {count}; ++j)",
        f"        state->first[i] += state->means[j]"
        f" * {weights}[(h * {targets} + i) * {count} + j];",
        "}",
    ]
    return seen, first
