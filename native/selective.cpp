// The selective scan: for each channel c and state k, with a step d_n that depends on the sample,
//
//   x_n = exp(d_n A) x_{n-1} + d_n u_n B_n,    y_n = sum over k of C_n x_n.
//
// Vectors are over channels. The forward pass stores the states at the start of each tile; the
// backward pass recomputes the others. Errors decay, so single precision suffices.

#include "kernel.h"

namespace linoss::selective {

// One sequence. Rows of u, steps and outputs hold `channels`, those of B and C `states`; A and a state
// are states x channels, with padded channels only in `A` and in memory of the kernel.
struct Sequence {
  int64_t time, channels, states;
  const float *u, *delta, *A, *B, *C, *start;
  float* kept;  // tiles x states x channels
};

struct Gradients {
  float *u, *delta, *A, *B, *C, *start;
};

struct Table {
  void (*forward)(const Sequence&, float* y, float* final);
  // d_A is added to. memory: scratch(states) floats.
  void (*backward)(const Sequence&, const float* d_y, const float* d_final, const Gradients& d,
                   float* memory);
};

// Memory for a tile's states before each sample, its factors, and the sensitivity; one vector each.
constexpr int64_t kWidest = 16;
inline int64_t scratch(int64_t states) { return (2 * kTile + 2) * states * kWidest; }

}  // namespace linoss::selective

#ifdef LINOSS_ISA

#include "vector.h"

namespace linoss::selective {
namespace {

inline float sum(vf x) {
  float total = 0;
  for (int i = 0; i < W; ++i) total += x[i];
  return total;
}
inline void store_part(float* p, vf x, int64_t left) { std::memcpy(p, &x, smaller(left, W) * 4); }

// W channels from c on.
struct Lanes {
  const Sequence& s;
  int64_t c, left;
  Lanes(const Sequence& s, int64_t c) : s(s), c(c), left(s.channels - c) {}
  vf sample(const float* rows, int64_t n) const {
    return load_part(rows + n * s.channels + c, left);
  }
  vf state(const float* states, int64_t k) const {
    return load_part(states + k * s.channels + c, left);
  }
  void put(float* rows, int64_t n, vf x) const { store_part(rows + n * s.channels + c, x, left); }
};

void forward(const Sequence& s, float* y, float* final) {
  const int64_t size = s.states * s.channels;
  std::memcpy(final, s.start, size * 4);  // updated by each sample
  for (int64_t n = 0; n < s.time; ++n) {
    if (n % kTile == 0) std::memcpy(s.kept + n / kTile * size, final, size * 4);
    const float *B = s.B + n * s.states, *C = s.C + n * s.states;
    for (int64_t c = 0; c < s.channels; c += W) {
      const Lanes l(s, c);
      const vf delta = l.sample(s.delta, n), push = delta * l.sample(s.u, n);
      vf total = {};
      for (int64_t k = 0; k < s.states; ++k) {
        const vf x = exponential(delta * l.state(s.A, k)) * l.state(final, k) + push * B[k];
        total += x * C[k];
        l.put(final, k, x);
      }
      l.put(y, n, total);
    }
  }
}

// With l_n the total gradient of x_n and a_n = exp(d_n A): the gradient of a_n is l_n x_{n-1},
// and a_n l_n is added to l_{n-1}.
void backward(const Sequence& s, const float* d_y, const float* d_final, const Gradients& d,
              float* memory) {
  const int64_t size = s.states * s.channels;
  vf* before = reinterpret_cast<vf*>(memory);  // rows of `states`, one more than samples
  vf* factor = before + (kTile + 1) * s.states;
  vf* l = factor + kTile * s.states;
  std::memcpy(d.start, d_final, size * 4);  // updated by each sample, backwards
  std::memset(d.B, 0, s.time * s.states * 4), std::memset(d.C, 0, s.time * s.states * 4);
  for (int64_t from = (tiles(s.time) - 1) * kTile; from >= 0; from -= kTile) {
    const int64_t rows = smaller(kTile, s.time - from);
    const float* kept = s.kept + from / kTile * size;
    for (int64_t c = 0; c < s.channels; c += W) {
      const Lanes at(s, c);
      for (int64_t k = 0; k < s.states; ++k)
        before[k] = at.state(kept, k), l[k] = at.state(d.start, k);
      for (int64_t n = 0; n < rows; ++n) {
        const float* B = s.B + (from + n) * s.states;
        const vf delta = at.sample(s.delta, from + n), push = delta * at.sample(s.u, from + n);
        const vf* x = before + n * s.states;
        vf *after = before + (n + 1) * s.states, *a = factor + n * s.states;
        for (int64_t k = 0; k < s.states; ++k) {
          a[k] = exponential(delta * at.state(s.A, k));
          after[k] = a[k] * x[k] + push * B[k];
        }
      }
      for (int64_t n = rows - 1; n >= 0; --n) {
        const int64_t sample = from + n, row = sample * s.states;
        const vf delta = at.sample(s.delta, sample), u = at.sample(s.u, sample);
        const vf dy = at.sample(d_y, sample), push = delta * u;
        const vf *x = before + n * s.states, *after = x + s.states, *a = factor + n * s.states;
        vf d_push = {}, d_delta = {};
        for (int64_t k = 0; k < s.states; ++k) {
          d.C[row + k] += sum(dy * after[k]);
          l[k] += dy * s.C[row + k];
          d.B[row + k] += sum(l[k] * push);
          d_push += l[k] * s.B[row + k];
          const vf A = at.state(s.A, k), d_exponent = l[k] * x[k] * a[k];
          d_delta += d_exponent * A;
          at.put(d.A, k, at.state(d.A, k) + d_exponent * delta);
          l[k] *= a[k];
        }
        at.put(d.delta, sample, d_delta + d_push * u);
        at.put(d.u, sample, d_push * delta);
      }
      for (int64_t k = 0; k < s.states; ++k) at.put(d.start, k, l[k]);
    }
  }
}

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {forward, backward};
}
}  // namespace linoss::selective

#else

#include "runtime.h"

namespace linoss::selective {

LINOSS_CHOOSE(Table, kernels)

// u, delta (batch, time, channels); A (states, channels); B, C (batch, time, states); start (batch,
// states, channels); kept (batch, tiles, states, channels). Threads process different sequences.
struct Problem {
  int64_t batch, time, channels, states;
  const float *u, *delta, *A, *B, *C, *start;

  explicit Problem(Arrays& a) {
    std::tie(batch, time, channels) = a.sizes<3>("u");
    u = a.in<float>("u", {batch, time, channels});
    delta = a.in<float>("delta", {batch, time, channels});
    std::tie(states, std::ignore) = a.sizes<2>("A");
    A = a.in<float>("A", {states, channels});
    B = a.in<float>("B", {batch, time, states});
    C = a.in<float>("C", {batch, time, states});
    start = a.in<float>("start", {batch, states, channels});
  }
  int64_t in(int64_t i) const { return i * time * channels; }
  int64_t across(int64_t i) const { return i * time * states; }
  int64_t ends(int64_t i) const { return i * states * channels; }
  Sequence sequence(int64_t i, float* kept) const {
    return {time, channels, states, u + in(i), delta + in(i), A, B + across(i), C + across(i),
            start + ends(i), kept + i * tiles(time) * states * channels};
  }
};

ffi::Error forward(Threads& threads, Arrays& a) {
  const Problem p(a);
  float* y = a.out<float>("y", {p.batch, p.time, p.channels});
  float* final = a.out<float>("final", {p.batch, p.states, p.channels});
  float* kept = a.out<float>("kept", {p.batch, tiles(p.time), p.states, p.channels});
  if (a.wrong()) return a.error();
  on_large_pages(y, p.in(p.batch)), on_large_pages(kept, p.ends(p.batch) * tiles(p.time));
  return parallel(threads, p.batch, 0, [&](int64_t i, float*) {
    kernels().forward(p.sequence(i, kept), y + p.in(i), final + p.ends(i));
  });
}

ffi::Error backward(Threads& threads, Arrays& a) {
  const Problem p(a);
  const float* kept = a.in<float>("kept", {p.batch, tiles(p.time), p.states, p.channels});
  const float* d_y = a.in<float>("d_y", {p.batch, p.time, p.channels});
  const float* d_final = a.in<float>("d_final", {p.batch, p.states, p.channels});
  float* d_u = a.out<float>("d_u", {p.batch, p.time, p.channels});
  float* d_delta = a.out<float>("d_delta", {p.batch, p.time, p.channels});
  float* d_A = a.out<float>("d_A", {p.states, p.channels});
  float* d_B = a.out<float>("d_B", {p.batch, p.time, p.states});
  float* d_C = a.out<float>("d_C", {p.batch, p.time, p.states});
  float* d_start = a.out<float>("d_start", {p.batch, p.states, p.channels});
  if (a.wrong()) return a.error();
  on_large_pages(d_u, p.in(p.batch)), on_large_pages(d_delta, p.in(p.batch));
  const int64_t size = p.ends(1);
  Memory<float> sums(groups_of(p.batch) * size);  // gradients of A
  if (!sums.at) return out_of_memory();
  ffi::Error error = parallel_sums(
      threads, p.batch, scratch(p.states), size, sums.at, [&](int64_t i, float* memory, float* sum) {
        const Gradients d = {d_u + p.in(i),     d_delta + p.in(i), sum,
                             d_B + p.across(i), d_C + p.across(i), d_start + p.ends(i)};
        kernels().backward(p.sequence(i, const_cast<float*>(kept)), d_y + p.in(i),
                           d_final + p.ends(i), d, memory);
      });
  std::copy_n(sums.at, size, d_A);
  return error;
}

LINOSS_HANDLER(linoss_selective_forward, forward);
LINOSS_HANDLER(linoss_selective_backward, backward);

}  // namespace linoss::selective

#endif
