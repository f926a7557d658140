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
constexpr int kRows = W >= 16 ? 8 : 4;  // rows of a product that are held in registers

typedef float vf __attribute__((vector_size(W * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(W * 4), may_alias));
typedef uint32_t vu __attribute__((vector_size(W * 4), may_alias));
constexpr int D = W / 2;
typedef float vh __attribute__((vector_size(D * 4), may_alias));
typedef double vd __attribute__((vector_size(D * 8), may_alias));

inline vf all(float x) { return x - vf{}; }
inline vf load(const float* p) { return *reinterpret_cast<const vf*>(p); }
inline void store(float* p, vf x) { *reinterpret_cast<vf*>(p) = x; }
// The first `left` of W floats that may lie anywhere, then zeros.
inline vf load_part(const float* p, int64_t left) {
  vf x = {};
  std::memcpy(&x, p, left < W ? left * 4 : sizeof(x));
  return x;
}
inline vd load_wide(const float* p) {
  return __builtin_convertvector(*reinterpret_cast<const vh*>(p), vd);
}
inline void store_narrow(float* p, vd x) {
  *reinterpret_cast<vh*>(p) = __builtin_convertvector(x, vh);
}

// e^x for x in [-80, 80], beyond which it stays what it is there (and a normal number): 2^n times a
// polynomial on [-ln 2 / 2, ln 2 / 2]. Relative error below 3e-7.
inline vf exponential(vf x) {
  x = x < all(-80.f) ? all(-80.f) : x;
  x = x > all(80.f) ? all(80.f) : x;
  const vf t = x * all(1.44269504f) + all(12582912.f);  // 1.5 2^23: rounds to a whole number
  const vf n = t - all(12582912.f);
  const vf r = (x - n * all(0.693359375f)) - n * all(-2.12194440e-4f);
  vf p = all(0.00829765480f);
  p = p * r + all(0.0419153832f);
  p = p * r + all(0.166675746f);
  p = p * r + all(0.499988943f);
  p = p * r + all(0.999999702f);
  p = p * r + all(1.00000012f);
  return (vf)((vi)p + ((vi)t << 23));
}

inline vf absolute(vf x) { return (vf)((vu)x & (0x7fffffffu + vu{})); }

inline vf sigmoid(vf x) { return all(1.f) / (all(1.f) + exponential(-x)); }

// The normal distribution function and density, from erf's rational approximation
// (absolute error below 2e-7).
inline void normal(vf x, vf& distribution, vf& density) {
  vf a = absolute(x);
  vf e = exponential(a * a * all(-0.5f));
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

// The number of a sequence's sample, by which dropout counts.
inline uint32_t first_sample(const Dropout& dropout, int64_t index, int64_t from) {
  return dropout.origin + uint32_t(index) * dropout.stride + uint32_t(from);
}

// 0 or `scale` for W neighbours from `position` on: the generator of nn/_dropout.py.
inline vf keep(const Dropout& dropout, int place, uint32_t position) {
  vu x;
  for (int i = 0; i < W; ++i) x[i] = position + i;
  x ^= dropout.words[2 * place];
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x += dropout.words[2 * place + 1];
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  x = x ^ (x >> 16);
  return x >= (dropout.threshold + vu{}) ? all(dropout.scale) : vf{};
}

// C (rows x columns) = A (rows x depth) B (depth x columns) + what `from` holds: C itself, a row for
// all rows (`from_row` is 0), or nothing (null). `columns` is a multiple of kPad, and rows are
// computed up to a multiple of 2 kRows, which divides kPad. A's element (i, k) is
// a[i * a_row + k * a_depth].
template <int R, int V>
inline void block(int64_t depth, const float* a, int64_t a_row, int64_t a_depth, const float* b,
                  int64_t b_row, float* c, int64_t c_row, const float* from, int64_t from_row) {
  vf sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) sum[i][v] = from ? load(from + i * from_row + v * W) : vf{};
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
             int64_t a_depth, const float* b, int64_t b_row, float* c, int64_t c_row,
             const float* from, int64_t from_row) {
  auto start = [&](int64_t i, int64_t j) { return from ? from + i * from_row + j : nullptr; };
  int64_t j = 0;
  for (; j + 2 * W <= columns; j += 2 * W)
    for (int64_t i = 0; i < rows; i += kRows)
      block<kRows, 2>(depth, a + i * a_row, a_row, a_depth, b + j, b_row, c + i * c_row + j, c_row,
                      start(i, j), from_row);
  for (; j < columns; j += W)  // one vector of columns: more rows keep as many sums under way
    for (int64_t i = 0; i < rows; i += 2 * kRows)
      block<2 * kRows, 1>(depth, a + i * a_row, a_row, a_depth, b + j, b_row, c + i * c_row + j,
                          c_row, start(i, j), from_row);
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

// The rows of a tile. Some are used twice: a gradient takes the place of what it is the gradient of.
struct Tile {
  float *u, *x, *v, *g, *w;    // hidden, hidden, hidden, hidden, 2 hidden
  float *b, *y, *z, *dy;       // state; y and z have a row more, for the state before the first
  float *state, *sensitivity;  // 2 x state
};

Tile tile_at(int64_t H, int64_t P, float* at) {
  auto take = [&](int64_t n) { float* here = at; at += n; return here; };
  Tile t;
  t.u = take(kTile * H), t.x = take(kTile * H), t.v = take(kTile * H), t.g = take(kTile * H);
  t.w = take(kTile * 2 * H);
  t.b = take(kTile * P), t.dy = take(kTile * P);
  t.y = take((kTile + 1) * P) + P, t.z = take((kTile + 1) * P) + P;
  t.state = take(2 * P), t.sensitivity = take(2 * P);
  return t;
}

int64_t workspace(const Sizes& s) {
  int64_t H = padded(s.hidden), P = padded(s.state);
  return kTile * (6 * H + 4 * P) + 6 * P;
}

// Rows from an array into a tile, and back.
void take_rows(int64_t rows, int64_t width, const float* from, float* to, int64_t to_row) {
  if (width == to_row)
    std::memcpy(to, from, rows * width * 4);
  else
    for (int64_t n = 0; n < rows; ++n) std::memcpy(to + n * to_row, from + n * width, width * 4);
}
void give_rows(int64_t rows, int64_t width, const float* from, int64_t from_row, float* to) {
  if (width == from_row)
    std::memcpy(to, from, rows * width * 4);
  else
    for (int64_t n = 0; n < rows; ++n) std::memcpy(to + n * width, from + n * from_row, width * 4);
}

// Sums of (x - shift) and its square over a tile's samples that are there. The shift is the first
// of all those samples, so that the sums are of moderate numbers.
class MomentSums {
 public:
  MomentSums(int64_t H, double* sums) : H_(H), sums_(sums) {}

  void add(int64_t rows, const float* x, const uint8_t* mask) {
    float* shift = reinterpret_cast<float*>(sums_ + 2 * H_);
    for (int64_t n = 0; n < rows && !shifted_; ++n)
      if (!mask || mask[n]) std::memcpy(shift, x + n * H_, H_ * 4), shifted_ = true;
    for (int64_t j = 0; j < H_; j += W) {
      const vf s = load(shift + j);
      vf first = {}, second = {};
      for (int64_t n = 0; n < rows; ++n) {
        if (mask && !mask[n]) continue;
        const vf d = load(x + n * H_ + j) - s;
        first += d, second += d * d;
      }
      for (int i = 0; i < W; ++i) sums_[j + i] += first[i], sums_[H_ + j + i] += second[i];
    }
  }

 private:
  int64_t H_;
  double* sums_;
  bool shifted_ = false;
};

// Oscillators over the tile's forces, from t.state, which they move on. In double precision: errors
// would add up over the sequence. Two vectors of oscillators at a time hide each other's latency.
template <bool kKeep>
void oscillate(const Packed& p, int64_t rows, const uint8_t* mask, Tile& t) {
  constexpr int K = 2;
  static_assert(kPad % (K * D) == 0);
  for (int64_t j = 0; j < p.P; j += K * D) {
    vd m[K][kStepRows], z[K], y[K];
    for (int k = 0; k < K; ++k) {
      const int64_t at = j + k * D;
      for (int r = 0; r < kStepRows; ++r) m[k][r] = load_wide(p.step + r * p.P + at);
      z[k] = load_wide(t.state + at), y[k] = load_wide(t.state + p.P + at);
      if (kKeep) store_narrow(t.z - p.P + at, z[k]), store_narrow(t.y - p.P + at, y[k]);
    }
    for (int64_t n = 0; n < rows; ++n)
      for (int k = 0; k < K; ++k) {
        const int64_t at = n * p.P + j + k * D;
        if (!mask || mask[n]) {
          const vd b = load_wide(t.b + at);
          const vd next = m[k][0] * z[k] + (m[k][1] * y[k] + m[k][4] * b);
          y[k] = m[k][2] * z[k] + (m[k][3] * y[k] + m[k][5] * b);
          z[k] = next;
        }
        if (kKeep) store_narrow(t.z + at, z[k]);
        store_narrow(t.y + at, y[k]);
      }
    for (int k = 0; k < K; ++k)
      store_narrow(t.state + j + k * D, z[k]), store_narrow(t.state + p.P + j + k * D, y[k]);
  }
}

// From the tile's input to what enters the GLU's gate. For the backward pass (kKeep), t.v becomes
// the derivative of dropout(GELU(v)).
template <bool kKeep>
void tile_forward(const Sizes& s, const Packed& p, const Dropout& dropout, uint32_t first,
                  int64_t rows, const float* u, const uint8_t* mask, Tile& t) {
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
      const vf v = load(t.v + at) + load(p.feedthrough + j) * load(t.x + at);
      vf cdf, pdf;
      normal(v, cdf, pdf);
      vf g = v * cdf, slope = cdf + v * pdf;
      if (dropout.threshold) {
        const vf kept = keep(dropout, 0, (first + uint32_t(n)) * uint32_t(s.hidden) + uint32_t(j));
        g *= kept, slope *= kept;
      }
      store(t.g + at, g);
      if (kKeep) store(t.v + at, slope);
    }
  product(rows, 2 * H, s.hidden, t.g, H, 1, p.glu_t, 2 * H, t.w, 2 * H, p.glu_bias, 0);
}

void forward(const Sizes& s, const void* packed, const Dropout& dropout, int64_t index,
             const float* u, const uint8_t* mask, const float* start, float* out, float* final,
             float* kept, double* moments, float* memory) {
  const Packed p = packed_at(s, static_cast<float*>(const_cast<void*>(packed)));
  const int64_t H = p.H;
  Tile t = tile_at(H, p.P, memory);
  MomentSums sums(H, moments);
  for (int64_t j = 0; j < s.state; ++j)
    t.state[j] = start[2 * j], t.state[p.P + j] = start[2 * j + 1];
  for (int64_t from = 0; from < s.time; from += kTile) {
    const int64_t rows = s.time - from < kTile ? s.time - from : kTile;
    const uint32_t first = first_sample(dropout, index, from);
    const uint8_t* mask_here = mask ? mask + from : nullptr;
    float* keep_here = kept + from / kTile * 2 * s.state;
    std::memcpy(keep_here, t.state, s.state * 4);
    std::memcpy(keep_here + s.state, t.state + p.P, s.state * 4);
    tile_forward<false>(s, p, dropout, first, rows, u + from * s.hidden, mask_here, t);
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t j = 0; j < H; j += W) {
        vf o = sigmoid(load(t.w + n * 2 * H + j)) * load(t.w + n * 2 * H + H + j);
        if (dropout.threshold) o *= keep(dropout, 1, (first + uint32_t(n)) * uint32_t(s.hidden) + uint32_t(j));
        store(t.u + n * H + j, load(t.u + n * H + j) + o);
      }
    give_rows(rows, s.hidden, t.u, H, out + from * s.hidden);
    sums.add(rows, t.u, mask_here);
  }
  for (int64_t j = 0; j < s.state; ++j)
    final[2 * j] = t.state[j], final[2 * j + 1] = t.state[p.P + j];
}

// The adjoint recurrence over a tile, backwards, from t.sensitivity, which it moves on. The force's
// gradient takes the place of the position's.
void pull_back(const Packed& p, int64_t rows, const uint8_t* mask, Tile& t, const Gradients& d) {
  for (int64_t j = 0; j < p.P; j += D) {
    vd m[kStepRows], sum[kStepRows] = {}, bias = {};
    for (int r = 0; r < kStepRows; ++r) m[r] = load_wide(p.step + r * p.P + j);
    vd mz = load_wide(t.sensitivity + j), my = load_wide(t.sensitivity + p.P + j);
    for (int64_t n = rows - 1; n >= 0; --n) {
      const int64_t at = n * p.P + j;
      const vd lz = mz, ly = my + load_wide(t.dy + at);
      if (mask && !mask[n]) {
        my = ly;
        store_narrow(t.dy + at, vd{});
        continue;
      }
      const vd z = load_wide(t.z - p.P + at), y = load_wide(t.y - p.P + at);
      const vd b = load_wide(t.b + at), db = m[4] * lz + m[5] * ly;
      sum[0] += lz * z, sum[1] += lz * y, sum[2] += ly * z, sum[3] += ly * y;
      sum[4] += lz * b, sum[5] += ly * b, bias += db;
      store_narrow(t.dy + at, db);
      mz = m[0] * lz + m[2] * ly, my = m[1] * lz + m[3] * ly;
    }
    store_narrow(t.sensitivity + j, mz), store_narrow(t.sensitivity + p.P + j, my);
    auto add = [](float* to, vd x) { store_narrow(to, load_wide(to) + x); };
    for (int r = 0; r < kStepRows; ++r) add(d.step + r * p.P + j, sum[r]);
    add(d.bias + j, bias);
  }
}

// One tile's gradients, from d_out to d_u. Gradients of weights are added to padded sums. The
// output's moments pull on each of its samples that is there: `pull` holds a and c of a + c out.
void tile_backward(const Sizes& s, const Packed& p, const Dropout& dropout, uint32_t first,
                   int64_t rows, const uint8_t* mask, const float* d_out, const float* pull,
                   float* d_u, Tile& t, const Gradients& d) {
  const int64_t H = p.H, P = p.P;
  auto add = [](float* to, vf x) { store(to, load(to) + x); };
  float *out = t.u, *dw = t.w, *dg = t.g;
  for (int64_t j = 0; j < H; j += W) {
    vf sum_gate = {}, sum_value = {};
    const vf a = load(pull + j), c = load(pull + H + j);
    const int64_t left = s.hidden - j;
    for (int64_t n = 0; n < rows; ++n) {
      float* w = t.w + n * 2 * H + j;
      const vf gate = sigmoid(load(w)), value = load(w + H);
      vf through = gate, o = d_out ? load_part(d_out + n * s.hidden + j, left) : vf{};
      if (dropout.threshold)
        through *= keep(dropout, 1, (first + uint32_t(n)) * uint32_t(s.hidden) + uint32_t(j));
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
  pull_back(p, rows, mask, t, d);
  product(P, H, rows, t.dy, 1, P, t.x, H, d.input, H, d.input, H);
  product(rows, H, s.state, t.dy, P, 1, p.input, H, dg, H, nullptr, 0);
  for (int64_t j = 0; j < H; j += W) {
    const vf feedthrough = load(p.feedthrough + j), scale = load(p.scale + j);
    vf sum = {}, sum_scale = {};
    for (int64_t at = j; at < rows * H; at += H) {
      const vf here = load(dg + at) + load(t.v + at) * feedthrough;
      sum += here, sum_scale += here * load(t.x + at);
      store(out + at, load(out + at) + here * scale);
    }
    add(d.mean + j, sum), add(d.scale + j, sum_scale);
  }
  give_rows(rows, s.hidden, out, H, d_u);
}

void backward(const Sizes& s, const void* packed, const Dropout& dropout, int64_t index,
              const float* u, const uint8_t* mask, const float* kept, const float* d_out,
              const float* d_final, const float* pull, float* d_u, float* d_start, Gradients d,
              float* memory) {
  const Packed p = packed_at(s, static_cast<float*>(const_cast<void*>(packed)));
  Tile t = tile_at(p.H, p.P, memory);
  for (int64_t j = 0; j < s.state; ++j)
    t.sensitivity[j] = d_final[2 * j], t.sensitivity[p.P + j] = d_final[2 * j + 1];
  for (int64_t tile = tiles(s.time) - 1; tile >= 0; --tile) {
    const int64_t from = tile * kTile, rows = s.time - from < kTile ? s.time - from : kTile;
    const int64_t at = from * s.hidden;
    const uint32_t first = first_sample(dropout, index, from);
    const uint8_t* mask_here = mask ? mask + from : nullptr;
    const float* start = kept + tile * 2 * s.state;
    std::memcpy(t.state, start, s.state * 4);
    std::memcpy(t.state + p.P, start + s.state, s.state * 4);
    tile_forward<true>(s, p, dropout, first, rows, u + at, mask_here, t);
    tile_backward(s, p, dropout, first, rows, mask_here, d_out ? d_out + at : nullptr, pull,
                  d_u + at, t, d);
  }
  for (int64_t j = 0; j < s.state; ++j)
    d_start[2 * j] = t.sensitivity[j], d_start[2 * j + 1] = t.sensitivity[p.P + j];
}

// The encoder: out = W u + b for samples of any sequence, with moments of out.

int64_t encoder_workspace(const Encoder& e) {
  return kTile * (padded(e.in) + 2 * padded(e.hidden));
}

void encode(const Encoder& e, int64_t samples, const float* u, const uint8_t* mask, float* out,
            double* moments, float* memory) {
  const int64_t I = padded(e.in), H = padded(e.hidden);
  float *x = memory, *y = x + kTile * I;
  MomentSums sums(H, moments);
  for (int64_t from = 0; from < samples; from += kTile) {
    const int64_t rows = samples - from < kTile ? samples - from : kTile;
    take_rows(rows, e.in, u + from * e.in, x, I);
    product(rows, H, e.in, x, I, 1, e.weight, H, y, H, e.bias, 0);
    give_rows(rows, e.hidden, y, H, out + from * e.hidden);
    sums.add(rows, y, mask ? mask + from : nullptr);
  }
}

void encode_backward(const Encoder& e, int64_t samples, const float* u, const uint8_t* mask,
                     const float* d_out, const float* pull, float* d_weight, float* d_bias,
                     float* memory) {
  const int64_t I = padded(e.in), H = padded(e.hidden);
  float *x = memory, *y = x + kTile * I, *dy = y + kTile * H;
  for (int64_t from = 0; from < samples; from += kTile) {
    const int64_t rows = samples - from < kTile ? samples - from : kTile;
    take_rows(rows, e.in, u + from * e.in, x, I);
    take_rows(rows, e.hidden, d_out + from * e.hidden, dy, H);
    product(rows, H, e.in, x, I, 1, e.weight, H, y, H, e.bias, 0);
    for (int64_t j = 0; j < H; j += W) {
      const vf a = load(pull + j), c = load(pull + H + j);
      vf sum = {};
      for (int64_t n = 0; n < rows; ++n) {
        const int64_t at = n * H + j;
        vf d = load(dy + at);
        if (!mask || mask[from + n]) d += a + c * load(y + at);
        store(dy + at, d);
        sum += d;
      }
      store(d_bias + j, load(d_bias + j) + sum);
    }
    product(H, I, rows, dy, 1, H, x, I, d_weight, I, d_weight, I);
  }
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
                         forward, backward, workspace, packed_size, pack,
                         encode, encode_backward, encoder_workspace};

}  // namespace LINOSS_ISA
}  // namespace linoss
