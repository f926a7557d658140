// A diagonal recurrence of complex numbers, x_n = a_n x_{n-1} + f_n, over whole sequences. Rows hold the
// real parts of all modes, then their imaginary parts.

#include "sequences.h"

namespace linoss::diagonal {

// The step of a mode is its factor a.
template <typename T>
struct Kernels {
  // The input is the force. start: width. states: time x width.
  void (*forward)(const Part<T>&, const T* start, T* states);
  // The input is the states. d_factor: like the factor.
  void (*backward)(const Part<T>&, const T* start, const T* d_states, T* d_force, T* d_factor,
                   T* d_start);
};
using Table = Precisions<Kernels>;

}  // namespace linoss::diagonal

#ifdef LINOSS_ISA

#include "vector.h"

namespace linoss::diagonal {
namespace {

struct Complex {
  vd re, im;
};

// The real and imaginary parts of the first `lanes` of D modes.
template <typename T>
inline Complex read(const T* p, int64_t modes, int lanes) {
  return {load_wide(p, lanes), load_wide(p + modes, lanes)};
}
template <typename T>
inline void write(T* p, int64_t modes, const Complex& x, int lanes) {
  store_narrow(p, x.re, lanes), store_narrow(p + modes, x.im, lanes);
}

// D modes, or (not kWhole) the remaining ones.
template <bool kWhole, typename T>
inline void forward_lanes(const Part<T>& p, int64_t j, const T* start, T* states) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  const int64_t modes = p.width / 2;
  Complex x = read(start + j, modes, lanes), a = read(p.step + j, modes, lanes);
  for (int64_t n = 0; n < p.time; ++n) {
    if (!p.mask || p.mask[n]) {
      if (p.step_time) a = read(p.step + n * p.step_time + j, modes, lanes);
      const Complex f = read(p.input + n * p.width + j, modes, lanes);
      const vd re = a.re * x.re - a.im * x.im + f.re;
      x.im = a.re * x.im + a.im * x.re + f.im, x.re = re;
    }
    write(states + n * p.width + j, modes, x, lanes);
  }
}

template <typename T>
void forward(const Part<T>& p, const T* start, T* states) {
  int64_t j = 0;
  for (; j + D <= p.lanes; j += D) forward_lanes<true>(p, j, start, states);
  if (j < p.lanes) forward_lanes<false>(p, j, start, states);
}

// Let l_n be the total gradient of x_n. Then l_n = conj(a_{n+1}) l_{n+1} + d_n, the gradient of
// f_n is l_n, and that of a_n is conj(x_{n-1}) l_n.
template <bool kWhole, typename T>
inline void backward_lanes(const Part<T>& p, int64_t j, const T* start, const T* d_states,
                           T* d_force, T* d_factor, T* d_start) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  const int64_t row = p.width, modes = row / 2;
  Complex a = read(p.step + j, modes, lanes), l = {}, total = {};
  for (int64_t n = p.time - 1; n >= 0; --n) {
    const Complex d = read(d_states + n * row + j, modes, lanes);
    l.re += d.re, l.im += d.im;
    const bool here = !p.mask || p.mask[n];
    Complex d_a = {};
    if (here) {
      const Complex x = n ? read(p.input + (n - 1) * row + j, modes, lanes)
                          : read(start + j, modes, lanes);
      d_a = {x.re * l.re + x.im * l.im, x.re * l.im - x.im * l.re};
      total.re += d_a.re, total.im += d_a.im;
    }
    if (p.step_time) write(d_factor + n * p.step_time + j, modes, d_a, lanes);
    write(d_force + n * row + j, modes, here ? l : Complex{}, lanes);
    if (here) {
      if (p.step_time) a = read(p.step + n * p.step_time + j, modes, lanes);
      const vd re = a.re * l.re + a.im * l.im;
      l.im = a.re * l.im - a.im * l.re, l.re = re;
    }
  }
  if (!p.step_time) write(d_factor + j, modes, total, lanes);
  write(d_start + j, modes, l, lanes);
}

template <typename T>
void backward(const Part<T>& p, const T* start, const T* d_states, T* d_force, T* d_factor,
              T* d_start) {
  int64_t j = 0;
  for (; j + D <= p.lanes; j += D)
    backward_lanes<true>(p, j, start, d_states, d_force, d_factor, d_start);
  if (j < p.lanes) backward_lanes<false>(p, j, start, d_states, d_force, d_factor, d_start);
}

template <typename T>
constexpr Kernels<T> functions = {forward<T>, backward<T>};

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {functions<float>, functions<double>};
}
}  // namespace linoss::diagonal

#else

namespace linoss::diagonal {

LINOSS_CHOOSE(Table, kernels)

// force or states, factor, mask: see Sequences. start (batch, 2 modes).
template <typename T>
ffi::Error forward(Threads& threads, Arrays& a) {
  const Sequences<T> s(a, 1, 2);
  const T* start = a.in<T>("start", {s.batch, s.width});
  T* states = a.out<T>("states", {s.batch, s.time, s.width});
  if (a.wrong()) return a.error();
  on_large_pages(states, s.batch * s.time * s.width);
  return s.run(threads, [&](const Part<T>& part, int64_t i, int64_t first) {
    kernels().of(T()).forward(part, start + i * s.width + first, states + s.at(i, first));
  });
}

template <typename T>
ffi::Error backward(Threads& threads, Arrays& a) {
  const Sequences<T> s(a, 1, 2);
  const T* start = a.in<T>("start", {s.batch, s.width});
  const T* d_states = a.in<T>("d_states", {s.batch, s.time, s.width});
  T* d_force = a.out<T>("d_force", {s.batch, s.time, s.width});
  T* d_factor = s.d_step(a);
  T* d_start = a.out<T>("d_start", {s.batch, s.width});
  if (a.wrong()) return a.error();
  on_large_pages(d_force, s.batch * s.time * s.width);
  return s.run_back(threads, d_factor, [&](const Part<T>& part, int64_t i, int64_t first, T* d) {
    const int64_t at = s.at(i, first), ends = i * s.width + first;
    kernels().of(T()).backward(part, start + ends, d_states + at, d_force + at, d, d_start + ends);
  });
}

LINOSS_HANDLER(linoss_diagonal_forward_float32, forward<float>);
LINOSS_HANDLER(linoss_diagonal_forward_float64, forward<double>);
LINOSS_HANDLER(linoss_diagonal_backward_float32, backward<float>);
LINOSS_HANDLER(linoss_diagonal_backward_float64, backward<double>);

}  // namespace linoss::diagonal

#endif
