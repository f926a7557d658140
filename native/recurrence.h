// The recurrence x_n = M x_{n-1} + F b_n of oscillators x = [z, y], and its adjoint, over one tile.
//
// All arithmetic is in double precision, because errors accumulate over the sequence. Memory layout,
// precision and whether steps vary are determined by the caller, which passes functions of the
// sample n that are inlined. Functions for a constant step return a reference, and variables are
// local: a copy of a whole struct would go through memory. A sample with 0 in the mask leaves the
// state unchanged.
#pragma once

#include "vector.h"

namespace linoss {
namespace {

// M and F of D oscillators, or their gradients; and the state, or its gradient.
struct Step {
  vd zz, zy, yz, yy, fz, fy;
};
struct State {
  vd z, y;
};

// Loads and stores a step as kStepRows rows with distance `row`.
template <typename T>
inline Step load_step(const T* p, int64_t row, int lanes = D) {
  auto at = [&](int r) { return load_wide(p + r * row, lanes); };
  return {at(0), at(1), at(2), at(3), at(4), at(5)};
}
template <typename T>
inline void store_step(T* p, int64_t row, const Step& s, int lanes = D) {
  auto put = [&](int r, vd x) { store_narrow(p + r * row, x, lanes); };
  put(0, s.zz), put(1, s.zy), put(2, s.yz), put(3, s.yy), put(4, s.fz), put(5, s.fy);
}
// The gradient of a step: d is the gradient of the state after it, x the state before it, b its force.
inline Step d_step_of(const State& d, const State& x, vd b) {
  return {d.z * x.z, d.z * x.y, d.y * x.z, d.y * x.y, d.z * b, d.y * b};
}
inline Step& operator+=(Step& a, const Step& b) {
  a.zz += b.zz, a.zy += b.zy, a.yz += b.yz, a.yy += b.yy, a.fz += b.fz, a.fy += b.fy;
  return a;
}

// Advances K vectors of oscillators, to hide latency, over `rows` samples. step(n, k) and force(n, k)
// are the step and force of vector k; give(n, k, x) receives its state after sample n.
template <int K, typename StepAt, typename ForceAt, typename Give>
inline void run(int64_t rows, const uint8_t* mask, State (&x)[K], StepAt step, ForceAt force,
                Give give) {
  for (int64_t n = 0; n < rows; ++n)
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) {
      if (!mask || mask[n]) {
        const Step& s = step(n, k);
        const vd b = force(n, k);
        const vd z = s.zz * x[k].z + (s.zy * x[k].y + s.fz * b);
        x[k].y = s.yz * x[k].z + (s.yy * x[k].y + s.fy * b);
        x[k].z = z;
      }
      give(n, k, x[k]);
    }
}

// The adjoint, backwards in time. `d` is the gradient of the state after the last sample, and becomes
// that of the state before the first; d_position(n, k) is the gradient of the position after sample n.
// give(n, k, d_force, d_after) receives the gradients of its force and of the state after it, 0 if
// masked.
template <int K, typename StepAt, typename PositionAt, typename Give>
inline void pull_back(int64_t rows, const uint8_t* mask, State (&d)[K], StepAt step,
                      PositionAt d_position, Give give) {
  for (int64_t n = rows - 1; n >= 0; --n)
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) {
      const vd dz = d[k].z, dy = d[k].y + d_position(n, k);
      if (mask && !mask[n]) {
        d[k].y = dy;
        give(n, k, vd{}, State{});
        continue;
      }
      const Step& s = step(n, k);
      const vd d_force = s.fz * dz + s.fy * dy;
      d[k].z = s.zz * dz + s.yz * dy, d[k].y = s.zy * dz + s.yy * dy;
      give(n, k, d_force, State{dz, dy});
    }
}

}  // namespace
}  // namespace linoss
