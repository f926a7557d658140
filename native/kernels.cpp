// The kernels, compiled once for each instruction set: LINOSS_ISA names it, LINOSS_WIDTH is the
// number of floats in its vectors.
//
// A sequence is worked through in tiles of time. All that a tile needs lies in `workspace`, in rows
// padded with zeros to a multiple of kPad, so that products and element-wise loops have no tails.

#include "kernels.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace linoss {
namespace LINOSS_ISA {
namespace {

constexpr int W = LINOSS_WIDTH;
constexpr int64_t kPad = 16;
constexpr int kRows = W >= 16 ? 8 : 4;  // rows of a product that are held in registers

typedef float vf __attribute__((vector_size(W * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(W * 4), may_alias));
typedef uint32_t vu __attribute__((vector_size(W * 4), may_alias));
constexpr int D = W / 2;
typedef float vh __attribute__((vector_size(D * 4), may_alias));
typedef double vd __attribute__((vector_size(D * 8), may_alias));

inline int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }

inline vf all(float x) { return x - vf{}; }
inline vf load(const float* p) { return *reinterpret_cast<const vf*>(p); }
inline void store(float* p, vf x) { *reinterpret_cast<vf*>(p) = x; }
inline vd load_wide(const float* p) {
  return __builtin_convertvector(*reinterpret_cast<const vh*>(p), vd);
}
inline void store_narrow(float* p, vd x) {
  *reinterpret_cast<vh*>(p) = __builtin_convertvector(x, vh);
}

// e^x for x <= 0 (larger arguments are cut to 0): 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2].
// Relative error below 2e-7; 0 below -87.
inline vf exp_negative(vf x) {
  x = x < all(-87.f) ? all(-87.f) : x;
  vf n = x * all(1.44269504f) - all(0.5f);
  vi whole = __builtin_convertvector(n, vi);  // towards zero: rounds to nearest for n <= 0
  n = __builtin_convertvector(whole, vf);
  vf r = (x - n * all(0.693359375f)) - n * all(-2.12194440e-4f);
  vf p = all(1.f / 720);
  p = p * r + all(1.f / 120);
  p = p * r + all(1.f / 24);
  p = p * r + all(1.f / 6);
  p = p * r + all(0.5f);
  p = p * r + all(1.f);
  p = p * r + all(1.f);
  return p * (vf)((whole + 127) << 23);
}

inline vf absolute(vf x) { return (vf)((vu)x & (0x7fffffffu + vu{})); }

inline vf sigmoid(vf x) {
  vf e = exp_negative(-absolute(x));
  vf upper = all(1.f) / (all(1.f) + e);
  return x < vf{} ? e * upper : upper;
}

// The normal distribution function and density, from erf's rational approximation
// (absolute error below 2e-7).
inline void normal(vf x, vf& distribution, vf& density) {
  vf a = absolute(x);
  vf e = exp_negative(a * a * all(-0.5f));
  vf t = all(1.f) / (all(1.f) + a * all(0.3275911f * 0.70710678f));
  vf p = all(1.061405429f);
  p = p * t + all(-1.453152027f);
  p = p * t + all(1.421413741f);
  p = p * t + all(-0.284496736f);
  p = p * t + all(0.254829592f);
  vf tail = p * t * e * all(0.5f);
  distribution = x < vf{} ? tail : all(1.f) - tail;
  density = e * all(0.39894228f);
}

// 0 or `scale` for W neighbours from `position` on: the generator of nn/_dropout.py.
inline vf keep(const Dropout& dropout, int place, uint32_t position) {
  vu x;
  for (int i = 0; i < W; ++i) x[i] = position + i;
  x ^= dropout.words[2 * place];
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  x = x ^ (x >> 16);
  x += dropout.words[2 * place + 1];
  x = (x ^ (x >> 15)) * 0x2C1B3C6Du;
  x = (x ^ (x >> 12)) * 0x297A2D39u;
  x = x ^ (x >> 15);
  return x >= (dropout.threshold + vu{}) ? all(dropout.scale) : vf{};
}

// C (rows x columns) = or += A (rows x depth) B (depth x columns). `columns` is a multiple of kPad,
// and rows are computed up to a multiple of 2 kRows, which divides kPad. A's element (i, k) is
// a[i * a_row + k * a_depth].
template <int R, int V>
inline void block(int64_t depth, const float* a, int64_t a_row, int64_t a_depth, const float* b,
                  int64_t b_row, float* c, int64_t c_row, bool add) {
  vf sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) sum[i][v] = add ? load(c + i * c_row + v * W) : vf{};
  for (int64_t k = 0; k < depth; ++k) {
    vf right[V];
    for (int v = 0; v < V; ++v) right[v] = load(b + k * b_row + v * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      vf left = all(a[i * a_row + k * a_depth]);
      for (int v = 0; v < V; ++v) sum[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) store(c + i * c_row + v * W, sum[i][v]);
}

void product(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_row,
             int64_t a_depth, const float* b, int64_t b_row, float* c, int64_t c_row, bool add) {
  int64_t j = 0;
  for (; j + 2 * W <= columns; j += 2 * W)
    for (int64_t i = 0; i < rows; i += kRows)
      block<kRows, 2>(depth, a + i * a_row, a_row, a_depth, b + j, b_row, c + i * c_row + j, c_row,
                      add);
  for (; j < columns; j += W)  // one vector of columns: more rows keep as many sums under way
    for (int64_t i = 0; i < rows; i += 2 * kRows)
      block<2 * kRows, 1>(depth, a + i * a_row, a_row, a_depth, b + j, b_row, c + i * c_row + j,
                          c_row, add);
}

// Weights in padded rows, in both orientations.
struct Packed {
  int64_t H, P;  // padded
  float *mean, *scale, *input_t, *input, *bias, *step, *output_t, *output, *feedthrough, *glu_t,
      *glu, *glu_bias;
};

Packed packed_at(const Sizes& s, float* at) {
  Packed p;
  p.H = padded(s.hidden), p.P = padded(s.state);
  auto take = [&](int64_t n) { float* here = at; at += n; return here; };
  p.mean = take(p.H), p.scale = take(p.H), p.feedthrough = take(p.H);
  p.bias = take(p.P), p.step = take(kStepRows * p.P), p.glu_bias = take(2 * p.H);
  p.input_t = take(p.H * p.P), p.input = take(p.P * p.H);
  p.output_t = take(p.P * p.H), p.output = take(p.H * p.P);
  p.glu_t = take(p.H * 2 * p.H), p.glu = take(2 * p.H * p.H);
  return p;
}

int64_t packed_size(const Sizes& s) {
  int64_t H = padded(s.hidden), P = padded(s.state);
  return 3 * H + P + kStepRows * P + 2 * H + 4 * H * P + 4 * H * H;
}

// to[i][j] = from[i][j], to_t[j][i] = from[i][j]
void copy_both(int64_t rows, int64_t columns, const float* from, float* to, int64_t to_row,
               float* to_t, int64_t to_t_row) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      to[i * to_row + j] = from[i * columns + j];
      to_t[j * to_t_row + i] = from[i * columns + j];
    }
}

void pack(const Sizes& s, const Weights& w, void* memory) {
  std::memset(memory, 0, packed_size(s) * sizeof(float));
  Packed p = packed_at(s, static_cast<float*>(memory));
  auto copy = [](const float* from, int64_t n, float* to) { std::memcpy(to, from, n * 4); };
  copy(w.mean, s.hidden, p.mean), copy(w.scale, s.hidden, p.scale);
  copy(w.feedthrough, s.hidden, p.feedthrough), copy(w.bias, s.state, p.bias);
  for (int r = 0; r < kStepRows; ++r) copy(w.step + r * s.state, s.state, p.step + r * p.P);
  copy_both(s.state, s.hidden, w.input, p.input, p.H, p.input_t, p.P);
  copy_both(s.hidden, s.state, w.output, p.output, p.P, p.output_t, p.H);
  for (int half = 0; half < 2; ++half) {
    copy(w.glu_bias + half * s.hidden, s.hidden, p.glu_bias + half * p.H);
    copy_both(s.hidden, s.hidden, w.glu + half * s.hidden * s.hidden, p.glu + half * p.H * p.H, p.H,
              p.glu_t + half * p.H, 2 * p.H);
  }
}

// The rows of a tile.
struct Tile {
  float *x, *v, *g, *w;         // hidden, hidden, hidden, 2 hidden
  float *b, *y;                 // state: force, position
  float *z_before, *y_before;   // state, for the backward pass
  float *dw, *dg, *dv, *dx;     // 2 hidden, hidden, hidden, hidden
  float *dy, *db;               // state
  float *state, *sensitivity;   // 2 x state
};

Tile tile_at(int64_t H, int64_t P, float* at) {
  auto take = [&](int64_t n) { float* here = at; at += n; return here; };
  Tile t;
  t.x = take(kTile * H), t.v = take(kTile * H), t.g = take(kTile * H), t.w = take(kTile * 2 * H);
  t.b = take(kTile * P), t.y = take(kTile * P);
  t.z_before = take(kTile * P), t.y_before = take(kTile * P);
  t.dw = take(kTile * 2 * H), t.dg = take(kTile * H), t.dv = take(kTile * H);
  t.dx = take(kTile * H), t.dy = take(kTile * P), t.db = take(kTile * P);
  t.state = take(2 * P), t.sensitivity = take(2 * P);
  return t;
}

int64_t workspace(const Sizes& s) {
  int64_t H = padded(s.hidden), P = padded(s.state);
  return kTile * (10 * H + 6 * P) + 4 * P;
}

// x = (u - mean) * scale
void normalize(const Sizes& s, const Packed& p, int64_t rows, const float* u, float* x) {
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t h = 0; h < s.hidden; ++h)
      x[t * p.H + h] = (u[t * s.hidden + h] - p.mean[h]) * p.scale[h];
}

// Oscillators over the tile's forces, from t.state, which they move on. In double precision: errors
// would add up over the sequence.
template <bool kKeep>
void oscillate(const Packed& p, int64_t rows, const uint8_t* mask, Tile& t) {
  for (int64_t j = 0; j < p.P; j += D) {
    auto entry = [&](int r) { return load_wide(p.step + r * p.P + j); };
    const vd zz = entry(0), zy = entry(1), yz = entry(2), yy = entry(3), fz = entry(4),
             fy = entry(5);
    vd z = load_wide(t.state + j), y = load_wide(t.state + p.P + j);
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t at = n * p.P + j;
      if (kKeep) store_narrow(t.z_before + at, z), store_narrow(t.y_before + at, y);
      if (!mask || mask[n]) {
        const vd b = load_wide(t.b + at);
        const vd next = zz * z + zy * y + fz * b;
        y = yz * z + yy * y + fy * b;
        z = next;
      }
      store_narrow(t.y + at, y);
    }
    store_narrow(t.state + j, z), store_narrow(t.state + p.P + j, y);
  }
}

// From the tile's forces to what enters the skip connection's sum.
template <bool kKeep>
void tile_forward(const Sizes& s, const Packed& p, const Dropout& dropout, int64_t first,
                  int64_t rows, const float* u, const uint8_t* mask, Tile& t) {
  const int64_t H = p.H, P = p.P;
  normalize(s, p, rows, u, t.x);
  product(rows, P, s.hidden, t.x, H, 1, p.input_t, P, t.b, P, false);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < P; j += W)
      store(t.b + n * P + j, load(t.b + n * P + j) + load(p.bias + j));
  oscillate<kKeep>(p, rows, mask, t);
  product(rows, H, s.state, t.y, P, 1, p.output_t, H, t.v, H, false);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < H; j += W) {
      const int64_t at = n * H + j;
      vf v = load(t.v + at) + load(p.feedthrough + j) * load(t.x + at), cdf, pdf;
      store(t.v + at, v);
      normal(v, cdf, pdf);
      vf g = v * cdf;
      if (dropout.threshold) g *= keep(dropout, 0, uint32_t((first + n) * s.hidden + j));
      store(t.g + at, g);
    }
  product(rows, 2 * H, s.hidden, t.g, H, 1, p.glu_t, 2 * H, t.w, 2 * H, false);
}

void forward(const Sizes& s, const void* packed, const Dropout& dropout, int64_t index,
             const float* u, const uint8_t* mask, const float* start, float* out, float* final,
             float* kept, float* memory) {
  const Packed p = packed_at(s, static_cast<float*>(const_cast<void*>(packed)));
  const int64_t H = p.H;
  Tile t = tile_at(H, p.P, memory);
  for (int64_t j = 0; j < s.state; ++j)
    t.state[j] = start[2 * j], t.state[p.P + j] = start[2 * j + 1];
  for (int64_t from = 0; from < s.time; from += kTile) {
    const int64_t rows = s.time - from < kTile ? s.time - from : kTile;
    const int64_t first = index * s.time + from;
    const float* here = u + from * s.hidden;
    float* keep_here = kept + from / kTile * 2 * s.state;
    std::memcpy(keep_here, t.state, s.state * 4);
    std::memcpy(keep_here + s.state, t.state + p.P, s.state * 4);
    tile_forward<false>(s, p, dropout, first, rows, here, mask ? mask + from : nullptr, t);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t j = 0; j < H; j += W) {
        vf gate = load(t.w + n * 2 * H + j) + load(p.glu_bias + j);
        vf value = load(t.w + n * 2 * H + H + j) + load(p.glu_bias + H + j);
        vf o = sigmoid(gate) * value;
        if (dropout.threshold) o *= keep(dropout, 1, uint32_t((first + n) * s.hidden + j));
        store(t.dx + j, o);
      }
      float* to = out + (from + n) * s.hidden;
      for (int64_t h = 0; h < s.hidden; ++h) to[h] = here[n * s.hidden + h] + t.dx[h];
    }
  }
  for (int64_t j = 0; j < s.state; ++j)
    final[2 * j] = t.state[j], final[2 * j + 1] = t.state[p.P + j];
}

// The adjoint recurrence over a tile, backwards, from t.sensitivity, which it moves on.
void pull_back(const Packed& p, int64_t rows, const uint8_t* mask, Tile& t, float* d_step) {
  for (int64_t j = 0; j < p.P; j += D) {
    auto entry = [&](int r) { return load_wide(p.step + r * p.P + j); };
    const vd zz = entry(0), zy = entry(1), yz = entry(2), yy = entry(3), fz = entry(4),
             fy = entry(5);
    vd sum[kStepRows] = {};
    vd mz = load_wide(t.sensitivity + j), my = load_wide(t.sensitivity + p.P + j);
    for (int64_t n = rows - 1; n >= 0; --n) {
      const int64_t at = n * p.P + j;
      const vd lz = mz, ly = my + load_wide(t.dy + at);
      if (mask && !mask[n]) {
        my = ly;
        store_narrow(t.db + at, vd{});
        continue;
      }
      const vd z = load_wide(t.z_before + at), y = load_wide(t.y_before + at);
      const vd b = load_wide(t.b + at);
      sum[0] += lz * z, sum[1] += lz * y, sum[2] += ly * z, sum[3] += ly * y;
      sum[4] += lz * b, sum[5] += ly * b;
      store_narrow(t.db + at, fz * lz + fy * ly);
      mz = zz * lz + yz * ly, my = zy * lz + yy * ly;
    }
    store_narrow(t.sensitivity + j, mz), store_narrow(t.sensitivity + p.P + j, my);
    for (int r = 0; r < kStepRows; ++r) {
      float* to = d_step + r * p.P + j;
      store_narrow(to, load_wide(to) + sum[r]);
    }
  }
}

// One tile's gradients, from d_out to d_u. Gradients of weights are added to padded sums.
void tile_backward(const Sizes& s, const Packed& p, const Dropout& dropout, int64_t first,
                   int64_t rows, const uint8_t* mask, const float* d_out,
                   float* d_u, Tile& t, const Gradients& d) {
  const int64_t H = p.H, P = p.P;
  for (int64_t n = 0; n < rows; ++n) {
    std::memcpy(t.dx, d_out + n * s.hidden, s.hidden * 4);
    for (int64_t j = 0; j < H; j += W) {
      vf gate = sigmoid(load(t.w + n * 2 * H + j) + load(p.glu_bias + j));
      vf value = load(t.w + n * 2 * H + H + j) + load(p.glu_bias + H + j);
      vf o = load(t.dx + j);
      if (dropout.threshold) o *= keep(dropout, 1, uint32_t((first + n) * s.hidden + j));
      vf d_gate = o * value * gate * (all(1.f) - gate), d_value = o * gate;
      store(t.dw + n * 2 * H + j, d_gate), store(t.dw + n * 2 * H + H + j, d_value);
      store(d.glu_bias + j, load(d.glu_bias + j) + d_gate);
      store(d.glu_bias + H + j, load(d.glu_bias + H + j) + d_value);
    }
  }
  product(2 * H, H, rows, t.dw, 1, 2 * H, t.g, H, d.glu, H, true);
  product(rows, H, 2 * H, t.dw, 2 * H, 1, p.glu, H, t.dg, H, false);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < H; j += W) {
      const int64_t at = n * H + j;
      vf v = load(t.v + at), o = load(t.dg + at), cdf, pdf;
      if (dropout.threshold) o *= keep(dropout, 0, uint32_t((first + n) * s.hidden + j));
      normal(v, cdf, pdf);
      vf dv = o * (cdf + v * pdf);
      store(t.dv + at, dv);
      store(d.feedthrough + j, load(d.feedthrough + j) + dv * load(t.x + at));
    }
  product(H, P, rows, t.dv, 1, H, t.y, P, d.output, P, true);
  product(rows, P, s.hidden, t.dv, H, 1, p.output, P, t.dy, P, false);
  pull_back(p, rows, mask, t, d.step);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t j = 0; j < P; j += W)
      store(d.bias + j, load(d.bias + j) + load(t.db + n * P + j));
  product(P, H, rows, t.db, 1, P, t.x, H, d.input, H, true);
  product(rows, H, s.state, t.db, P, 1, p.input, H, t.dx, H, false);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t j = 0; j < H; j += W) {
      const int64_t at = n * H + j;
      vf dx = load(t.dx + at) + load(t.dv + at) * load(p.feedthrough + j);
      store(d.mean + j, load(d.mean + j) + dx);
      store(d.scale + j, load(d.scale + j) + dx * load(t.x + at));
      store(t.dx + at, dx * load(p.scale + j));
    }
    for (int64_t h = 0; h < s.hidden; ++h)
      d_u[n * s.hidden + h] = d_out[n * s.hidden + h] + t.dx[n * H + h];
  }
}

void backward(const Sizes& s, const void* packed, const Dropout& dropout, int64_t index,
              const float* u, const uint8_t* mask, const float* kept, const float* d_out,
              const float* d_final, float* d_u, float* d_start, Gradients d, float* memory) {
  const Packed p = packed_at(s, static_cast<float*>(const_cast<void*>(packed)));
  Tile t = tile_at(p.H, p.P, memory);
  for (int64_t j = 0; j < s.state; ++j)
    t.sensitivity[j] = d_final[2 * j], t.sensitivity[p.P + j] = d_final[2 * j + 1];
  for (int64_t tile = tiles(s.time) - 1; tile >= 0; --tile) {
    const int64_t from = tile * kTile, rows = s.time - from < kTile ? s.time - from : kTile;
    const int64_t first = index * s.time + from, at = from * s.hidden;
    const uint8_t* mask_here = mask ? mask + from : nullptr;
    const float* start = kept + tile * 2 * s.state;
    std::memcpy(t.state, start, s.state * 4);
    std::memcpy(t.state + p.P, start + s.state, s.state * 4);
    tile_forward<true>(s, p, dropout, first, rows, u + at, mask_here, t);
    tile_backward(s, p, dropout, first, rows, mask_here, d_out + at, d_u + at, t, d);
  }
  for (int64_t j = 0; j < s.state; ++j)
    d_start[2 * j] = t.sensitivity[j], d_start[2 * j + 1] = t.sensitivity[p.P + j];
}

// The scan alone, on arrays as the caller has them: any alignment, any number of lanes.

template <typename T>
inline vd load_lanes(const T* p, int lanes) {
  vd x = {};
  if (lanes == D)
    for (int i = 0; i < D; ++i) x[i] = p[i];
  else
    for (int i = 0; i < lanes; ++i) x[i] = p[i];
  return x;
}

template <typename T>
inline void store_lanes(T* p, vd x, int lanes) {
  if (lanes == D)
    for (int i = 0; i < D; ++i) p[i] = static_cast<T>(x[i]);
  else
    for (int i = 0; i < lanes; ++i) p[i] = static_cast<T>(x[i]);
}

struct WideStep {
  vd e[kStepRows];
};

template <typename T>
inline WideStep step_at(const Scan<T>& s, int64_t n, int64_t j, int lanes) {
  WideStep step;
  for (int r = 0; r < kStepRows; ++r)
    step.e[r] = load_lanes(s.step + r * s.step_row + n * s.step_time + j, lanes);
  return step;
}

inline void advance(const WideStep& s, vd b, vd& z, vd& y) {
  const vd next = s.e[0] * z + s.e[1] * y + s.e[4] * b;
  y = s.e[2] * z + s.e[3] * y + s.e[5] * b;
  z = next;
}

template <typename T>
void scan_forward(const Scan<T>& s, const T* start, T* positions, T* final) {
  std::vector<vd> state(2 * ((s.lanes + D - 1) / D));
  for (int64_t j = 0; j < s.lanes; ++j)
    state[j / D * 2][j % D] = start[2 * j], state[j / D * 2 + 1][j % D] = start[2 * j + 1];
  for (int64_t from = 0; from < s.time; from += kTile) {
    const int64_t to = from + kTile < s.time ? from + kTile : s.time;
    T* kept = s.kept + from / kTile * 2 * s.state;
    for (int64_t j = 0; j < s.lanes; j += D) {
      const int lanes = s.lanes - j < D ? static_cast<int>(s.lanes - j) : D;
      vd z = state[j / D * 2], y = state[j / D * 2 + 1];
      store_lanes(kept + j, z, lanes), store_lanes(kept + s.state + j, y, lanes);
      WideStep step = step_at(s, from, j, lanes);
      for (int64_t n = from; n < to; ++n) {
        if (s.step_time && n > from) step = step_at(s, n, j, lanes);
        if (!s.mask || s.mask[n]) advance(step, load_lanes(s.force + n * s.state + j, lanes), z, y);
        store_lanes(positions + n * s.state + j, y, lanes);
      }
      state[j / D * 2] = z, state[j / D * 2 + 1] = y;
    }
  }
  for (int64_t j = 0; j < s.lanes; ++j)
    final[2 * j] = static_cast<T>(state[j / D * 2][j % D]),
    final[2 * j + 1] = static_cast<T>(state[j / D * 2 + 1][j % D]);
}

template <typename T>
void scan_backward(const Scan<T>& s, const T* d_positions, const T* d_final, T* d_force, T* d_step,
                   T* d_start) {
  const int64_t blocks = (s.lanes + D - 1) / D;
  std::vector<vd> sensitivity(2 * blocks), sums(kStepRows * blocks);
  for (int64_t j = 0; j < s.lanes; ++j)
    sensitivity[j / D * 2][j % D] = d_final[2 * j],
    sensitivity[j / D * 2 + 1][j % D] = d_final[2 * j + 1];
  vd before[kTile][2];
  for (int64_t tile = tiles(s.time) - 1; tile >= 0; --tile) {
    const int64_t from = tile * kTile, to = from + kTile < s.time ? from + kTile : s.time;
    const T* kept = s.kept + tile * 2 * s.state;
    for (int64_t j = 0; j < s.lanes; j += D) {
      const int lanes = s.lanes - j < D ? static_cast<int>(s.lanes - j) : D;
      vd z = load_lanes(kept + j, lanes), y = load_lanes(kept + s.state + j, lanes);
      WideStep step = step_at(s, from, j, lanes);
      for (int64_t n = from; n < to; ++n) {
        before[n - from][0] = z, before[n - from][1] = y;
        if (s.step_time && n > from) step = step_at(s, n, j, lanes);
        if (!s.mask || s.mask[n]) advance(step, load_lanes(s.force + n * s.state + j, lanes), z, y);
      }
      vd mz = sensitivity[j / D * 2], my = sensitivity[j / D * 2 + 1];
      vd* sum = &sums[j / D * kStepRows];
      for (int64_t n = to - 1; n >= from; --n) {
        if (s.step_time && n < to - 1) step = step_at(s, n, j, lanes);
        const int64_t at = n * s.state + j;
        const vd lz = mz, ly = my + load_lanes(d_positions + at, lanes);
        if (s.mask && !s.mask[n]) {
          my = ly;
          store_lanes(d_force + at, vd{}, lanes);
          continue;
        }
        const vd b = load_lanes(s.force + at, lanes), z = before[n - from][0],
                 y = before[n - from][1];
        const vd local[kStepRows] = {lz * z, lz * y, ly * z, ly * y, lz * b, ly * b};
        for (int r = 0; r < kStepRows; ++r) {
          if (s.step_time)
            store_lanes(d_step + r * s.step_row + n * s.step_time + j, local[r], lanes);
          else
            sum[r] += local[r];
        }
        store_lanes(d_force + at, step.e[4] * lz + step.e[5] * ly, lanes);
        mz = step.e[0] * lz + step.e[2] * ly, my = step.e[1] * lz + step.e[3] * ly;
      }
      sensitivity[j / D * 2] = mz, sensitivity[j / D * 2 + 1] = my;
    }
  }
  for (int64_t j = 0; j < s.lanes; ++j) {
    d_start[2 * j] = static_cast<T>(sensitivity[j / D * 2][j % D]);
    d_start[2 * j + 1] = static_cast<T>(sensitivity[j / D * 2 + 1][j % D]);
    if (!s.step_time)
      for (int r = 0; r < kStepRows; ++r)
        d_step[r * s.step_row + j] += static_cast<T>(sums[j / D * kStepRows + r][j % D]);
  }
}

}  // namespace

extern const Kernels kernels;
const Kernels kernels = {{scan_forward<float>, scan_backward<float>},
                         {scan_forward<double>, scan_backward<double>},
                         forward, backward, workspace, packed_size, pack};

}  // namespace LINOSS_ISA
}  // namespace linoss
