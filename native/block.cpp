// A whole block in one pass over tiles: norm, B, oscillators, C and D, GELU, dropout, GLU, dropout,
// skip. The backward pass computes each tile again from the block's input and the state kept at the
// tile's start.

#include "kernel.h"

namespace linoss::block {

// Batch, time steps, channels, oscillators (real ones: complex pairs count twice).
struct Sizes {
  int64_t batch, time, hidden, state;
};

// Dropout after GELU and after GLU: two words of a key each.
struct Dropout {
  uint32_t threshold;  // an element is dropped if its bits are below; 0 for no dropout
  float scale;         // what the others are multiplied by
  uint32_t words[2][2];
  uint32_t origin;  // the number of the batch's first sample, where the batch is part of a larger one
  uint32_t stride;  // samples from one sequence to the next
};

// One sequence. u: time x hidden. mask: time, or null. kept: tiles x 2 x state, the state at each
// tile's start. index: the sequence's place in the batch, for dropout. packed: memory of Packed.
// workspace: memory of Tile, zero at first.
struct Sequence {
  const float* packed;
  int64_t index;
  const float* u;
  const uint8_t* mask;
  float *kept, *workspace;
};

struct Table {
  // start, final: state x 2. out: time x hidden. moments: see moments.h.
  void (*forward)(const Sizes&, const Dropout&, const Sequence&, const float* start, float* out,
                  float* final, double* moments);
  // d_out: null for zeros. pull: rows a and c of a + c out, which averages of out add to its
  // gradient. sums: memory of Gradients, which are added to.
  void (*backward)(const Sizes&, const Dropout&, const Sequence&, const float* d_out,
                   const float* d_final, const float* pull, float* d_u, float* d_start, float* sums);
};

namespace {

// Weights in padded rows of H or P; a matrix with its transpose.
struct Packed {
  int64_t H, P;
  Parts parts;
  float *mean, *scale, *feedthrough, *bias, *step, *glu_bias;
  float *input, *input_t;    // B: P x H
  float *output, *output_t;  // C: H x P
  float *glu, *glu_t;        // gate, then value: 2 H x H

  Packed(const Sizes& s, float* at) : H(padded(s.hidden)), P(padded(s.state)), parts{at} {
    mean = parts.take(H), scale = parts.take(H), feedthrough = parts.take(H);
    bias = parts.take(P), step = parts.take(kStepRows * P), glu_bias = parts.take(2 * H);
    input_t = parts.take(H * P), input = parts.take(P * H);
    output_t = parts.take(P * H), output = parts.take(H * P);
    glu_t = parts.take(H * 2 * H), glu = parts.take(2 * H * H);
  }
};

// Sums of the weights' gradients, likewise.
struct Gradients {
  int64_t H, P;
  Parts parts;
  float *mean, *scale, *input, *bias, *step, *output, *feedthrough, *glu, *glu_bias;

  Gradients(const Sizes& s, float* at) : H(padded(s.hidden)), P(padded(s.state)), parts{at} {
    input = parts.take(P * H), output = parts.take(H * P), glu = parts.take(2 * H * H);
    step = parts.take(kStepRows * P), bias = parts.take(P);
    mean = parts.take(H), scale = parts.take(H), feedthrough = parts.take(H);
    glu_bias = parts.take(2 * H);
  }
};

// The rows of a tile. Some are used twice: a gradient takes the place of what it is the gradient of.
struct Tile {
  Parts parts;
  float *u, *x, *v, *g, *w;    // hidden, hidden, hidden, hidden, 2 hidden
  float *b, *y, *z, *dy;       // state; y and z have a row more, for the state before the first
  float *state, *sensitivity;  // 2 x state

  Tile(const Sizes& s, float* at) : parts{at} {
    const int64_t H = padded(s.hidden), P = padded(s.state);
    u = parts.take(kTile * H), x = parts.take(kTile * H), v = parts.take(kTile * H);
    g = parts.take(kTile * H), w = parts.take(kTile * 2 * H);
    b = parts.take(kTile * P), dy = parts.take(kTile * P);
    parts.take(P), y = parts.take(kTile * P), parts.take(P), z = parts.take(kTile * P);
    state = parts.take(2 * P), sensitivity = parts.take(2 * P);
  }
};

}  // namespace
}  // namespace linoss::block

#ifdef LINOSS_ISA

#include "moments.h"
#include "product.h"
#include "recurrence.h"

namespace linoss::block {
namespace {

inline void add(float* to, vf x) { store(to, load(to) + x); }

// Dropout in one tile, whose first sample has a number in the whole batch.
struct Drop {
  const Dropout& dropout;
  uint32_t first, hidden;

  Drop(const Sizes& s, const Dropout& dropout, int64_t index, int64_t from)
      : dropout(dropout), first(dropout.origin + uint32_t(index) * dropout.stride + uint32_t(from)),
        hidden(uint32_t(s.hidden)) {}
  explicit operator bool() const { return dropout.threshold; }

  // 0 or `scale` for W channels from j on of sample n, after GELU (place 0) or GLU (1).
  vf keep(int place, int64_t n, int64_t j) const {
    const vu bits = random_bits(dropout.words[place], (first + uint32_t(n)) * hidden + uint32_t(j));
    return bits >= (dropout.threshold + vu{}) ? all(dropout.scale) : vf{};
  }
};

// Oscillators over the tile's forces, from t.state, which they move on.
template <bool kKeep>
void oscillate(const Packed& p, int64_t rows, const uint8_t* mask, Tile& t) {
  constexpr int K = 2;
  static_assert(kPad % (K * D) == 0);
  const int64_t P = p.P;
  for (int64_t j = 0; j < P; j += K * D) {
    Step step[K];
    State x[K];
    for (int k = 0; k < K; ++k) {
      const int64_t at = j + k * D;
      step[k] = load_step(p.step + at, P);
      x[k] = {load_wide(t.state + at), load_wide(t.state + P + at)};
      if (kKeep) store_narrow(t.z - P + at, x[k].z), store_narrow(t.y - P + at, x[k].y);
    }
    auto at = [&](int64_t n, int k) { return n * P + j + k * D; };
    run<K>(
        rows, mask, x, [&](int64_t, int k) -> const Step& { return step[k]; },
        [&](int64_t n, int k) { return load_wide(t.b + at(n, k)); },
        [&](int64_t n, int k, State x) {
          if (kKeep) store_narrow(t.z + at(n, k), x.z);
          store_narrow(t.y + at(n, k), x.y);
        });
    for (int k = 0; k < K; ++k)
      store_narrow(t.state + at(0, k), x[k].z), store_narrow(t.state + P + at(0, k), x[k].y);
  }
}

// The adjoint, from t.sensitivity, which it moves on. The force's gradient takes the place of the
// position's.
void oscillate_back(const Packed& p, int64_t rows, const uint8_t* mask, Tile& t,
                    const Gradients& d) {
  const int64_t P = p.P;
  for (int64_t j = 0; j < P; j += D) {
    const Step step = load_step(p.step + j, P);
    State x = {load_wide(t.sensitivity + j), load_wide(t.sensitivity + P + j)};
    Step d_step = {};
    vd d_bias = {};
    auto at = [&](int64_t n) { return n * P + j; };
    pull_back(
        rows, mask, x, [&](int64_t) -> const Step& { return step; },
        [&](int64_t n) { return State{load_wide(t.z - P + at(n)), load_wide(t.y - P + at(n))}; },
        [&](int64_t n) { return load_wide(t.b + at(n)); },
        [&](int64_t n) { return load_wide(t.dy + at(n)); },
        [&](int64_t n, vd d_force, const Step& d_here) {
          store_narrow(t.dy + at(n), d_force);
          d_step += d_here, d_bias += d_force;
        });
    store_narrow(t.sensitivity + j, x.z), store_narrow(t.sensitivity + P + j, x.y);
    d_step += load_step(d.step + j, P);
    store_step(d.step + j, P, d_step);
    store_narrow(d.bias + j, load_wide(d.bias + j) + d_bias);
  }
}

// From the tile's input to what enters the GLU's gate. For the backward pass (kKeep), t.v becomes
// the derivative of dropout(GELU(v)).
template <bool kKeep>
void tile_forward(const Sizes& s, const Packed& p, const Drop& drop, int64_t rows, const float* u,
                  const uint8_t* mask, Tile& t) {
  const int64_t H = p.H, P = p.P;
  take_rows(rows, s.hidden, u, t.u, H);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < H; j += W)
      store(t.x + n * H + j, (load(t.u + n * H + j) - load(p.mean + j)) * load(p.scale + j));
  product(rows, P, s.hidden, t.x, H, 1, p.input_t, P, t.b, P, p.bias, 0);
  oscillate<kKeep>(p, rows, mask, t);
  product(rows, H, s.state, t.y, P, 1, p.output_t, H, t.v, H, nullptr, 0);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < H; j += W) {
      const int64_t at = n * H + j;
      vf g, slope;
      gelu(load(t.v + at) + load(p.feedthrough + j) * load(t.x + at), g, slope);
      if (drop) {
        const vf kept = drop.keep(0, n, j);
        g *= kept, slope *= kept;
      }
      store(t.g + at, g);
      if (kKeep) store(t.v + at, slope);
    }
  product(rows, 2 * H, s.hidden, t.g, H, 1, p.glu_t, 2 * H, t.w, 2 * H, p.glu_bias, 0);
}

void forward(const Sizes& s, const Dropout& dropout, const Sequence& q, const float* start,
             float* out, float* final, double* moments) {
  const Packed p(s, const_cast<float*>(q.packed));
  const int64_t H = p.H;
  Tile t(s, q.workspace);
  MomentSums sums(H, moments);
  for (int64_t j = 0; j < s.state; ++j)
    t.state[j] = start[2 * j], t.state[p.P + j] = start[2 * j + 1];
  for (int64_t from = 0; from < s.time; from += kTile) {
    const int64_t rows = smaller(kTile, s.time - from);
    const Drop drop(s, dropout, q.index, from);
    const uint8_t* mask = q.mask ? q.mask + from : nullptr;
    give_rows(2, s.state, t.state, p.P, q.kept + from / kTile * 2 * s.state);
    tile_forward<false>(s, p, drop, rows, q.u + from * s.hidden, mask, t);
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t j = 0; j < H; j += W) {
        vf o = sigmoid(load(t.w + n * 2 * H + j)) * load(t.w + n * 2 * H + H + j);
        if (drop) o *= drop.keep(1, n, j);
        add(t.u + n * H + j, o);
      }
    give_rows(rows, s.hidden, t.u, H, out + from * s.hidden);
    sums.add(rows, t.u, mask);
  }
  for (int64_t j = 0; j < s.state; ++j)
    final[2 * j] = t.state[j], final[2 * j + 1] = t.state[p.P + j];
}

// One tile's gradients, from d_out to d_u. The output's averages pull on each of its samples that is
// there.
void tile_backward(const Sizes& s, const Packed& p, const Drop& drop, int64_t rows,
                   const uint8_t* mask, const float* d_out, const float* pull, float* d_u, Tile& t,
                   const Gradients& d) {
  const int64_t H = p.H, P = p.P;
  float *out = t.u, *dw = t.w, *dg = t.g;
  for (int64_t j = 0; j < H; j += W) {
    vf sum_gate = {}, sum_value = {};
    const vf a = load(pull + j), c = load(pull + H + j);
    const int64_t left = s.hidden - j;
    for (int64_t n = 0; n < rows; ++n) {
      float* w = t.w + n * 2 * H + j;
      const vf gate = sigmoid(load(w)), value = load(w + H);
      vf through = gate, o = d_out ? load_part(d_out + n * s.hidden + j, left) : vf{};
      if (drop) through *= drop.keep(1, n, j);
      if (!mask || mask[n]) o += a + c * (load(out + n * H + j) + through * value);
      store(out + n * H + j, o);  // from here on, the gradient of the block's output
      const vf d_value = o * through, d_gate = d_value * value * (all(1.f) - gate);
      store(w, d_gate), store(w + H, d_value);
      sum_gate += d_gate, sum_value += d_value;
    }
    add(d.glu_bias + j, sum_gate), add(d.glu_bias + H + j, sum_value);
  }
  product(2 * H, H, rows, dw, 1, 2 * H, t.g, H, d.glu, H, d.glu, H);
  product(rows, H, 2 * H, dw, 2 * H, 1, p.glu, H, dg, H, nullptr, 0);
  for (int64_t j = 0; j < H; j += W) {
    vf sum = {};
    for (int64_t at = j; at < rows * H; at += H) {
      const vf dv = load(t.v + at) * load(dg + at);
      store(t.v + at, dv);
      sum += dv * load(t.x + at);
    }
    add(d.feedthrough + j, sum);
  }
  product(H, P, rows, t.v, 1, H, t.y, P, d.output, P, d.output, P);
  product(rows, P, s.hidden, t.v, H, 1, p.output, P, t.dy, P, nullptr, 0);
  oscillate_back(p, rows, mask, t, d);
  product(P, H, rows, t.dy, 1, P, t.x, H, d.input, H, d.input, H);
  product(rows, H, s.state, t.dy, P, 1, p.input, H, dg, H, nullptr, 0);
  for (int64_t j = 0; j < H; j += W) {
    const vf feedthrough = load(p.feedthrough + j), scale = load(p.scale + j);
    vf sum = {}, sum_scale = {};
    for (int64_t at = j; at < rows * H; at += H) {
      const vf here = load(dg + at) + load(t.v + at) * feedthrough;
      sum += here, sum_scale += here * load(t.x + at);
      add(out + at, here * scale);
    }
    add(d.mean + j, sum), add(d.scale + j, sum_scale);
  }
  give_rows(rows, s.hidden, out, H, d_u);
}

void backward(const Sizes& s, const Dropout& dropout, const Sequence& q, const float* d_out,
              const float* d_final, const float* pull, float* d_u, float* d_start, float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Gradients d(s, sums);
  Tile t(s, q.workspace);
  for (int64_t j = 0; j < s.state; ++j)
    t.sensitivity[j] = d_final[2 * j], t.sensitivity[p.P + j] = d_final[2 * j + 1];
  for (int64_t tile = tiles(s.time) - 1; tile >= 0; --tile) {
    const int64_t from = tile * kTile, rows = smaller(kTile, s.time - from), at = from * s.hidden;
    const Drop drop(s, dropout, q.index, from);
    const uint8_t* mask = q.mask ? q.mask + from : nullptr;
    take_rows(2, s.state, q.kept + tile * 2 * s.state, t.state, p.P);
    tile_forward<true>(s, p, drop, rows, q.u + at, mask, t);
    tile_backward(s, p, drop, rows, mask, d_out ? d_out + at : nullptr, pull, d_u + at, t, d);
  }
  for (int64_t j = 0; j < s.state; ++j)
    d_start[2 * j] = t.sensitivity[j], d_start[2 * j + 1] = t.sensitivity[p.P + j];
}

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {forward, backward};
}
}  // namespace linoss::block

#else

#include <cmath>
#include <tuple>

#include "moments.h"
#include "runtime.h"

namespace linoss::block {

LINOSS_CHOOSE(Table, kernels)

static constexpr char kRate[] = "rate";
using Rate = ffi::Attr<double, kRate>;

// In the order in which handlers are given them.
struct Weights {
  F32 mean;         // hidden
  F32 scale;        // hidden: one over the deviation
  F32 input;        // state x hidden: B
  F32 bias;         // state: b
  F32 step;         // kStepRows x state
  F32 output;       // hidden x state: C
  F32 feedthrough;  // hidden: D
  F32 glu;          // 2 hidden x hidden: gate, then value
  F32 glu_bias;     // 2 hidden
};

struct Problem {
  Sizes sizes;
  Weights weights;
  const uint8_t* mask;  // batch x time, or null
  Dropout dropout = {0, 1.f, {}, 0, 0};

  // words: two of a key for each dropout, origin and stride.
  Problem(const F32& u, const Weights& w, const U32& words, const U8& mask, double rate,
          Shapes& shapes)
      : weights(w), mask(or_null(mask)) {
    auto& [batch, time, hidden, state] = sizes;
    std::tie(batch, time, hidden) = shapes.sizes<3>("u", u);
    std::tie(state, std::ignore) = shapes.sizes<2>("input", w.input);
    shapes.check("mean", w.mean, {hidden}), shapes.check("scale", w.scale, {hidden});
    shapes.check("input", w.input, {state, hidden}), shapes.check("bias", w.bias, {state});
    shapes.check("step", w.step, {kStepRows, state});
    shapes.check("output", w.output, {hidden, state});
    shapes.check("feedthrough", w.feedthrough, {hidden});
    shapes.check("glu", w.glu, {2 * hidden, hidden});
    shapes.check("glu_bias", w.glu_bias, {2 * hidden});
    shapes.check("words", words, {6});
    if (this->mask) shapes.check("mask", mask, {batch, time});
    if (shapes.wrong() || rate <= 0) return;
    // As nn/_dropout.py has it: 2^32 times the rate, rounded.
    dropout.threshold = uint32_t(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1));
    dropout.scale = static_cast<float>(1 / (1 - rate));
    std::memcpy(dropout.words, words.typed_data(), sizeof(dropout.words));
    dropout.origin = words.typed_data()[4], dropout.stride = words.typed_data()[5];
  }

  const uint8_t* mask_of(int64_t i) const { return mask ? mask + i * sizes.time : nullptr; }
  int64_t in_kept(int64_t i) const { return i * tiles(sizes.time) * 2 * sizes.state; }

  void pack(float* memory) const {
    const auto& [batch, time, hidden, state] = sizes;
    const Packed p(sizes, memory);
    auto row = [](const F32& from, float* to) {
      std::memcpy(to, from.typed_data(), from.size_bytes());
    };
    auto both = [](int64_t rows, int64_t columns, const float* from, float* to, int64_t to_row,
                   float* to_t, int64_t to_t_row) {
      take_rows(rows, columns, from, to, to_row);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) to_t[j * to_t_row + i] = from[i * columns + j];
    };
    row(weights.mean, p.mean), row(weights.scale, p.scale), row(weights.bias, p.bias);
    row(weights.feedthrough, p.feedthrough);
    take_rows(kStepRows, state, weights.step.typed_data(), p.step, p.P);
    take_rows(2, hidden, weights.glu_bias.typed_data(), p.glu_bias, p.H);
    both(state, hidden, weights.input.typed_data(), p.input, p.H, p.input_t, p.P);
    both(hidden, state, weights.output.typed_data(), p.output, p.P, p.output_t, p.H);
    for (int half = 0; half < 2; ++half)
      both(hidden, hidden, weights.glu.typed_data() + half * hidden * hidden,
           p.glu + half * p.H * p.H, p.H, p.glu_t + half * p.H, 2 * p.H);
  }
};

ffi::Error forward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                   F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words, U8 mask,
                   F32 start, Rate rate, OutF32 out, OutF32 final, OutF32 means, OutF32 moments,
                   OutF32 kept) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, glu, glu_bias}, words,
                  mask, *rate, shapes);
  const auto& [batch, time, hidden, state] = p.sizes;
  shapes.check("start", start, {batch, state, 2});
  shapes.check("out", *out, {batch, time, hidden});
  shapes.check("final", *final, {batch, state, 2});
  shapes.check("means", *means, {batch, hidden});
  shapes.check("moments", *moments, {2, hidden});
  shapes.check("kept", *kept, {batch, tiles(time), 2, state});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(out), on_large_pages(kept);
  Memory<float> packed(Packed(p.sizes, nullptr).parts.size);
  Moments sums(batch, hidden);
  if (!packed.at || sums.failed()) return out_of_memory();
  p.pack(packed.at);
  auto work = [&](int64_t i, float* workspace) {
    const int64_t at = i * p.sizes.time * p.sizes.hidden, ends = i * p.sizes.state * 2;
    sums.counts[i] = present(p.mask_of(i), p.sizes.time);
    kernels().forward(p.sizes, p.dropout,
                      {packed.at, i, u.typed_data() + at, p.mask_of(i),
                       kept->typed_data() + p.in_kept(i), workspace},
                      start.typed_data() + ends, out->typed_data() + at,
                      final->typed_data() + ends, sums.at(i));
    sums.mean_of(i, means->typed_data() + i * p.sizes.hidden);
  };
  ffi::Error error = parallel(threads, batch, Tile(p.sizes, nullptr).parts.size, work);
  sums.merge(moments->typed_data(), moments->typed_data() + hidden);
  return error;
}

ffi::Error backward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                    F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words, U8 mask,
                    F32 kept, F32 moments, F32 d_out, F32 d_final, F32 d_means, F32 d_moments,
                    Rate rate, OutF32 d_u, OutF32 d_mean, OutF32 d_scale, OutF32 d_input,
                    OutF32 d_bias, OutF32 d_step, OutF32 d_output, OutF32 d_feedthrough,
                    OutF32 d_glu, OutF32 d_glu_bias, OutF32 d_start) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, glu, glu_bias}, words,
                  mask, *rate, shapes);
  const auto& [batch, time, hidden, state] = p.sizes;
  shapes.check("kept", kept, {batch, tiles(time), 2, state});
  const float* d_out_or_null = or_null(d_out);  // where it is zero, it may be left out
  if (d_out_or_null) shapes.check("d_out", d_out, {batch, time, hidden});
  shapes.check("d_means", d_means, {batch, hidden});
  shapes.check("d_final", d_final, {batch, state, 2});
  shapes.check("moments", moments, {2, hidden}), shapes.check("d_moments", d_moments, {2, hidden});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(d_u);
  const int64_t row = 2 * padded(hidden), tile = Tile(p.sizes, nullptr).parts.size;
  const int64_t size = Gradients(p.sizes, nullptr).parts.size;
  Memory<float> packed(Packed(p.sizes, nullptr).parts.size), pull(row);
  Memory<float> sums(groups_of(batch) * size);
  if (!packed.at || !pull.at || !sums.at) return out_of_memory();
  p.pack(packed.at);
  pull_of_moments(hidden, present(p.mask, batch * time), moments, d_moments, pull.at);
  auto work = [&](int64_t i, float* workspace, float* sums) {
    const Sizes& s = p.sizes;
    const int64_t at = i * s.time * s.hidden, ends = i * s.state * 2;
    const int64_t count = std::max<int64_t>(present(p.mask_of(i), s.time), 1);
    float* pull_here = workspace + tile;  // with that of the mean over the sequence
    std::memcpy(pull_here, pull.at, row * sizeof(float));
    for (int64_t h = 0; h < s.hidden; ++h)
      pull_here[h] += d_means.typed_data()[i * s.hidden + h] / count;
    kernels().backward(s, p.dropout,
                       {packed.at, i, u.typed_data() + at, p.mask_of(i),
                        const_cast<float*>(kept.typed_data()) + p.in_kept(i), workspace},
                       d_out_or_null ? d_out_or_null + at : nullptr, d_final.typed_data() + ends,
                       pull_here, d_u->typed_data() + at, d_start->typed_data() + ends, sums);
  };
  ffi::Error error = parallel_sums(threads, batch, tile + row, size, sums.at, work);
  const Gradients g(p.sizes, sums.at);
  give_rows(state, hidden, g.input, g.H, d_input->typed_data());
  give_rows(hidden, state, g.output, g.P, d_output->typed_data());
  for (int64_t half = 0; half < 2; ++half)
    give_rows(hidden, hidden, g.glu + half * g.H * g.H, g.H,
              d_glu->typed_data() + half * hidden * hidden);
  give_rows(2, hidden, g.glu_bias, g.H, d_glu_bias->typed_data());
  give_rows(kStepRows, state, g.step, g.P, d_step->typed_data());
  give_rows(1, state, g.bias, g.P, d_bias->typed_data());
  give_rows(1, hidden, g.feedthrough, g.H, d_feedthrough->typed_data());
  for (int64_t h = 0; h < hidden; ++h) {  // x = (u - mean) * scale
    const float factor = scale.typed_data()[h];
    d_mean->typed_data()[h] = -g.mean[h] * factor;
    d_scale->typed_data()[h] = g.scale[h] / factor;
  }
  return error;
}

LINOSS_TARGET(linoss_block_forward, forward);
LINOSS_TARGET(linoss_block_backward, backward);

}  // namespace linoss::block

#endif
