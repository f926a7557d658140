// A whole block in one pass over tiles: norm, B, oscillators, C and D, GELU, dropout, GLU, dropout,
// skip. The backward pass computes each tile again from the block's input and the state kept at the
// tile's start. A second pass, which ends after C and D, runs from the last sample to the first: its
// output is what a block that reads in both directions adds before GELU.

#include <type_traits>

#include "block.h"

#ifdef LINOSS_ISA

#include "moments.h"
#include "product.h"
#include "recurrence.h"

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
  vf x;
  for (int i = 0; i < W; ++i) x[i] = i < left;
  return x;
}

// Dropout in one tile, whose first sample has a number in the whole batch.
struct Drop {
  const Dropout& dropout;
  uint32_t first, hidden;

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

// ---- Oscillators ----

// The steps of oscillators in pairs of vectors, the second one `apart` from the first, and sums of
// their gradients: of one constant step, or of the parameters of a scheme. The real and imaginary parts
// of complex oscillators have the same steps: where they are a whole number of vectors apart, steps
// that vary are computed once for both (kShared).
struct ConstantSteps {
  static constexpr bool kShared = false;
  Step step[2];
  ConstantSteps(const Packed& p, int64_t j, int64_t apart, const float*)
      : step{load_step(p.step + j, p.P), load_step(p.step + j + apart, p.P)} {}
  const Step& operator()(int64_t, int k) { return step[k]; }

  struct Sums {
    Step total[2] = {};
    void add(const ConstantSteps&, int64_t, int k, const Step& d, double*) { total[k] += d; }
    void give(float* to, int64_t row, int64_t apart) {
      for (int k = 0; k < 2; ++k) {
        total[k] += load_step(to + k * apart, row);
        store_step(to + k * apart, row, total[k]);
      }
    }
  };
};

template <typename Rule>
struct Varying {  // one vector
  Rule rule;
  vd timestep, longest;
  typename Rule::Sample sample;
  Step step;
  Varying(const Packed& p, int64_t j)
      : rule(load_wide(p.step + j), load_wide(p.step + 2 * p.P + j)),
        timestep(load_wide(p.step + p.P + j)), longest(load_wide(p.step + 3 * p.P + j)) {}
  const Step& at(double interval) {
    sample = rule.at(lower(timestep * interval, longest));
    return step = rule.step(sample);
  }
};

template <typename Rule, bool kBoth>
struct VaryingSteps {
  static constexpr bool kShared = kBoth;
  Varying<Rule> of[kShared ? 1 : 2];
  const float* intervals;
  VaryingSteps(const Packed& p, int64_t j, int64_t apart, const float* intervals)
      : VaryingSteps(p, j, apart, intervals, std::bool_constant<kShared>{}) {}
  const Step& operator()(int64_t n, int k) {
    if (kShared) return k == 0 ? of[0].at(intervals[n]) : of[0].step;
    return of[k].at(intervals[n]);
  }

  struct Sums {
    vd A[2] = {}, timestep[2] = {}, G[2] = {}, longest[2] = {};
    Step first;
    // After the step of sample n has been asked for.
    void add(const VaryingSteps& s, int64_t n, int k, const Step& d, double* d_interval) {
      if (kShared && k == 0) {
        first = d;
        return;
      }
      Step both = d;
      if (kShared) both += first, k = 0;
      const Varying<Rule>& v = s.of[k];
      const double interval = s.intervals[n];
      const Pull pull = v.rule.pull(v.sample, both);
      const vd free = v.timestep * interval < v.longest ? pull.h : vd{};
      A[k] += pull.A, G[k] += pull.G;
      timestep[k] += free * interval, longest[k] += pull.h - free;
      *reinterpret_cast<vd*>(d_interval) += free * v.timestep;
    }
    void give(float* to, int64_t row, int64_t apart) {
      auto put = [&](float* p, vd x) { store_narrow(p, load_wide(p) + x); };
      for (int k = 0; k < (kShared ? 1 : 2); ++k) {
        float* at = to + k * apart;
        put(at, A[k]), put(at + row, timestep[k]), put(at + 2 * row, G[k]);
        put(at + 3 * row, longest[k]);
      }
    }
  };

 private:
  VaryingSteps(const Packed& p, int64_t j, int64_t, const float* intervals, std::true_type)
      : of{{p, j}}, intervals(intervals) {}
  VaryingSteps(const Packed& p, int64_t j, int64_t apart, const float* intervals, std::false_type)
      : of{{p, j}, {p, j + apart}}, intervals(intervals) {}
};

// Calls work(kind), where `kind` stands for the type of the steps.
template <typename T>
struct Kind {
  using type = T;
};
template <typename Work>
inline void with_steps(const Sizes& s, const Packed& p, Work work) {
  auto varying = [&](auto rule) {
    using Rule = typename decltype(rule)::type;
    const int64_t half = s.state / 2;
    bool shared = s.state % (2 * D) == 0;
    for (int r = 0; r < kSchemeRows && shared; ++r)
      shared = std::memcmp(p.step + r * p.P, p.step + r * p.P + half, half * sizeof(float)) == 0;
    if (shared) work(Kind<VaryingSteps<Rule, true>>{});
    else work(Kind<VaryingSteps<Rule, false>>{});
  };
  switch (s.scheme) {
    case Scheme::constant: return work(Kind<ConstantSteps>{});
    case Scheme::im: return varying(Kind<Im>{});
    case Scheme::imex: return varying(Kind<Imex>{});
    case Scheme::verlet: return varying(Kind<Verlet>{});
    case Scheme::exact: return varying(Kind<Exact>{});
    case Scheme::unknown: return;
  }
}

// Calls work(j, apart) for each pair of vectors.
template <typename Steps, typename Work>
inline void each_pair(const Sizes& s, int64_t P, Work work) {
  static_assert(kPad % (2 * D) == 0);
  if (Steps::kShared)
    for (int64_t j = 0; j < s.state / 2; j += D) work(j, s.state / 2);
  else
    for (int64_t j = 0; j < P; j += 2 * D) work(j, int64_t(D));
}

// Over the tile's forces, from t.state, which they move on. The backward pass keeps velocities, too.
template <bool kKeep, typename Steps>
void oscillate_by(const Sizes& s, const Packed& p, const Place& q, Tile& t) {
  const int64_t P = p.P;
  each_pair<Steps>(s, P, [&](int64_t j, int64_t apart) {
    Steps steps(p, j, apart, q.intervals);
    State x[2];
    for (int k = 0; k < 2; ++k) {
      const int64_t at = j + k * apart;
      x[k] = {load_wide(t.state + at), load_wide(t.state + P + at)};
      if (kKeep) store_narrow(t.z - P + at, x[k].z), store_narrow(t.y - P + at, x[k].y);
    }
    auto at = [&](int64_t n, int k) { return n * P + j + k * apart; };
    run<2>(
        q.rows, q.mask, x, [&](int64_t n, int k) -> const Step& { return steps(n, k); },
        [&](int64_t n, int k) { return load_wide(t.b + at(n, k)); },
        [&](int64_t n, int k, State x) {
          if (kKeep) store_narrow(t.z + at(n, k), x.z);
          store_narrow(t.y + at(n, k), x.y);
        });
    for (int k = 0; k < 2; ++k)
      store_narrow(t.state + at(0, k), x[k].z), store_narrow(t.state + P + at(0, k), x[k].y);
  });
}

template <bool kKeep>
void move(const Sizes& s, const Packed& p, const Place& q, const float* before, Tile& t) {
  take_rows(2, s.state, before, t.state, p.P);
  with_steps(s, p, [&](auto kind) {
    oscillate_by<kKeep, typename decltype(kind)::type>(s, p, q, t);
  });
}

void oscillate(const Sizes& s, const Place& q, const float* before, float* after) {
  const Packed p(s, const_cast<float*>(q.packed));
  Tile t(s, q.workspace);
  move<false>(s, p, q, before, t);
  give_rows(2, s.state, t.state, p.P, after);
}

// The adjoint, from `sensitivity`, which it moves on. The force's gradient takes the place of the
// position's. t.b are forces times their weights.
template <typename Steps>
void oscillate_back_by(const Sizes& s, const Packed& p, const Place& q, float* sensitivity, Tile& t,
                       const Gradients& d) {
  const int64_t P = p.P;
  double *d_interval = t.along, *d_weight = t.along + kTile * D;
  each_pair<Steps>(s, P, [&](int64_t j, int64_t apart) {
    Steps steps(p, j, apart, q.intervals);
    typename Steps::Sums d_steps;
    State x[2];
    vd d_bias[2] = {};
    auto at = [&](int64_t n, int k) { return n * P + j + k * apart; };
    for (int k = 0; k < 2; ++k)
      x[k] = {load_wide(sensitivity + at(0, k)), load_wide(sensitivity + P + at(0, k))};
    pull_back<2>(
        q.rows, q.mask, x, [&](int64_t n, int k) -> const Step& { return steps(n, k); },
        [&](int64_t n, int k) {
          return State{load_wide(t.z - P + at(n, k)), load_wide(t.y - P + at(n, k))};
        },
        [&](int64_t n, int k) { return load_wide(t.b + at(n, k)); },
        [&](int64_t n, int k) { return load_wide(t.dy + at(n, k)); },
        [&](int64_t n, int k, vd d_force, const Step& d_here) {
          if (!q.mask || q.mask[n]) d_steps.add(steps, n, k, d_here, d_interval + n * D);
          if (q.weights) {
            const double weight = q.weights[n];
            *reinterpret_cast<vd*>(d_weight + n * D) += d_force * load_wide(t.b + at(n, k)) / weight;
            d_force *= weight;
          }
          store_narrow(t.dy + at(n, k), d_force);
          d_bias[k] += d_force;
        });
    d_steps.give(d.step + j, P, apart);
    for (int k = 0; k < 2; ++k) {
      store_narrow(sensitivity + at(0, k), x[k].z), store_narrow(sensitivity + P + at(0, k), x[k].y);
      float* bias = d.bias + at(0, k);
      store_narrow(bias, load_wide(bias) + d_bias[k]);
    }
  });
}

void oscillate_back(const Sizes& s, const Place& q, float* sensitivity, float* d_intervals,
                    float* d_weights, float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Gradients d(s, sums);
  Tile t(s, q.workspace);
  std::memset(t.along, 0, 2 * kTile * D * sizeof(double));
  with_steps(s, p, [&](auto kind) {
    oscillate_back_by<typename decltype(kind)::type>(s, p, q, sensitivity, t, d);
  });
  auto give = [&](const double* along, float* to) {
    for (int64_t n = 0; n < q.rows; ++n) {
      double total = 0;
      for (int i = 0; i < D; ++i) total += along[n * D + i];
      to[n] = static_cast<float>(total);
    }
  };
  if (d_intervals) give(t.along, d_intervals);
  if (d_weights) give(t.along + kTile * D, d_weights);
}

// ---- Norms ----

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

// From t.g, the gradient of x, to that of u, which is added to t.u.
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

// ---- A tile, forwards ----

// From the tile's input to forces.
void drive(const Sizes& s, const Place& q) {
  const Packed p(s, const_cast<float*>(q.packed));
  Tile t(s, q.workspace);
  copy_rows(q.rows, s.hidden, q.u, q.row, t.u, p.H);
  normalize(s, p, q.rows, t);
  product(q.rows, p.P, s.hidden, t.x, p.H, 1, p.input_t, p.P, t.b, p.P, p.bias, 0);
  for (int64_t n = 0; n < q.rows && q.weights; ++n)
    for (int64_t j = 0; j < p.P; j += W) {
      float* b = t.b + n * p.P + j;
      store(b, load(b) * all(q.weights[n]));
    }
}

// C y, and D x if D is a matrix.
void read_out(const Sizes& s, const Packed& p, int64_t rows, Tile& t) {
  const int64_t H = p.H, P = p.P;
  product(rows, H, s.state, t.y, P, 1, p.output_t, H, t.v, H, nullptr, 0);
  if (s.dense) product(rows, H, s.hidden, t.x, H, 1, p.dense_t, H, t.v, H, t.v, H);
}

// To what enters the GLU's gate. For the backward pass (kKeep), t.v becomes the derivative of
// dropout(GELU(v)).
template <bool kKeep>
void activate(const Sizes& s, const Packed& p, const Drop& drop, const Place& q, Tile& t) {
  const int64_t H = p.H;
  read_out(s, p, q.rows, t);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < H; j += W) {
      const int64_t at = n * H + j;
      vf v = load(t.v + at) + load(p.feedthrough + j) * load(t.x + at), g, slope;
      if (q.extra) v += load_part(q.extra + n * q.row + j, s.hidden - j);
      gelu(v, g, slope);
      if (drop) {
        const vf kept = drop.keep(0, n, j);
        g *= kept, slope *= kept;
      }
      store(t.g + at, g);
      if (kKeep) store(t.v + at, slope);
    }
  product(q.rows, 2 * H, s.hidden, t.g, H, 1, p.glu_t, 2 * H, t.w, 2 * H, p.glu_bias, 0);
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
  read_out(s, p, q.rows, t);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < p.H; j += W)
      add(t.v + n * p.H + j, load(p.feedthrough + j) * load(t.x + n * p.H + j));
  copy_rows(q.rows, s.hidden, t.v, p.H, out, q.row);
}

// ---- A tile, backwards ----

// From t.v, the gradient of C y + D x, to that of positions, t.dy.
void read_out_back(const Sizes& s, const Packed& p, int64_t rows, Tile& t, const Gradients& d) {
  const int64_t H = p.H, P = p.P;
  for (int64_t j = 0; j < H; j += W) {
    vf sum = {};
    for (int64_t at = j; at < rows * H; at += H) sum += load(t.v + at) * load(t.x + at);
    add(d.feedthrough + j, sum);
  }
  if (s.dense) product(H, H, rows, t.v, 1, H, t.x, H, d.dense, H, d.dense, H);
  product(H, P, rows, t.v, 1, H, t.y, P, d.output, P, d.output, P);
  product(rows, P, s.hidden, t.v, H, 1, p.output, P, t.dy, P, nullptr, 0);
}

// The tile again, and back from d_out to the gradient of positions. The output's averages pull on each
// of its samples that is there. t.u becomes the gradient that the skip connection passes on.
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
      if (!q.mask || q.mask[n]) o += a + c * (load(out + n * H + j) + through * value);
      store(out + n * H + j, o);  // from here on, the gradient of the block's output
      const vf d_value = o * through, d_gate = d_value * value * (all(1.f) - gate);
      store(w, d_gate), store(w + H, d_value);
      sum_gate += d_gate, sum_value += d_value;
    }
    add(d.glu_bias + j, sum_gate), add(d.glu_bias + H + j, sum_value);
  }
  product(2 * H, H, q.rows, dw, 1, 2 * H, t.g, H, d.glu, H, d.glu, H);
  product(q.rows, H, 2 * H, dw, 2 * H, 1, p.glu, H, dg, H, nullptr, 0);
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

// From the gradients of forces, t.dy, to those of the tile's input.
void finish_back(const Sizes& s, const Place& q, float* d_u, float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Gradients d(s, sums);
  const int64_t H = p.H, P = p.P;
  Tile t(s, q.workspace);
  product(P, H, q.rows, t.dy, 1, P, t.x, H, d.input, H, d.input, H);
  product(q.rows, H, s.state, t.dy, P, 1, p.input, H, t.g, H, nullptr, 0);
  if (s.dense) product(q.rows, H, s.hidden, t.v, H, 1, p.dense, H, t.g, H, t.g, H);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t j = 0; j < H; j += W)
      add(t.g + n * H + j, load(t.v + n * H + j) * load(p.feedthrough + j));
  normalize_back(s, p, q, t, d);
  copy_rows(q.rows, s.hidden, t.u, H, d_u, q.row);
}

void affine(int64_t in, int64_t out, const float* x, const float* weight_t, const float* bias,
            float* y) {
  product(1, padded(out), in, x, 0, 1, weight_t, padded(out), y, 0, bias, 0);  // rows are one row
}

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {drive,           oscillate,      finish,      add_moments,
                              finish_mixer,    recompute,      recompute_mixer,
                              oscillate_back,  finish_back,    affine};
}
}  // namespace linoss::block

#else

#include <cmath>
#include <tuple>

#include "moments.h"
#include "runtime.h"

namespace linoss::block {

LINOSS_CHOOSE(Table, kernels)

static constexpr char kRate[] = "rate", kEpsilon[] = "epsilon", kScheme[] = "scheme";
using Rate = ffi::Attr<double, kRate>;
using Epsilon = ffi::Attr<double, kEpsilon>;
using Name = ffi::Attr<std::string_view, kScheme>;

// The weights up to C and D, and what varies from sample to sample.
struct Mixer {
  F32 mean;         // hidden; the shift of a norm over channels
  F32 scale;        // hidden: one over the deviation, or the scale of a norm over channels
  F32 input;        // state x hidden: B
  F32 bias;         // state: b
  F32 step;         // kStepRows or kSchemeRows x state
  F32 output;       // hidden x state: C
  F32 feedthrough;  // hidden, or hidden x hidden: D
  U8 mask;          // batch x time, or empty
  F32 intervals;    // batch x time if steps vary, else empty
  F32 weights;      // batch x time: of forces, or empty
};

// What enters and leaves the oscillators is in the order in which they visit samples, u and outputs in
// that of time.
struct Problem {
  Sizes sizes;
  Mixer mixer;
  bool reverse;
  Memory<float> packed;

  Problem(const F32& u, const Mixer& m, double epsilon, std::string_view scheme, bool reverse,
          Shapes& shapes)
      : sizes(sizes_of(u, m, epsilon, scheme, shapes)), mixer(m), reverse(reverse),
        packed(Packed(sizes, nullptr).parts.size) {
    const auto [batch, time, hidden, state] = std::tie(sizes.batch, sizes.time, sizes.hidden,
                                                       sizes.state);
    const bool varying = sizes.scheme != Scheme::constant;
    shapes.check("mean", m.mean, {hidden}), shapes.check("scale", m.scale, {hidden});
    shapes.check("input", m.input, {state, hidden}), shapes.check("bias", m.bias, {state});
    shapes.check("step", m.step, {varying ? kSchemeRows : kStepRows, state});
    shapes.check("output", m.output, {hidden, state});
    check_feedthrough("feedthrough", m.feedthrough, shapes);
    if (or_null(m.mask)) shapes.check("mask", m.mask, {batch, time});
    if (varying) shapes.check("intervals", m.intervals, {batch, time});
    if (or_null(m.weights)) shapes.check("weights", m.weights, {batch, time});
    if (shapes.wrong() || !packed.at) return;
    pack_mixer(sizes, Packed(sizes, packed.at),
               {m.mean.typed_data(), m.scale.typed_data(), m.input.typed_data(), m.bias.typed_data(),
                m.step.typed_data(), m.output.typed_data(), m.feedthrough.typed_data()},
               varying ? kSchemeRows : kStepRows);
  }

  static Sizes sizes_of(const F32& u, const Mixer& m, double epsilon, std::string_view scheme,
                        Shapes& shapes) {
    Sizes s = {};
    std::tie(s.batch, s.time, s.hidden) = shapes.sizes<3>("u", u);
    std::tie(s.state, std::ignore) = shapes.sizes<2>("input", m.input);
    s.scheme = scheme_of(scheme);
    if (s.scheme == Scheme::unknown) shapes.refuse("scheme", std::string(scheme));
    s.epsilon = static_cast<float>(epsilon);
    s.dense = m.feedthrough.dimensions().size() == 2;
    return s;
  }

  template <typename Buffer>
  void check_feedthrough(const char* name, const Buffer& buffer, Shapes& shapes) const {
    if (sizes.dense)
      shapes.check(name, buffer, {sizes.hidden, sizes.hidden});
    else
      shapes.check(name, buffer, {sizes.hidden});
  }

  int64_t workspace() const { return Tile(sizes, nullptr).parts.size; }
  // Where a tile's samples are in arrays of samples, in arrays like u, and its state among those kept.
  int64_t sample(int64_t i, int64_t tile) const { return i * sizes.time + tile * kTile; }
  int64_t features(int64_t i, int64_t tile) const {
    const int64_t first = tile * kTile;
    return (i * sizes.time + (reverse ? sizes.time - 1 - first : first)) * sizes.hidden;
  }
  int64_t state(int64_t i, int64_t tile) const {
    return (i * tiles(sizes.time) + tile) * 2 * sizes.state;
  }
  Place place(const F32& u, int64_t i, int64_t tile, float* workspace,
              const float* extra = nullptr) const {
    auto at = [&](auto* samples) { return samples ? samples + sample(i, tile) : nullptr; };
    const int64_t from = tile * kTile;
    return {packed.at, workspace, i, from, std::min(kTile, sizes.time - from),
            reverse ? -sizes.hidden : sizes.hidden, u.typed_data() + features(i, tile),
            at(or_null(mixer.mask)), at(or_null(mixer.intervals)), at(or_null(mixer.weights)),
            extra ? extra + features(i, tile) : nullptr};
  }
};

// The gradients of a mixer, and where they go.
struct MixerGradients {
  OutF32 mean, scale, input, bias, step, output, feedthrough, intervals, weights;

  void check(const Problem& p, Shapes& shapes) {
    p.check_feedthrough("d_feedthrough", *feedthrough, shapes);
    if (or_null(p.mixer.intervals))
      shapes.check("d_intervals", *intervals, {p.sizes.batch, p.sizes.time});
    if (or_null(p.mixer.weights))
      shapes.check("d_weights", *weights, {p.sizes.batch, p.sizes.time});
  }
  void give(const Problem& p, const Gradients& g) {
    const auto& [batch, time, hidden, state, scheme, epsilon, dense] = p.sizes;
    give_rows(state, hidden, g.input, g.H, input->typed_data());
    give_rows(hidden, state, g.output, g.P, output->typed_data());
    give_rows(step->dimensions()[0], state, g.step, g.P, step->typed_data());
    give_rows(1, state, g.bias, g.P, bias->typed_data());
    if (dense)
      give_rows(hidden, hidden, g.dense, g.H, feedthrough->typed_data());
    else
      give_rows(1, hidden, g.feedthrough, g.H, feedthrough->typed_data());
    const bool channels = epsilon == 0;  // x = (u - mean) * scale
    for (int64_t h = 0; h < hidden; ++h) {
      const float factor = p.mixer.scale.typed_data()[h];
      mean->typed_data()[h] = channels ? -g.mean[h] * factor : g.mean[h];
      scale->typed_data()[h] = channels ? g.scale[h] / factor : g.scale[h];
    }
  }
};

// The tiles of all sequences, forwards. Tiles wait for the state before them; finish(place, i, tile)
// comes after it.
template <typename Finish>
ffi::Error forward_tiles(Threads& threads, const Problem& p, const F32& u, const float* extra,
                         float* kept, float* final, Finish finish) {
  const Sizes& s = p.sizes;
  std::unique_ptr<Turns[]> states(new Turns[s.batch]);
  Memory<float> after(s.batch * 2 * s.state);
  if (!after.at) return out_of_memory();
  auto work = [&](int64_t i, int64_t tile, float* workspace) {
    const Place q = p.place(u, i, tile, workspace, extra);
    const bool last = tile + 1 == tiles(s.time);
    kernels().drive(s, q);
    states[i].wait(tile);
    kernels().oscillate(s, q, kept + p.state(i, tile),
                        last ? after.at + i * 2 * s.state : kept + p.state(i, tile + 1));
    states[i].pass();
    finish(q, i, tile);
  };
  ffi::Error error = parallel_steps(threads, s.batch, tiles(s.time), p.workspace(), work);
  for (int64_t k = 0; final && k < s.batch * 2 * s.state; ++k) {  // z and y side by side
    const int64_t i = k / (2 * s.state), j = k / 2 % s.state;
    final[k] = after.at[(2 * i + k % 2) * s.state + j];
  }
  return error;
}

// The tiles of all sequences, from the last to the first. recompute(place, i, tile, sums) ends with the
// gradient of positions. ends: gradients of the final states, and of the first in the end.
template <typename Recompute>
ffi::Error backward_tiles(Threads& threads, const Problem& p, const F32& u, const float* extra,
                          const float* d_final, float* d_start, OutF32& d_u, MixerGradients& d,
                          StepSums& sums, int64_t more, Recompute recompute) {
  const Sizes& s = p.sizes;
  const int64_t P = padded(s.state), number = tiles(s.time);
  std::unique_ptr<Turns[]> turns(new Turns[s.batch]);
  Memory<float> sensitivity(s.batch * 2 * P);
  if (!sensitivity.at) return out_of_memory();
  auto at = [&](int64_t k) {  // z and y side by side
    return (k / s.state / 2 * 2 + k % 2) * P + k / 2 % s.state;
  };
  for (int64_t k = 0; d_final && k < s.batch * 2 * s.state; ++k) sensitivity.at[at(k)] = d_final[k];
  const bool varying = or_null(p.mixer.intervals), weighs = or_null(p.mixer.weights);
  auto work = [&](int64_t i, int64_t step, float* workspace) {
    const int64_t tile = number - 1 - step, sample = p.sample(i, tile);
    const Place q = p.place(u, i, tile, workspace, extra);
    sums.turn(i, step, [&](float* sums) {
      recompute(q, i, tile, sums);
      turns[i].wait(step);
      kernels().oscillate_back(s, q, sensitivity.at + i * 2 * P,
                               varying ? d.intervals->typed_data() + sample : nullptr,
                               weighs ? d.weights->typed_data() + sample : nullptr, sums);
      turns[i].pass();
      kernels().finish_back(s, q, d_u->typed_data() + p.features(i, tile), sums);
    });
  };
  ffi::Error error = parallel_steps(threads, s.batch, number, p.workspace() + more, work);
  for (int64_t k = 0; d_start && k < s.batch * 2 * s.state; ++k) d_start[k] = sensitivity.at[at(k)];
  d.give(p, Gradients(s, sums.total()));
  return error;
}

// ---- The block ----

struct Glu {
  F32 weight;  // 2 hidden x hidden: gate, then value
  F32 bias;    // 2 hidden

  void pack(const Problem& p, Shapes& shapes) const {
    const int64_t hidden = p.sizes.hidden;
    shapes.check("glu", weight, {2 * hidden, hidden}), shapes.check("glu_bias", bias, {2 * hidden});
    if (!shapes.wrong() && p.packed.at)
      pack_glu(p.sizes, Packed(p.sizes, p.packed.at), weight.typed_data(), bias.typed_data());
  }
};

// words: two of a key for each dropout, origin and stride.
Dropout dropout_of(const U32& words, double rate, Shapes& shapes) {
  Dropout dropout = {0, 1.f, {}, 0, 0};
  shapes.check("words", words, {6});
  if (shapes.wrong() || rate <= 0) return dropout;
  // As nn/_dropout.py has it: 2^32 times the rate, rounded.
  dropout.threshold = uint32_t(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1));
  dropout.scale = static_cast<float>(1 / (1 - rate));
  std::memcpy(dropout.words, words.typed_data(), sizeof(dropout.words));
  dropout.origin = words.typed_data()[4], dropout.stride = words.typed_data()[5];
  return dropout;
}

// extra: batch x time x hidden, or empty. start, final: batch x state x 2.
ffi::Error forward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                   F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words, U8 mask,
                   F32 intervals, F32 weights, F32 extra, F32 start, Rate rate, Epsilon epsilon,
                   Name scheme, OutF32 out, OutF32 final, OutF32 means, OutF32 moments,
                   OutF32 kept) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  *epsilon, *scheme, false, shapes);
  const Dropout dropout = dropout_of(words, *rate, shapes);
  const Sizes& s = p.sizes;
  Glu{glu, glu_bias}.pack(p, shapes);
  const float* extra_or_null = or_null(extra);
  if (extra_or_null) shapes.check("extra", extra, {s.batch, s.time, s.hidden});
  shapes.check("start", start, {s.batch, s.state, 2});
  shapes.check("out", *out, {s.batch, s.time, s.hidden});
  shapes.check("final", *final, {s.batch, s.state, 2});
  shapes.check("means", *means, {s.batch, s.hidden});
  shapes.check("moments", *moments, {2, s.hidden});
  shapes.check("kept", *kept, {s.batch, tiles(s.time), 2, s.state});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(out), on_large_pages(kept);
  Moments sums(s.batch, s.hidden);
  if (!p.packed.at || sums.failed()) return out_of_memory();
  for (int64_t k = 0; k < s.batch * s.state * 2; ++k) {  // z and y side by side
    const int64_t i = k / 2 / s.state, j = k / 2 % s.state;
    kept->typed_data()[p.state(i, 0) + k % 2 * s.state + j] = start.typed_data()[k];
  }
  for (int64_t i = 0; i < s.batch; ++i)
    sums.counts[i] = present(mask.element_count() ? mask.typed_data() + i * s.time : nullptr, s.time);
  std::unique_ptr<Turns[]> turns(new Turns[s.batch]);
  ffi::Error error = forward_tiles(
      threads, p, u, extra_or_null, kept->typed_data(), final->typed_data(),
      [&](const Place& q, int64_t i, int64_t tile) {
        kernels().finish(p.sizes, dropout, q, out->typed_data() + p.features(i, tile));
        turns[i].wait(tile);
        kernels().add_moments(p.sizes, q, sums.at(i));
        turns[i].pass();
      });
  for (int64_t i = 0; i < s.batch; ++i) sums.mean_of(i, means->typed_data() + i * s.hidden);
  sums.merge(moments->typed_data(), moments->typed_data() + s.hidden);
  return error;
}

ffi::Error backward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                    F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words, U8 mask,
                    F32 intervals, F32 weights, F32 extra, F32 kept, F32 moments, F32 d_out,
                    F32 d_final, F32 d_means, F32 d_moments, Rate rate, Epsilon epsilon, Name scheme,
                    OutF32 d_u, OutF32 d_mean, OutF32 d_scale, OutF32 d_input, OutF32 d_bias,
                    OutF32 d_step, OutF32 d_output, OutF32 d_feedthrough, OutF32 d_glu,
                    OutF32 d_glu_bias, OutF32 d_intervals, OutF32 d_weights, OutF32 d_extra,
                    OutF32 d_start) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  *epsilon, *scheme, false, shapes);
  const Dropout dropout = dropout_of(words, *rate, shapes);
  const Sizes& s = p.sizes;
  Glu{glu, glu_bias}.pack(p, shapes);
  MixerGradients d = {d_mean,   d_scale,       d_input,     d_bias,   d_step,
                      d_output, d_feedthrough, d_intervals, d_weights};
  d.check(p, shapes);
  const float *extra_or_null = or_null(extra), *d_out_or_null = or_null(d_out);
  if (extra_or_null) shapes.check("d_extra", *d_extra, {s.batch, s.time, s.hidden});
  if (d_out_or_null) shapes.check("d_out", d_out, {s.batch, s.time, s.hidden});  // else zeros
  shapes.check("kept", kept, {s.batch, tiles(s.time), 2, s.state});
  shapes.check("d_means", d_means, {s.batch, s.hidden});
  shapes.check("d_final", d_final, {s.batch, s.state, 2});
  shapes.check("moments", moments, {2, s.hidden});
  shapes.check("d_moments", d_moments, {2, s.hidden});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(d_u);
  const int64_t row = 2 * padded(s.hidden), tile_size = p.workspace();
  Memory<float> pull(row);
  StepSums sums(s.batch, tiles(s.time), Gradients(s, nullptr).parts.size);
  if (!p.packed.at || !pull.at || sums.failed()) return out_of_memory();
  const uint8_t* there = or_null(mask);
  pull_of_moments(s.hidden, present(there, s.batch * s.time), moments, d_moments, pull.at);
  std::vector<int64_t> counts(s.batch);
  for (int64_t i = 0; i < s.batch; ++i)
    counts[i] = std::max<int64_t>(present(there ? there + i * s.time : nullptr, s.time), 1);
  ffi::Error error = backward_tiles(
      threads, p, u, extra_or_null, d_final.typed_data(), d_start->typed_data(), d_u, d, sums, row,
      [&](const Place& q, int64_t i, int64_t tile, float* sums) {
        float* pull_here = q.workspace + tile_size;  // with that of the mean over the sequence
        std::memcpy(pull_here, pull.at, row * sizeof(float));
        for (int64_t h = 0; h < p.sizes.hidden; ++h)
          pull_here[h] += d_means.typed_data()[i * p.sizes.hidden + h] / counts[i];
        const int64_t at = p.features(i, tile);
        kernels().recompute(p.sizes, dropout, q, kept.typed_data() + p.state(i, tile),
                            d_out_or_null ? d_out_or_null + at : nullptr, pull_here,
                            extra_or_null ? d_extra->typed_data() + at : nullptr, sums);
      });
  const Gradients g(s, sums.total());
  for (int64_t half = 0; half < 2; ++half)
    give_rows(s.hidden, s.hidden, g.glu + half * g.H * g.H, g.H,
              d_glu->typed_data() + half * s.hidden * s.hidden);
  give_rows(2, s.hidden, g.glu_bias, g.H, d_glu_bias->typed_data());
  return error;
}

// ---- The mixer alone, from the last sample to the first, from rest ----

ffi::Error mix_forward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                       F32 output, F32 feedthrough, U8 mask, F32 intervals, F32 weights,
                       Epsilon epsilon, Name scheme, OutF32 out, OutF32 kept) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  *epsilon, *scheme, true, shapes);
  const Sizes& s = p.sizes;
  shapes.check("out", *out, {s.batch, s.time, s.hidden});
  shapes.check("kept", *kept, {s.batch, tiles(s.time), 2, s.state});
  if (shapes.wrong()) return shapes.error();
  if (!p.packed.at) return out_of_memory();
  on_large_pages(out), on_large_pages(kept);
  for (int64_t i = 0; i < s.batch; ++i)
    std::fill_n(kept->typed_data() + p.state(i, 0), 2 * s.state, 0.f);
  return forward_tiles(threads, p, u, nullptr, kept->typed_data(), nullptr,
                       [&](const Place& q, int64_t i, int64_t tile) {
                         kernels().finish_mixer(p.sizes, q, out->typed_data() + p.features(i, tile));
                       });
}

ffi::Error mix_backward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                        F32 output, F32 feedthrough, U8 mask, F32 intervals, F32 weights, F32 kept,
                        F32 d_out, Epsilon epsilon, Name scheme, OutF32 d_u, OutF32 d_mean,
                        OutF32 d_scale, OutF32 d_input, OutF32 d_bias, OutF32 d_step,
                        OutF32 d_output, OutF32 d_feedthrough, OutF32 d_intervals,
                        OutF32 d_weights) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  *epsilon, *scheme, true, shapes);
  const Sizes& s = p.sizes;
  MixerGradients d = {d_mean,   d_scale,       d_input,     d_bias,   d_step,
                      d_output, d_feedthrough, d_intervals, d_weights};
  d.check(p, shapes);
  shapes.check("kept", kept, {s.batch, tiles(s.time), 2, s.state});
  shapes.check("d_out", d_out, {s.batch, s.time, s.hidden});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(d_u);
  StepSums sums(s.batch, tiles(s.time), Gradients(s, nullptr).parts.size);
  if (!p.packed.at || sums.failed()) return out_of_memory();
  return backward_tiles(threads, p, u, nullptr, nullptr, nullptr, d_u, d, sums, 0,
                        [&](const Place& q, int64_t i, int64_t tile, float* sums) {
                          kernels().recompute_mixer(p.sizes, q, kept.typed_data() + p.state(i, tile),
                                                    d_out.typed_data() + p.features(i, tile), sums);
                        });
}

LINOSS_TARGET(linoss_block_forward, forward);
LINOSS_TARGET(linoss_block_backward, backward);
LINOSS_TARGET(linoss_mix_forward, mix_forward);
LINOSS_TARGET(linoss_mix_backward, mix_backward);

}  // namespace linoss::block

#endif
