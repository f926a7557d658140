// A tile of a block, forwards.
#pragma once

#include "block.h"
#include "moments.h"
#include "oscillate.h"
#include "product.h"

namespace linoss::block {
namespace {

inline void add(float* to, vf x) { store(to, load(to) + x); }
inline float sum(vf x) {
  float total = 0;
  for (int i = 0; i < W; ++i) total += x[i];
  return total;
}
// 1 for channels, 0 for padding.
inline vf within(int64_t left) {
  return (vi)places() < (int32_t(smaller(left, W)) + vi{}) ? all(1.f) : vf{};
}

// x W + from for the rows of the tile: x has `depth` columns in rows of `row`, and W is packed.
void weigh(const Sizes& s, const Tile& t, int64_t rows, int64_t columns, int64_t depth,
           const float* x, int64_t row, const float* weight, float* out, From from = {}) {
  if (!s.half) return product(rows, columns, depth, x, row, 1, weight, out, from);
  pair_neighbours(rows, row, x, t.half[0]);
  product(rows, columns, (depth + 1) / 2, t.half[0], row / 2, 1,
          reinterpret_cast<const uint32_t*>(weight), out, from);
}

// The rows of a product: computed, and stored if they are kept; or, in the backward pass, loaded.
template <typename Compute>
inline void recorded(const Sizes& s, const Place& q, Kept kept, float* rows, Compute compute) {
  if (!(s.keep & kept)) return compute();
  float* at = q.record + q.rows * record_width(s, s.keep & (kept - 1));
  const int64_t bytes = q.rows * record_width(s, kept) * sizeof(float);
  if (q.replay) return void(std::memcpy(rows, at, bytes));
  compute();
  std::memcpy(at, rows, bytes);
}

// Dropout in one tile.
struct Drop {
  const Dropout dropout;  // a copy, because stores to rows might alias a reference
  const uint32_t first, hidden;

  Drop(const Sizes& s, const Dropout& dropout, const Place& q)
      : dropout(dropout),
        first(dropout.origin + uint32_t(q.index) * dropout.stride + uint32_t(q.from)),
        hidden(uint32_t(s.hidden)) {}
  explicit operator bool() const { return dropout.threshold; }

  // 0 or `scale` for W channels from j on of sample n, after GELU (place 0) or GLU (1).
  vf keep(int place, int64_t n, int64_t j) const {
    const vu bits = random_bits(dropout.words[place], (first + uint32_t(n)) * hidden + uint32_t(j));
    return bits >= (dropout.threshold + vu{}) ? all(dropout.scale) : vf{};
  }
};

// x = (u - mean) scale, or for a norm over channels (u - center) / deviation scale + shift.
void normalize(const Sizes& s, const Packed& p, int64_t rows, Tile& t) {
  const int64_t H = p.H;
  for (int64_t n = 0; n < rows; ++n) {
    const float* u = t.u + n * H;
    float* x = t.x + n * H;
    if (s.epsilon == 0) {
      for (int64_t j = 0; j < H; j += W)
        store(x + j, (load(u + j) - load(p.mean + j)) * load(p.scale + j));
      continue;
    }
    vf first = {}, second = {};
    for (int64_t j = 0; j < H; j += W) first += load(u + j);
    const vf center = all(sum(first) / s.hidden);
    for (int64_t j = 0; j < H; j += W) {
      const vf apart = (load(u + j) - center) * within(s.hidden - j);
      second += apart * apart;
    }
    const float deviation = 1 / __builtin_sqrtf(sum(second) / s.hidden + s.epsilon);
    t.center[n] = center[0], t.deviation[n] = deviation;
    for (int64_t j = 0; j < H; j += W)
      store(x + j, (load(u + j) - center) * all(deviation) * load(p.scale + j) + load(p.mean + j));
  }
}

// From the input of the tile to forces.
void drive(const Sizes& s, const Place& q) {
  const Packed p(s, const_cast<float*>(q.packed));
  Tile t(s, q.workspace);
  refill_rows(q.rows, s.hidden, q.u, q.row, t.u, p.H);
  normalize(s, p, q.rows, t);
  recorded(s, q, kForces, t.b, [&] {
    weigh(s, t, q.rows, p.P, s.hidden, t.x, p.H, p.input_t, t.b, {p.bias, 0});
  });
  for (int64_t n = 0; n < q.rows && q.weights; ++n)
    for (int64_t j = 0; j < p.P; j += W) {
      float* b = t.b + n * p.P + j;
      store(b, load(b) * all(q.weights[n]));
    }
  for (int64_t n = 0; n < q.rows; ++n)
    if (is_silent(q.mask, n)) std::memset(t.b + n * p.P, 0, p.P * sizeof(float));
}

// C y, and D x if D is a matrix.
void read_out(const Sizes& s, const Packed& p, const Place& q, Tile& t) {
  const int64_t H = p.H, P = p.P;
  recorded(s, q, kOutputs, t.v, [&] {
    weigh(s, t, q.rows, H, s.state, t.y, P, p.output_t, t.v);
    if (s.dense) weigh(s, t, q.rows, H, s.hidden, t.x, H, p.dense_t, t.v, {t.v, H});
  });
}

// Computes the input of the GLU. For the backward pass (kKeep), t.v becomes the derivative of
// dropout(GELU(v)).
template <bool kKeep>
void activate(const Sizes& s, const Packed& p, const Drop& drop, const Place& q, Tile& t) {
  const int64_t H = p.H;
  read_out(s, p, q, t);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < H; j += W) {
      const int64_t at = n * H + j;
      vf v = load(t.v + at) + load(p.feedthrough + j) * load(t.x + at), g, slope;
      if (q.extra) v += load_part(q.extra + n * q.row + j, s.hidden - j);
      gelu(s.approximate, v, g, slope);
      if (drop) {
        const vf kept = drop.keep(0, n, j);
        g *= kept, slope *= kept;
      }
      store(t.g + at, g);
      if (kKeep) store(t.v + at, slope);
    }
  recorded(s, q, kGates, t.w, [&] {
    weigh(s, t, q.rows, 2 * H, s.hidden, t.g, H, p.glu_t, t.w, {p.glu_bias, 0});
  });
}

void finish(const Sizes& s, const Dropout& dropout, const Place& q, float* out) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Drop drop(s, dropout, q);
  const int64_t H = p.H;
  Tile t(s, q.workspace);
  activate<false>(s, p, drop, q, t);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < H; j += W) {
      vf o = sigmoid(load(t.w + n * 2 * H + j)) * load(t.w + n * 2 * H + H + j);
      if (drop) o *= drop.keep(1, n, j);
      add(t.u + n * H + j, o);
    }
  copy_rows(q.rows, s.hidden, t.u, H, out, q.row);
}

void add_moments(const Sizes& s, const Place& q, double* moments) {
  MomentSums(padded(s.hidden), moments).add(q.rows, Tile(s, q.workspace).u, q.mask);
}

void finish_mixer(const Sizes& s, const Place& q, float* out) {
  const Packed p(s, const_cast<float*>(q.packed));
  Tile t(s, q.workspace);
  read_out(s, p, q, t);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < p.H; j += W)
      add(t.v + n * p.H + j, load(p.feedthrough + j) * load(t.x + n * p.H + j));
  copy_rows(q.rows, s.hidden, t.v, p.H, out, q.row);
}

}  // namespace
}  // namespace linoss::block
