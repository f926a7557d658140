// The scan alone: positions of oscillators over whole sequences, on unpadded arrays.

#include "kernel.h"

namespace linoss::scan {

// Maximum number of oscillators of one sequence that are computed together.
constexpr int64_t kMostLanes = 64;

// `lanes` oscillators of one sequence; rows of force, positions and steps hold `state`. Pointers are to
// the first of these oscillators.
template <typename T>
struct Part {
  int64_t time, state, lanes;
  const T* step;                // kStepRows, `step_row` apart, of `state` or of time x state
  int64_t step_row, step_time;  // `step_time`: distance between samples, 0 if constant
  const T* force;               // time x state
  const uint8_t* mask;          // time, or null
  T* kept;                      // tiles x 2 x state, the state at each tile's start
};

// For constant and for varying steps.
template <typename T>
struct Kernels {
  // start, final: state x 2. positions: time x state.
  void (*forward[2])(const Part<T>&, const T* start, T* positions, T* final);
  // d_step: like step.
  void (*backward[2])(const Part<T>&, const T* d_positions, const T* d_final, T* d_force, T* d_step,
                      T* d_start);
};

struct Table {
  Kernels<float> f32;
  Kernels<double> f64;
};

}  // namespace linoss::scan

#ifdef LINOSS_ISA

#include "recurrence.h"

namespace linoss::scan {
namespace {

constexpr int kVectors = kMostLanes / D;

// States of the caller, with z and y of each oscillator interleaved.
template <typename T>
inline void load_ends(const T* ends, int64_t lanes, State* x) {
  for (int64_t j = 0; j < lanes; ++j)
    x[j / D].z[j % D] = ends[2 * j], x[j / D].y[j % D] = ends[2 * j + 1];
}
template <typename T>
inline void store_ends(const State* x, int64_t lanes, T* ends) {
  for (int64_t j = 0; j < lanes; ++j)
    ends[2 * j] = static_cast<T>(x[j / D].z[j % D]),
    ends[2 * j + 1] = static_cast<T>(x[j / D].y[j % D]);
}

// A tile of p.time, and the oscillators from j on: K vectors, or (not kWhole) the remaining ones.
template <bool kVarying, bool kWhole, int K, typename T>
inline void forward_tile(const Part<T>& p, int64_t from, int64_t j, State* state, T* positions) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  auto at = [&](int64_t n, int k) { return (from + n) * p.state + j + k * D; };
  auto step_at = [&](int64_t n, int k) {
    return load_step(p.step + (from + n) * p.step_time + j + k * D, p.step_row, lanes);
  };
  T* kept = p.kept + from / kTile * 2 * p.state + j;
  State x[K];
  Step constant[K];
  for (int k = 0; k < K; ++k) {
    x[k] = state[k], constant[k] = step_at(0, k);
    store_narrow(kept + k * D, x[k].z, lanes), store_narrow(kept + p.state + k * D, x[k].y, lanes);
  }
  run<K>(
      smaller(kTile, p.time - from), p.mask ? p.mask + from : nullptr, x,
      [&](int64_t n, int k) -> decltype(auto) {
        if constexpr (kVarying) return step_at(n, k);
        else return (constant[k]);
      },
      [&](int64_t n, int k) { return load_wide(p.force + at(n, k), lanes); },
      [&](int64_t n, int k, State x) { store_narrow(positions + at(n, k), x.y, lanes); });
  for (int k = 0; k < K; ++k) state[k] = x[k];
}

template <bool kVarying, typename T>
void forward(const Part<T>& p, const T* start, T* positions, T* final) {
  State x[kVectors] = {};
  load_ends(start, p.lanes, x);
  for (int64_t from = 0; from < p.time; from += kTile) {
    int64_t j = 0;
    for (; j + 2 * D <= p.lanes; j += 2 * D)
      forward_tile<kVarying, true, 2>(p, from, j, x + j / D, positions);
    for (; j + D <= p.lanes; j += D)
      forward_tile<kVarying, true, 1>(p, from, j, x + j / D, positions);
    if (j < p.lanes) forward_tile<kVarying, false, 1>(p, from, j, x + j / D, positions);
  }
  store_ends(x, p.lanes, final);
}

// Recomputes the states of the tile, in double precision.
template <bool kVarying, bool kWhole, typename T>
inline void backward_tile(const Part<T>& p, int64_t from, int64_t j, const T* d_positions, State& d,
                          T* d_force, T* d_step, Step& d_constant) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  const int64_t rows = smaller(kTile, p.time - from);
  const uint8_t* mask = p.mask ? p.mask + from : nullptr;
  const T* kept = p.kept + from / kTile * 2 * p.state + j;
  auto at = [&](int64_t n) { return (from + n) * p.state + j; };
  auto step_at = [&](int64_t n) { return (from + n) * p.step_time + j; };
  const Step constant = load_step(p.step + step_at(0), p.step_row, lanes);
  auto step = [&](int64_t n, int = 0) -> decltype(auto) {
    if constexpr (kVarying) return load_step(p.step + step_at(n), p.step_row, lanes);
    else return (constant);
  };
  auto force = [&](int64_t n, int = 0) { return load_wide(p.force + at(n), lanes); };
  State x[1] = {{load_wide(kept, lanes), load_wide(kept + p.state, lanes)}}, before[kTile];
  State d_state[1] = {d};
  Step d_sum = d_constant;
  before[0] = x[0];
  run<1>(rows - 1, mask, x, step, force, [&](int64_t n, int, const State& x) {
    before[n + 1].z = x.z, before[n + 1].y = x.y;
  });
  pull_back<1>(
      rows, mask, d_state, step,
      [&](int64_t n, int) { return load_wide(d_positions + at(n), lanes); },
      [&](int64_t n, int k, vd d_b, const State& d_after) {
        const Step d_here = d_step_of(d_after, before[n], force(n, k));
        store_narrow(d_force + at(n), d_b, lanes);
        if (kVarying)
          store_step(d_step + step_at(n), p.step_row, d_here, lanes);
        else
          d_sum += d_here;
      });
  d = d_state[0], d_constant = d_sum;
}

template <bool kVarying, typename T>
void backward(const Part<T>& p, const T* d_positions, const T* d_final, T* d_force, T* d_step,
              T* d_start) {
  State d[kVectors] = {};
  Step d_constant[kVectors] = {};
  load_ends(d_final, p.lanes, d);
  const int64_t whole = p.lanes / D * D;
  for (int64_t from = (tiles(p.time) - 1) * kTile; from >= 0; from -= kTile) {
    for (int64_t j = 0; j < whole; j += D)
      backward_tile<kVarying, true>(p, from, j, d_positions, d[j / D], d_force, d_step,
                                    d_constant[j / D]);
    if (whole < p.lanes)
      backward_tile<kVarying, false>(p, from, whole, d_positions, d[whole / D], d_force, d_step,
                                     d_constant[whole / D]);
  }
  store_ends(d, p.lanes, d_start);
  for (int64_t j = 0; j < p.lanes && !kVarying; j += D)
    store_step(d_step + j, p.step_row, d_constant[j / D], static_cast<int>(smaller(D, p.lanes - j)));
}

template <typename T>
constexpr Kernels<T> both = {{forward<false, T>, forward<true, T>},
                             {backward<false, T>, backward<true, T>}};

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {both<float>, both<double>};
}
}  // namespace linoss::scan

#else

#include <tuple>
#include <type_traits>

#include "runtime.h"

namespace linoss::scan {

LINOSS_CHOOSE(Table, kernels)

template <ffi::DataType kType>
struct Handlers {
  using T = std::conditional_t<kType == ffi::F32, float, double>;
  using In = ffi::Buffer<kType>;
  using Out = ffi::ResultBuffer<kType>;

  static const Kernels<T>& chosen() {
    if constexpr (kType == ffi::F32) return kernels().f32;
    else return kernels().f64;
  }

  // force (batch, time, state); step (6, state) or (6, batch, time, state); mask (batch, time) or
  // empty; kept (batch, tiles, 2, state).
  struct Problem {
    int64_t batch, time, state;
    int64_t group, groups;  // oscillators of a group, and the number of groups
    bool varying;
    const T *force, *step;
    const uint8_t* mask;

    Problem(const In& force, const In& step, const U8& mask, Shapes& shapes)
        : varying(step.dimensions().size() == 4), force(force.typed_data()),
          step(step.typed_data()), mask(or_null(mask)) {
      std::tie(batch, time, state) = shapes.sizes<3>("force", force);
      check_step("step", step, shapes);
      if (this->mask) shapes.check("mask", mask, {batch, time});
      group = batch < 16 ? 16 : kMostLanes;  // few sequences: threads share the oscillators
      groups = (state + group - 1) / group;
    }

    void check_step(const char* name, const In& step, Shapes& shapes) const {
      if (varying)
        shapes.check(name, step, {kStepRows, batch, time, state});
      else
        shapes.check(name, step, {kStepRows, state});
    }

    // Calls work(part, i, first) for the groups of oscillators, from `first` on, of each sequence i.
    template <typename Work>
    ffi::Error run(Threads& threads, T* kept, Work work) const {
      return parallel(threads, batch * groups, 0, [&](int64_t number, float*) {
        const int64_t i = number / groups, first = number % groups * group;
        const Part<T> part = {time, state, std::min(group, state - first),
                              step + (varying ? at(i, first) : first),
                              varying ? batch * time * state : state, varying ? state : 0,
                              force + at(i, first), mask ? mask + i * time : nullptr,
                              kept + i * tiles(time) * 2 * state + first};
        work(part, i, first);
      });
    }
    // Offsets in arrays like the force, and in initial and final states.
    int64_t at(int64_t i, int64_t first) const { return i * time * state + first; }
    int64_t ends(int64_t i, int64_t first) const { return (i * state + first) * 2; }
  };

  static ffi::Error forward(Threads threads, In force, In step, U8 mask, In start, Out positions,
                            Out final, Out kept) {
    Shapes shapes;
    const Problem p(force, step, mask, shapes);
    shapes.check("start", start, {p.batch, p.state, 2});
    shapes.check("positions", *positions, {p.batch, p.time, p.state});
    shapes.check("final", *final, {p.batch, p.state, 2});
    shapes.check("kept", *kept, {p.batch, tiles(p.time), 2, p.state});
    if (shapes.wrong()) return shapes.error();
    return p.run(threads, kept->typed_data(), [&](const Part<T>& part, int64_t i, int64_t first) {
      chosen().forward[p.varying](part, start.typed_data() + p.ends(i, first),
                                  positions->typed_data() + p.at(i, first),
                                  final->typed_data() + p.ends(i, first));
    });
  }

  static ffi::Error backward(Threads threads, In force, In step, U8 mask, In kept, In d_positions,
                             In d_final, Out d_force, Out d_step, Out d_start) {
    Shapes shapes;
    const Problem p(force, step, mask, shapes);
    shapes.check("kept", kept, {p.batch, tiles(p.time), 2, p.state});
    shapes.check("d_positions", d_positions, {p.batch, p.time, p.state});
    shapes.check("d_final", d_final, {p.batch, p.state, 2});
    shapes.check("d_force", *d_force, {p.batch, p.time, p.state});
    shapes.check("d_start", *d_start, {p.batch, p.state, 2});
    p.check_step("d_step", *d_step, shapes);
    if (shapes.wrong()) return shapes.error();
    const int64_t size = p.varying ? 0 : kStepRows * p.state;
    Memory<T> sums(p.batch * size);  // for each sequence
    if (!sums.at) return out_of_memory();
    T *total = d_step->typed_data(), *unchanged = const_cast<T*>(kept.typed_data());
    ffi::Error error = p.run(threads, unchanged, [&](const Part<T>& part, int64_t i, int64_t first) {
      chosen().backward[p.varying](part, d_positions.typed_data() + p.at(i, first),
                                   d_final.typed_data() + p.ends(i, first),
                                   d_force->typed_data() + p.at(i, first),
                                   p.varying ? total + p.at(i, first) : sums.at + i * size + first,
                                   d_start->typed_data() + p.ends(i, first));
    });
    std::fill_n(total, size, T(0));
    for (int64_t i = 0; i < p.batch; ++i)
      for (int64_t k = 0; k < size; ++k) total[k] += sums.at[i * size + k];
    return error;
  }
};

LINOSS_TARGET(linoss_scan_forward_float32, Handlers<ffi::F32>::forward);
LINOSS_TARGET(linoss_scan_forward_float64, Handlers<ffi::F64>::forward);
LINOSS_TARGET(linoss_scan_backward_float32, Handlers<ffi::F32>::backward);
LINOSS_TARGET(linoss_scan_backward_float64, Handlers<ffi::F64>::backward);

}  // namespace linoss::scan

#endif
