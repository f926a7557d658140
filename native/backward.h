// A tile of a block, backwards.
#pragma once

#include "forward.h"

namespace linoss::block {
namespace {

// sums += d^T x over the rows of the tile.
void correlate(const Sizes& s, const Tile& t, int64_t rows, int64_t d_columns, int64_t x_columns,
               const float* d, const float* x, float* sums) {
  const From from = {sums, x_columns};
  if (!s.half) return product(d_columns, x_columns, rows, d, 1, d_columns, x, sums, from);
  pair_rows(rows, d_columns, d, t.half[0]), pair_rows(rows, x_columns, x, t.half[1]);
  product<uint32_t>(d_columns, x_columns, (rows + 1) / 2, t.half[0], 1, d_columns, t.half[1], sums,
                    from);
}

// Computes the gradient of u from that of x, t.g, and adds it to t.u.
void normalize_back(const Sizes& s, const Packed& p, const Place& q, Tile& t, const Gradients& d) {
  const int64_t H = p.H;
  if (s.epsilon == 0) {
    for (int64_t j = 0; j < H; j += W) {
      const vf scale = load(p.scale + j);
      vf sum = {}, sum_scale = {};
      for (int64_t at = j; at < q.rows * H; at += H) {
        const vf here = load(t.g + at);
        sum += here, sum_scale += here * load(t.x + at);
        add(t.u + at, here * scale);
      }
      add(d.mean + j, sum), add(d.scale + j, sum_scale);
    }
    return;
  }
  for (int64_t n = 0; n < q.rows; ++n) {
    const vf center = all(t.center[n]), deviation = all(t.deviation[n]);
    auto normal = [&](int64_t j) {
      return (load_part(q.u + n * q.row + j, s.hidden - j) - center) * deviation;
    };
    vf first = {}, second = {};
    for (int64_t j = 0; j < H; j += W) {
      const vf here = load(t.g + n * H + j), x = normal(j), g = here * load(p.scale + j);
      add(d.mean + j, here), add(d.scale + j, here * x);
      first += g, second += g * x;
    }
    const vf mean = all(sum(first) / s.hidden), slope = all(sum(second) / s.hidden);
    for (int64_t j = 0; j < H; j += W) {
      const vf g = load(t.g + n * H + j) * load(p.scale + j);
      add(t.u + n * H + j, deviation * (g - mean - normal(j) * slope) * within(s.hidden - j));
    }
  }
}

// Computes the gradient of positions, t.dy, from that of C y + D x, t.v.
void read_out_back(const Sizes& s, const Packed& p, int64_t rows, Tile& t, const Gradients& d) {
  const int64_t H = p.H, P = p.P;
  for (int64_t j = 0; j < H; j += W) {
    vf sum = {};
    for (int64_t at = j; at < rows * H; at += H) sum += load(t.v + at) * load(t.x + at);
    add(d.feedthrough + j, sum);
  }
  if (s.dense) correlate(s, t, rows, H, H, t.v, t.x, d.dense);
  correlate(s, t, rows, H, P, t.v, t.y, d.output);
  weigh(s, t, rows, P, s.hidden, t.v, H, p.output, t.dy);
}

// Recomputes the tile, and goes back from d_out to the gradient of positions. The gradients of the
// output's averages are added for each present sample. t.u becomes the gradient of the skip connection.
void recompute(const Sizes& s, const Dropout& dropout, const Place& q, const float* before,
               const float* d_out, const float* pull, float* d_extra, float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Gradients d(s, sums);
  const Drop drop(s, dropout, q);
  const int64_t H = p.H;
  Tile t(s, q.workspace);
  drive(s, q);
  move<true>(s, p, q, before, t);
  activate<true>(s, p, drop, q, t);
  float *out = t.u, *dw = t.w, *dg = t.g;
  for (int64_t j = 0; j < H; j += W) {
    vf sum_gate = {}, sum_value = {};
    const vf a = load(pull + j), c = load(pull + H + j);
    const int64_t left = s.hidden - j;
    for (int64_t n = 0; n < q.rows; ++n) {
      float* w = t.w + n * 2 * H + j;
      const vf gate = sigmoid(load(w)), value = load(w + H);
      vf through = gate, o = d_out ? load_part(d_out + n * q.row + j, left) : vf{};
      if (drop) through *= drop.keep(1, n, j);
      if (is_there(q.mask, n)) o += a + c * (load(out + n * H + j) + through * value);
      store(out + n * H + j, o);  // from here on, the gradient of the block's output
      const vf d_value = o * through, d_gate = d_value * value * (all(1.f) - gate);
      store(w, d_gate), store(w + H, d_value);
      sum_gate += d_gate, sum_value += d_value;
    }
    add(d.glu_bias + j, sum_gate), add(d.glu_bias + H + j, sum_value);
  }
  correlate(s, t, q.rows, 2 * H, H, dw, t.g, d.glu);
  weigh(s, t, q.rows, H, 2 * H, dw, 2 * H, p.glu, dg);
  for (int64_t at = 0; at < q.rows * H; at += W) store(t.v + at, load(t.v + at) * load(dg + at));
  if (d_extra) copy_rows(q.rows, s.hidden, t.v, H, d_extra, q.row);
  read_out_back(s, p, q.rows, t, d);
}

void recompute_mixer(const Sizes& s, const Place& q, const float* before, const float* d_out,
                     float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  Tile t(s, q.workspace);
  drive(s, q);
  move<true>(s, p, q, before, t);
  copy_rows(q.rows, s.hidden, d_out, q.row, t.v, p.H);
  read_out_back(s, p, q.rows, t, Gradients(s, sums));
  std::memset(t.u, 0, q.rows * p.H * sizeof(float));  // there is no skip connection
}

// Computes the gradients of the tile's input from those of forces, t.dy.
void finish_back(const Sizes& s, const Place& q, float* d_u, float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Gradients d(s, sums);
  const int64_t H = p.H, P = p.P;
  Tile t(s, q.workspace);
  correlate(s, t, q.rows, P, H, t.dy, t.x, d.input);
  weigh(s, t, q.rows, H, s.state, t.dy, P, p.input, t.g);
  if (s.dense) weigh(s, t, q.rows, H, s.hidden, t.v, H, p.dense, t.g, {t.g, H});
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < H; j += W)
      add(t.g + n * H + j, load(t.v + n * H + j) * load(p.feedthrough + j));
  normalize_back(s, p, q, t, d);
  copy_rows(q.rows, s.hidden, t.u, H, d_u, q.row);
}

}  // namespace
}  // namespace linoss::block
