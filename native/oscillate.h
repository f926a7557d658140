// The oscillators of a block over one tile, and their adjoint, with constant and with varying steps.
#pragma once

#include <type_traits>

#include "block.h"
#include "recurrence.h"

namespace linoss::block {
namespace {

inline vn narrow(vd x) { return __builtin_convertvector(x, vn); }
inline vn load_near(const float* p) { return *reinterpret_cast<const vn*>(p); }
inline void add_near(float* p, vn x) { *reinterpret_cast<vn*>(p) += x; }

// The location of the state before a sample and of its force.
struct Driven {
  const float *z, *y, *b;
};

// The steps of oscillators in pairs of vectors, the second one `apart` from the first, and sums of
// their gradients: of one constant step, or of the parameters of a scheme. The real and imaginary parts
// of complex oscillators have the same steps: if their distance is a whole number of vectors, varying
// steps are computed once for both (kShared).
struct ConstantSteps {
  static constexpr bool kShared = false;
  Step step[2];
  ConstantSteps(const Packed& p, int64_t j, int64_t apart, const float*)
      : step{load_step(p.step + j, p.P), load_step(p.step + j + apart, p.P)} {}
  const Step& operator()(int64_t, int k) { return step[k]; }

  // Sums of one tile: single precision suffices.
  struct Sums {
    vn total[2][kStepRows] = {};
    void add(const ConstantSteps&, int64_t, int k, const State& d, const Driven& x, double*) {
      const vn dz = narrow(d.z), dy = narrow(d.y), z = load_near(x.z), y = load_near(x.y),
               b = load_near(x.b);
      vn* sum = total[k];
      sum[0] += dz * z, sum[1] += dz * y, sum[2] += dy * z, sum[3] += dy * y;
      sum[4] += dz * b, sum[5] += dy * b;
    }
    void give(float* to, int64_t row, int64_t apart) {
      for (int k = 0; k < 2; ++k)
        for (int r = 0; r < kStepRows; ++r) add_near(to + k * apart + r * row, total[k][r]);
    }
  };
};

template <typename Rule>
struct Varying {  // one vector
  Rule rule;
  vd timestep, longest;
  typename Rule::Sample sample;
  Step step;
  Varying(const float* rows, int64_t P, int64_t j)
      : rule(load_wide(rows + j), load_wide(rows + 2 * P + j)), timestep(load_wide(rows + P + j)),
        longest(load_wide(rows + 3 * P + j)) {}
  const Step& at(double interval) {
    sample = rule.at(lower(timestep * interval, longest));
    return step = rule.step(sample);
  }
  const Step& regular() { return step = rule.step(sample = rule.at(timestep)); }
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
    // Call it after the step of sample n.
    void add(const VaryingSteps& s, int64_t n, int k, const State& d, const Driven& x,
             double* d_interval) {
      Step both = d_step_of(d, {load_wide(x.z), load_wide(x.y)}, load_wide(x.b));
      if (kShared && k == 0) {
        first = both;
        return;
      }
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
      : of{{p.step, p.P, j}}, intervals(intervals) {}
  VaryingSteps(const Packed& p, int64_t j, int64_t apart, const float* intervals, std::false_type)
      : of{{p.step, p.P, j}, {p.step, p.P, j + apart}}, intervals(intervals) {}
};

// Calls work(kind), where `kind` represents the type of the formulas of a scheme, or of the steps.
template <typename T>
struct Kind {
  using type = T;
};
template <typename Work>
inline void with_rule(Scheme scheme, Work work) {
  switch (scheme) {
    case Scheme::im: return work(Kind<Im>{});
    case Scheme::imex: return work(Kind<Imex>{});
    case Scheme::verlet: return work(Kind<Verlet>{});
    case Scheme::exact: return work(Kind<Exact>{});
    case Scheme::constant:
    case Scheme::pairs:
    case Scheme::unknown: return;
  }
}
template <typename Work>
inline void with_steps(const Sizes& s, const Packed& p, Work work) {
  if (s.scheme == Scheme::constant) return work(Kind<ConstantSteps>{});
  with_rule(s.scheme, [&](auto rule) {
    using Rule = typename decltype(rule)::type;
    const int64_t half = s.state / 2;
    bool shared = s.state % (2 * D) == 0;
    for (int r = 0; r < kSchemeRows && shared; ++r)
      shared = std::memcmp(p.step + r * p.P, p.step + r * p.P + half, half * sizeof(float)) == 0;
    if (shared) work(Kind<VaryingSteps<Rule, true>>{});
    else work(Kind<VaryingSteps<Rule, false>>{});
  });
}

void find_step(const Sizes& s, const Packed& p) {
  with_rule(s.rule, [&](auto rule) {
    for (int64_t j = 0; j < p.P; j += D)
      store_step(p.step + j, p.P, Varying<typename decltype(rule)::type>(p.rule, p.P, j).regular());
  });
}
void pull_rule(const Sizes& s, const float* packed, float* sums) {
  const Packed p(s, const_cast<float*>(packed));
  with_rule(s.rule, [&](auto rule) {
    for (int64_t j = 0; j < p.P; j += D) {
      Varying<typename decltype(rule)::type> v(p.rule, p.P, j);
      float* d = Gradients(s, sums).step + j;
      v.regular();
      const Pull pull = v.rule.pull(v.sample, load_step(d, p.P));
      store_narrow(d, pull.A), store_narrow(d + p.P, pull.h), store_narrow(d + 2 * p.P, pull.G);
      store_narrow(d + 3 * p.P, vd{});
    }
  });
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

// Runs the tile's forces from t.state, which is updated. For the backward pass velocities are also
// stored.
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

// Pairs of states, a vector of the first half with its partners.
struct Pairs {
  const int64_t half;
  const vd own[2], other[2];
  Pairs(const Sizes& s, const Packed& p, int64_t j)
      : half(s.state / 2), own{load_wide(p.step + j), load_wide(p.step + j + half)},
        other{load_wide(p.step + p.P + j), load_wide(p.step + p.P + j + half)} {}
};

void move_pairs(const Sizes& s, const Packed& p, const Place& q, Tile& t) {
  const int64_t P = p.P, half = s.state / 2;
  for (int64_t j = 0; j < half; j += D) {
    const Pairs step(s, p, j);
    float* end = t.state + P + j;
    vd first = load_wide(end), second = load_wide(end + half);
    store_narrow(t.y - P + j, first), store_narrow(t.y - P + j + half, second);
    for (int64_t at = j, n = 0; n < q.rows; ++n, at += P) {
      if (!q.mask || q.mask[n]) {
        const vd b[2] = {load_wide(t.b + at), load_wide(t.b + at + half)};
        const vd next = step.own[0] * first + (step.other[0] * second + b[0]);
        second = step.own[1] * second + (step.other[1] * first + b[1]);
        first = next;
      }
      store_narrow(t.y + at, first), store_narrow(t.y + at + half, second);
    }
    store_narrow(end, first), store_narrow(end + half, second);
  }
}

template <bool kKeep>
void move(const Sizes& s, const Packed& p, const Place& q, const float* before, Tile& t) {
  refill_rows(2, s.state, before, s.state, t.state, p.P);
  if (s.scheme == Scheme::pairs) return move_pairs(s, p, q, t);
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

// The adjoint, from `sensitivity`, which is updated. The gradient of the force replaces that of the
// position. t.b are forces times their weights.
template <typename Steps>
void oscillate_back_by(const Sizes& s, const Packed& p, const Place& q, float* sensitivity, Tile& t,
                       const Gradients& d) {
  const int64_t P = p.P;
  double *d_interval = t.along, *d_weight = t.along + kTile * D;
  each_pair<Steps>(s, P, [&](int64_t j, int64_t apart) {
    Steps steps(p, j, apart, q.intervals);
    typename Steps::Sums d_steps;
    State x[2];
    vn d_bias[2] = {};
    auto at = [&](int64_t n, int k) { return n * P + j + k * apart; };
    for (int k = 0; k < 2; ++k)
      x[k] = {load_wide(sensitivity + at(0, k)), load_wide(sensitivity + P + at(0, k))};
    pull_back<2>(
        q.rows, q.mask, x, [&](int64_t n, int k) -> const Step& { return steps(n, k); },
        [&](int64_t n, int k) { return load_wide(t.dy + at(n, k)); },
        [&](int64_t n, int k, vd d_force, const State& d_after) {
          const Driven before = {t.z - P + at(n, k), t.y - P + at(n, k), t.b + at(n, k)};
          if (!q.mask || q.mask[n]) d_steps.add(steps, n, k, d_after, before, d_interval + n * D);
          if (is_silent(q.mask, n)) d_force = vd{};
          if (q.weights) {
            const double weight = q.weights[n];
            *reinterpret_cast<vd*>(d_weight + n * D) += d_force * load_wide(t.b + at(n, k)) / weight;
            d_force *= weight;
          }
          const vn given = narrow(d_force);
          *reinterpret_cast<vn*>(t.dy + at(n, k)) = given;
          d_bias[k] += given;
        });
    d_steps.give(d.step + j, P, apart);
    for (int k = 0; k < 2; ++k) {
      store_narrow(sensitivity + at(0, k), x[k].z), store_narrow(sensitivity + P + at(0, k), x[k].y);
      add_near(d.bias + at(0, k), d_bias[k]);
    }
  });
}

void pull_pairs_back(const Sizes& s, const Packed& p, const Place& q, float* sensitivity, Tile& t,
                     const Gradients& d) {
  const int64_t P = p.P, half = s.state / 2;
  for (int64_t j = 0; j < half; j += D) {
    const Pairs step(s, p, j);
    float* end = sensitivity + P + j;
    vd pull[2] = {load_wide(end), load_wide(end + half)};
    vn d_own[2] = {}, d_other[2] = {}, d_bias[2] = {};
    for (int64_t n = q.rows - 1; n >= 0; --n) {
      float* dy = t.dy + n * P + j;
      pull[0] += load_wide(dy), pull[1] += load_wide(dy + half);
      vn given[2] = {};
      if (!q.mask || q.mask[n]) {
        const float* before = t.y + (n - 1) * P + j;
        const vn x[2] = {load_near(before), load_near(before + half)};
        for (int k = 0; k < 2; ++k) {
          const vn here = narrow(pull[k]);
          d_own[k] += here * x[k], d_other[k] += here * x[1 - k];
          if (!is_silent(q.mask, n)) given[k] = here, d_bias[k] += here;
        }
        const vd next = step.own[0] * pull[0] + step.other[1] * pull[1];
        pull[1] = step.own[1] * pull[1] + step.other[0] * pull[0];
        pull[0] = next;
      }
      for (int k = 0; k < 2; ++k) *reinterpret_cast<vn*>(dy + k * half) = given[k];
    }
    for (int k = 0; k < 2; ++k) {
      const int64_t at = j + k * half;
      store_narrow(sensitivity + P + at, pull[k]), add_near(d.bias + at, d_bias[k]);
      add_near(d.step + at, d_own[k]), add_near(d.step + P + at, d_other[k]);
    }
  }
}

void oscillate_back(const Sizes& s, const Place& q, float* sensitivity, float* d_intervals,
                    float* d_weights, float* sums) {
  const Packed p(s, const_cast<float*>(q.packed));
  const Gradients d(s, sums);
  Tile t(s, q.workspace);
  if (s.scheme == Scheme::pairs) return pull_pairs_back(s, p, q, sensitivity, t, d);
  if (d_intervals || d_weights) std::memset(t.along, 0, 2 * kTile * D * sizeof(double));
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

}  // namespace
}  // namespace linoss::block
