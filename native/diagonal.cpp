// A diagonal recurrence of complex numbers, x_n = a_n x_{n-1} + f_n, over whole sequences. Rows hold the
// real parts of all modes, then their imaginary parts.

#include "kernel.h"

namespace linoss::diagonal {

// Maximum number of modes of one sequence that are computed together.
constexpr int64_t kMostLanes = 64;

// `lanes` modes of one sequence, in rows of `modes` real and `modes` imaginary parts. Pointers are to
// the first of these modes.
template <typename T>
struct Part {
  int64_t time, modes, lanes;
  const T* factor;      // a: one row, or one for each sample
  int64_t factor_time;  // distance between samples: 0 if constant
  const uint8_t* mask;  // time, or null
  const T* start;       // the state before the first sample
};

template <typename T>
struct Kernels {
  void (*forward)(const Part<T>&, const T* force, T* states);
  // d_factor: like factor.
  void (*backward)(const Part<T>&, const T* states, const T* d_states, T* d_force, T* d_factor,
                   T* d_start);
};

struct Table {
  Kernels<float> f32;
  Kernels<double> f64;
};

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
inline void forward_lanes(const Part<T>& p, int64_t j, const T* force, T* states) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  const int64_t row = 2 * p.modes;
  Complex x = read(p.start + j, p.modes, lanes), a = read(p.factor + j, p.modes, lanes);
  for (int64_t n = 0; n < p.time; ++n) {
    if (!p.mask || p.mask[n]) {
      if (p.factor_time) a = read(p.factor + n * p.factor_time + j, p.modes, lanes);
      const Complex f = read(force + n * row + j, p.modes, lanes);
      const vd re = a.re * x.re - a.im * x.im + f.re;
      x.im = a.re * x.im + a.im * x.re + f.im, x.re = re;
    }
    write(states + n * row + j, p.modes, x, lanes);
  }
}

template <typename T>
void forward(const Part<T>& p, const T* force, T* states) {
  int64_t j = 0;
  for (; j + D <= p.lanes; j += D) forward_lanes<true>(p, j, force, states);
  if (j < p.lanes) forward_lanes<false>(p, j, force, states);
}

// Let l_n be the total gradient of x_n. Then l_n = conj(a_{n+1}) l_{n+1} + d_n, the gradient of
// f_n is l_n, and that of a_n is conj(x_{n-1}) l_n.
template <bool kWhole, typename T>
inline void backward_lanes(const Part<T>& p, int64_t j, const T* states, const T* d_states,
                           T* d_force, T* d_factor, T* d_start) {
  const int lanes = kWhole ? D : static_cast<int>(p.lanes - j);
  const int64_t row = 2 * p.modes;
  Complex a = read(p.factor + j, p.modes, lanes), l = {}, total = {};
  for (int64_t n = p.time - 1; n >= 0; --n) {
    const Complex d = read(d_states + n * row + j, p.modes, lanes);
    l.re += d.re, l.im += d.im;
    const bool here = !p.mask || p.mask[n];
    Complex d_a = {};
    if (here) {
      const Complex x = n ? read(states + (n - 1) * row + j, p.modes, lanes)
                          : read(p.start + j, p.modes, lanes);
      d_a = {x.re * l.re + x.im * l.im, x.re * l.im - x.im * l.re};
      total.re += d_a.re, total.im += d_a.im;
    }
    if (p.factor_time) write(d_factor + n * p.factor_time + j, p.modes, d_a, lanes);
    write(d_force + n * row + j, p.modes, here ? l : Complex{}, lanes);
    if (here) {
      if (p.factor_time) a = read(p.factor + n * p.factor_time + j, p.modes, lanes);
      const vd re = a.re * l.re + a.im * l.im;
      l.im = a.re * l.im - a.im * l.re, l.re = re;
    }
  }
  if (!p.factor_time) write(d_factor + j, p.modes, total, lanes);
  write(d_start + j, p.modes, l, lanes);
}

template <typename T>
void backward(const Part<T>& p, const T* states, const T* d_states, T* d_force, T* d_factor,
              T* d_start) {
  int64_t j = 0;
  for (; j + D <= p.lanes; j += D)
    backward_lanes<true>(p, j, states, d_states, d_force, d_factor, d_start);
  if (j < p.lanes) backward_lanes<false>(p, j, states, d_states, d_force, d_factor, d_start);
}

template <typename T>
constexpr Kernels<T> both = {forward<T>, backward<T>};

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {both<float>, both<double>};
}
}  // namespace linoss::diagonal

#else

#include <type_traits>

#include "runtime.h"

namespace linoss::diagonal {

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

  // Arrays like the force are (batch, time, 2 modes); factor (2 modes) or like the force; mask (batch,
  // time) or empty; start (batch, 2 modes).
  struct Problem {
    int64_t batch, time, row, modes;
    int64_t group, groups;  // modes of a group, and the number of groups
    bool varying;
    const T *factor, *start;
    const uint8_t* mask;

    Problem(const In& like, const In& factor, const U8& mask, const In& start, Shapes& shapes)
        : varying(factor.dimensions().size() == 3), factor(factor.typed_data()),
          start(start.typed_data()), mask(or_null(mask)) {
      std::tie(batch, time, row) = shapes.sizes<3>("force", like);
      modes = row / 2;
      check_factor("factor", factor, shapes);
      shapes.check("start", start, {batch, row});
      if (this->mask) shapes.check("mask", mask, {batch, time});
      group = batch < 16 ? 16 : kMostLanes;  // few sequences: threads share the modes
      groups = (modes + group - 1) / group;
    }

    template <typename Buffer>
    void check_factor(const char* name, const Buffer& factor, Shapes& shapes) const {
      if (varying)
        shapes.check(name, factor, {batch, time, row});
      else
        shapes.check(name, factor, {row});
    }

    // Calls work(part, at, ends, i, first) for each group of modes, from `first` on, of each sequence i:
    // `at` and `ends` are where it begins in arrays like the force, and in states.
    template <typename Work>
    ffi::Error run(Threads& threads, Work work) const {
      return parallel(threads, batch * groups, 0, [&](int64_t number, float*) {
        const int64_t i = number / groups, first = number % groups * group;
        const int64_t at = i * time * row + first, ends = i * row + first;
        const Part<T> part = {time, modes, std::min(group, modes - first),
                              factor + (varying ? at : first), varying ? row : 0,
                              mask ? mask + i * time : nullptr, start + ends};
        work(part, at, ends);
      });
    }
  };

  static ffi::Error forward(Threads threads, In force, In factor, U8 mask, In start, Out states) {
    Shapes shapes;
    const Problem p(force, factor, mask, start, shapes);
    shapes.check("states", *states, {p.batch, p.time, p.row});
    if (shapes.wrong()) return shapes.error();
    on_large_pages(states);
    return p.run(threads, [&](const Part<T>& part, int64_t at, int64_t) {
      chosen().forward(part, force.typed_data() + at, states->typed_data() + at);
    });
  }

  static ffi::Error backward(Threads threads, In states, In factor, U8 mask, In start, In d_states,
                             Out d_force, Out d_factor, Out d_start) {
    Shapes shapes;
    const Problem p(states, factor, mask, start, shapes);
    shapes.check("d_states", d_states, {p.batch, p.time, p.row});
    shapes.check("d_force", *d_force, {p.batch, p.time, p.row});
    shapes.check("d_start", *d_start, {p.batch, p.row});
    p.check_factor("d_factor", *d_factor, shapes);
    if (shapes.wrong()) return shapes.error();
    on_large_pages(d_force);
    Memory<T> sums(p.varying ? 0 : p.batch * p.row);  // for each sequence
    if (!sums.at) return out_of_memory();
    T* total = d_factor->typed_data();
    ffi::Error error = p.run(threads, [&](const Part<T>& part, int64_t at, int64_t ends) {
      chosen().backward(part, states.typed_data() + at, d_states.typed_data() + at,
                        d_force->typed_data() + at, p.varying ? total + at : sums.at + ends,
                        d_start->typed_data() + ends);
    });
    if (!p.varying) {
      std::fill_n(total, p.row, T(0));
      for (int64_t i = 0; i < p.batch; ++i)
        for (int64_t k = 0; k < p.row; ++k) total[k] += sums.at[i * p.row + k];
    }
    return error;
  }
};

LINOSS_TARGET(linoss_diagonal_forward_float32, Handlers<ffi::F32>::forward);
LINOSS_TARGET(linoss_diagonal_forward_float64, Handlers<ffi::F64>::forward);
LINOSS_TARGET(linoss_diagonal_backward_float32, Handlers<ffi::F32>::backward);
LINOSS_TARGET(linoss_diagonal_backward_float64, Handlers<ffi::F64>::backward);

}  // namespace linoss::diagonal

#endif
