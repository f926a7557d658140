// Vectors of LINOSS_WIDTH floats and of half as many doubles, and functions of them: exponential,
// sigmoid, normal distribution (for GELU), random bits (for dropout), and, in double precision,
// exponential and rotation (for steps of any length).
#pragma once

#include "kernel.h"

namespace linoss {
namespace {

constexpr int W = LINOSS_WIDTH;
constexpr int D = W / 2;

typedef float vf __attribute__((vector_size(W * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(W * 4), may_alias));
typedef uint32_t vu __attribute__((vector_size(W * 4), may_alias));
typedef double vd __attribute__((vector_size(D * 8), may_alias));
typedef float vn __attribute__((vector_size(D * 4), aligned(4), may_alias));  // unaligned
typedef int64_t vl __attribute__((vector_size(D * 8), may_alias));

// 0, 1, ... W - 1, plus `first`: a constant and one vector addition.
inline vu places() {
  vu x = {};
  for (int i = 0; i < W; ++i) x[i] = i;
  return x;
}
inline vf all(float x) { return x - vf{}; }
inline vd wide(double x) { return x - vd{}; }
inline vf load(const float* p) { return *reinterpret_cast<const vf*>(p); }
inline void store(float* p, vf x) { *reinterpret_cast<vf*>(p) = x; }

// The first `left` of W unaligned floats, then zeros.
inline vf load_part(const float* p, int64_t left) {
  vf x = {};
  if (left >= W)
    std::memcpy(&x, p, sizeof(x));
  else if (left > 0)
    std::memcpy(&x, p, left * 4);
  return x;
}

// D unaligned numbers, as doubles.
template <typename T>
struct Unaligned {
  typedef T type __attribute__((vector_size(D * sizeof(T)), aligned(alignof(T)), may_alias));
};
template <typename T>
inline vd load_wide(const T* p) {
  return __builtin_convertvector(*reinterpret_cast<const typename Unaligned<T>::type*>(p), vd);
}
template <typename T>
inline void store_narrow(T* p, vd x) {
  typedef T narrow __attribute__((vector_size(D * sizeof(T))));
  *reinterpret_cast<typename Unaligned<T>::type*>(p) = __builtin_convertvector(x, narrow);
}
// The first `lanes` of them, then zeros.
template <typename T>
inline vd load_wide(const T* p, int lanes) {
  if (lanes == D) return load_wide(p);
  vd x = {};
  for (int i = 0; i < lanes; ++i) x[i] = p[i];
  return x;
}
template <typename T>
inline void store_narrow(T* p, vd x, int lanes) {
  if (lanes == D) return store_narrow(p, x);
  for (int i = 0; i < lanes; ++i) p[i] = static_cast<T>(x[i]);
}

// e^x for x in [-80, 80], constant beyond (and a normal number): 2^n times a polynomial on [-ln 2 / 2,
// ln 2 / 2]. Relative error below 3e-7.
inline vf exponential(vf x) {
  x = x < all(-80.f) ? all(-80.f) : x;
  x = x > all(80.f) ? all(80.f) : x;
  const vf t = x * all(1.44269504f) + all(12582912.f);  // 1.5 2^23: rounds to an integer
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

// GELU(x) and its slope, by the normal distribution or in the tanh form: x / (1 + e^(-2 w)), w = sqrt(2 /
// pi) (x + 0.044715 x^3).
inline void gelu(bool approximate, vf x, vf& value, vf& slope) {
  if (approximate) {
    const vf square = x * x, s = sigmoid(x * (all(1.59576912f) + square * all(0.0713548163f)));
    value = x * s;
    slope = s + value * (all(1.f) - s) * (all(1.59576912f) + square * all(0.214064449f));
    return;
  }
  vf distribution, density;
  normal(x, distribution, density);
  value = x * distribution, slope = distribution + x * density;
}

// Rounds |x| < 2^51 to integers, and stores these in the lowest bits of the result.
inline vd nearest(vd x, vl& bits) {
  const vd shifted = x + wide(6755399441055744.0);  // 1.5 2^52
  bits = (vl)shifted;
  return shifted - wide(6755399441055744.0);
}

// e^x for x in [-700, 700], constant beyond. Relative error below 1e-12.
inline vd exponential(vd x) {
  x = x < wide(-700) ? wide(-700) : x;
  x = x > wide(700) ? wide(700) : x;
  vl bits;
  const vd n = nearest(x * wide(1.4426950408889634), bits);
  const vd r = (x - n * wide(0.693147180369123816490)) - n * wide(1.90821492927058770002e-10);
  vd p = wide(1);
  for (int k = 10; k > 0; --k) p = wide(1) + p * (r * wide(1.0 / k));
  return (vd)((vl)p + (bits << 52));
}

// Cosine and sine of 2 pi `turns`, |turns| < 2^49. Absolute error below 1e-12 for a few turns.
inline void rotation(vd turns, vd& cosine, vd& sine) {
  vl quarter;
  const vd n = nearest(turns * wide(4), quarter);
  const vd x = (turns - n * wide(0.25)) * wide(6.283185307179586477), square = x * x;
  vd c = wide(1), s = wide(1);
  for (int k = 12; k > 0; k -= 2) {
    c = wide(1) - c * (square * wide(1.0 / (k * (k - 1))));
    s = wide(1) - s * (square * wide(1.0 / (k * (k + 1))));
  }
  s *= x;
  const vl odd = -(quarter & 1), half = (quarter & 2) << 62, next = ((quarter + 1) & 2) << 62;
  const vl a = odd ? (vl)s : (vl)c, b = odd ? (vl)c : (vl)s;
  cosine = (vd)(a ^ next), sine = (vd)(b ^ half);
}

// Random bits of W neighbours from `position` on: the generator of nn/_dropout.py.
inline vu random_bits(const uint32_t words[2], uint32_t position) {
  vu x = (places() + position) ^ words[0];
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x += words[1];
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

}  // namespace
}  // namespace linoss
