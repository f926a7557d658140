// The scan alone: positions of oscillators over whole sequences, on unpadded arrays.

#include "kernel.h"

namespace linoss::scan {

// Maximum number of oscillators of one sequence that are computed together.
constexpr int64_t kMostLanes = 64;

// `lanes` oscillators of one sequence, in rows of `width`. Pointers are to the first of them.
template <typename T>
struct Part {
  int64_t time, width, lanes;
  const T* step;                // rows, `step_row` apart, of `width` or of time x width
  int64_t step_row, step_time;  // `step_time`: distance between samples, 0 if constant
  const T* input;               // time x width
  const uint8_t* mask;          // time, or null
};

// For constant and for varying steps, of kStepRows rows.
template <typename T>
struct Kernels {
  // start, final: width x 2. positions: time x width. kept: tiles x 2 x width, the state at the start of
  // each tile.
  void (*forward[2])(const Part<T>&, const T* start, T* positions, T* final, T* kept);
  // d_step: like the step.
  void (*backward[2])(const Part<T>&, const T* kept, const T* d_positions, const T* d_final,
                      T* d_force, T* d_step, T* d_start);
};
struct Table {
  Kernels<float> single;
  Kernels<double> twice;
  const Kernels<float>& of(float) const { return single; }
  const Kernels<double>& of(double) const { return twice; }
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
inline void forward_tile(const Part<T>& p, int64_t from, int64_t j, State* state, T* positions,
                         T* kept) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  auto at = [&](int64_t n, int k) { return (from + n) * p.width + j + k * D; };
  auto step_at = [&](int64_t n, int k) {
    return load_step(p.step + (from + n) * p.step_time + j + k * D, p.step_row, lanes);
  };
  kept += from / kTile * 2 * p.width + j;
  State x[K];
  Step constant[K];
  for (int k = 0; k < K; ++k) {
    x[k] = state[k], constant[k] = step_at(0, k);
    store_narrow(kept + k * D, x[k].z, lanes), store_narrow(kept + p.width + k * D, x[k].y, lanes);
  }
  run<K>(
      smaller(kTile, p.time - from), p.mask ? p.mask + from : nullptr, x,
      [&](int64_t n, int k) -> decltype(auto) {
        if constexpr (kVarying) return step_at(n, k);
        else return (constant[k]);
      },
      [&](int64_t n, int k) { return load_wide(p.input + at(n, k), lanes); },
      [&](int64_t n, int k, State x) { store_narrow(positions + at(n, k), x.y, lanes); });
  for (int k = 0; k < K; ++k) state[k] = x[k];
}

template <bool kVarying, typename T>
void forward(const Part<T>& p, const T* start, T* positions, T* final, T* kept) {
  State x[kVectors] = {};
  load_ends(start, p.lanes, x);
  for (int64_t from = 0; from < p.time; from += kTile) {
    int64_t j = 0;
    for (; j + 2 * D <= p.lanes; j += 2 * D)
      forward_tile<kVarying, true, 2>(p, from, j, x + j / D, positions, kept);
    for (; j + D <= p.lanes; j += D)
      forward_tile<kVarying, true, 1>(p, from, j, x + j / D, positions, kept);
    if (j < p.lanes) forward_tile<kVarying, false, 1>(p, from, j, x + j / D, positions, kept);
  }
  store_ends(x, p.lanes, final);
}

// Recomputes the states of the tile, in double precision.
template <bool kVarying, bool kWhole, typename T>
inline void backward_tile(const Part<T>& p, int64_t from, int64_t j, const T* kept,
                          const T* d_positions, State& d, T* d_force, T* d_step, Step& d_constant) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  const int64_t rows = smaller(kTile, p.time - from);
  const uint8_t* mask = p.mask ? p.mask + from : nullptr;
  kept += from / kTile * 2 * p.width + j;
  auto at = [&](int64_t n) { return (from + n) * p.width + j; };
  auto step_at = [&](int64_t n) { return (from + n) * p.step_time + j; };
  const Step constant = load_step(p.step + step_at(0), p.step_row, lanes);
  auto step = [&](int64_t n, int = 0) -> decltype(auto) {
    if constexpr (kVarying) return load_step(p.step + step_at(n), p.step_row, lanes);
    else return (constant);
  };
  auto force = [&](int64_t n, int = 0) { return load_wide(p.input + at(n), lanes); };
  State x[1] = {{load_wide(kept, lanes), load_wide(kept + p.width, lanes)}}, before[kTile];
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
void backward(const Part<T>& p, const T* kept, const T* d_positions, const T* d_final, T* d_force,
              T* d_step, T* d_start) {
  State d[kVectors] = {};
  Step d_constant[kVectors] = {};
  load_ends(d_final, p.lanes, d);
  const int64_t whole = p.lanes / D * D;
  for (int64_t from = (tiles(p.time) - 1) * kTile; from >= 0; from -= kTile) {
    for (int64_t j = 0; j < whole; j += D)
      backward_tile<kVarying, true>(p, from, j, kept, d_positions, d[j / D], d_force, d_step,
                                    d_constant[j / D]);
    if (whole < p.lanes)
      backward_tile<kVarying, false>(p, from, whole, kept, d_positions, d[whole / D], d_force, d_step,
                                     d_constant[whole / D]);
  }
  store_ends(d, p.lanes, d_start);
  for (int64_t j = 0; j < p.lanes && !kVarying; j += D)
    store_step(d_step + j, p.step_row, d_constant[j / D], static_cast<int>(smaller(D, p.lanes - j)));
}

template <typename T>
constexpr Kernels<T> functions = {{forward<false, T>, forward<true, T>},
                                  {backward<false, T>, backward<true, T>}};

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {functions<float>, functions<double>};
}
}  // namespace linoss::scan

#else

#include "runtime.h"

namespace linoss::scan {

LINOSS_CHOOSE(Table, kernels)

// force (batch, time, oscillators); step (rows, oscillators) or (rows, batch, time, oscillators); mask (batch,
// time) or empty; start, final (batch, oscillators, 2); kept (batch, tiles, 2, oscillators).
template <typename T>
struct Problem {
  int64_t batch, time, width;
  bool varying;
  const T *force, *step;
  const uint8_t* mask;

  explicit Problem(Arrays& a) {
    std::tie(batch, time, width) = a.sizes<3>("force");
    force = a.in<T>("force", {batch, time, width});
    varying = a.rank() == 4;
    step = varying ? a.in<T>("step", {kStepRows, batch, time, width})
                   : a.in<T>("step", {kStepRows, width});
    mask = a.in_or_null<uint8_t>("mask", {batch, time});
  }
  // Offsets in arrays like the force, in kept states, and in states.
  int64_t at(int64_t i, int64_t first) const { return i * time * width + first; }
  int64_t tile(int64_t i, int64_t first) const { return i * tiles(time) * 2 * width + first; }
  int64_t ends(int64_t i, int64_t first) const { return (i * width + first) * 2; }

  // Calls work(part, i, first) for the groups of oscillators, from `first` on, of each sequence i.
  template <typename Work>
  ffi::Error run(Threads& threads, Work work) const {
    const int64_t group = batch < 16 ? 16 : kMostLanes;  // few sequences: threads share oscillators
    const int64_t groups = (width + group - 1) / group;
    return parallel(threads, batch * groups, 0, [&](int64_t number, float*) {
      const int64_t i = number / groups, first = number % groups * group;
      const Part<T> part = {time, width, std::min(group, width - first),
                            step + (varying ? at(i, first) : first),
                            varying ? batch * time * width : width, varying ? width : 0,
                            force + at(i, first), mask ? mask + i * time : nullptr};
      work(part, i, first);
    });
  }
};

template <typename T>
ffi::Error forward(Threads& threads, Arrays& a) {
  const Problem<T> p(a);
  const T* start = a.in<T>("start", {p.batch, p.width, 2});
  T* positions = a.out<T>("positions", {p.batch, p.time, p.width});
  T* final = a.out<T>("final", {p.batch, p.width, 2});
  T* kept = a.out<T>("kept", {p.batch, tiles(p.time), 2, p.width});
  if (a.wrong()) return a.error();
  return p.run(threads, [&](const Part<T>& part, int64_t i, int64_t first) {
    const int64_t ends = p.ends(i, first);
    kernels().of(T()).forward[p.varying](part, start + ends, positions + p.at(i, first),
                                         final + ends, kept + p.tile(i, first));
  });
}

// The gradient of a constant step is summed over sequences.
template <typename T>
ffi::Error backward(Threads& threads, Arrays& a) {
  const Problem<T> p(a);
  const T* kept = a.in<T>("kept", {p.batch, tiles(p.time), 2, p.width});
  const T* d_positions = a.in<T>("d_positions", {p.batch, p.time, p.width});
  const T* d_final = a.in<T>("d_final", {p.batch, p.width, 2});
  T* d_force = a.out<T>("d_force", {p.batch, p.time, p.width});
  T* d_step = p.varying ? a.out<T>("d_step", {kStepRows, p.batch, p.time, p.width})
                        : a.out<T>("d_step", {kStepRows, p.width});
  T* d_start = a.out<T>("d_start", {p.batch, p.width, 2});
  if (a.wrong()) return a.error();
  const int64_t size = p.varying ? 0 : kStepRows * p.width;
  Memory<T> sums(p.batch * size);
  if (!sums.at) return out_of_memory();
  ffi::Error error = p.run(threads, [&](const Part<T>& part, int64_t i, int64_t first) {
    const int64_t at = p.at(i, first), ends = p.ends(i, first);
    T* d = p.varying ? d_step + at : sums.at + i * size + first;
    kernels().of(T()).backward[p.varying](part, kept + p.tile(i, first), d_positions + at,
                                          d_final + ends, d_force + at, d, d_start + ends);
  });
  std::fill_n(d_step, size, T(0));
  for (int64_t i = 0; i < p.batch; ++i)
    for (int64_t k = 0; k < size; ++k) d_step[k] += sums.at[i * size + k];
  return error;
}

LINOSS_HANDLER(linoss_scan_forward_float32, forward<float>);
LINOSS_HANDLER(linoss_scan_forward_float64, forward<double>);
LINOSS_HANDLER(linoss_scan_backward_float32, backward<float>);
LINOSS_HANDLER(linoss_scan_backward_float64, backward<double>);

}  // namespace linoss::scan

#endif
