// Numbers rounded to bfloat16, in pairs along the depth of a product, which is summed in single
// precision.
//
// A bfloat16 is the upper half of a float. Rounding is to nearest, ties to even; AVX512-BF16 treats
// subnormal numbers as zero.
#pragma once

#include "vector.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace linoss {
namespace {

typedef uint16_t vh __attribute__((vector_size(W * 2), may_alias));

#ifdef __AVX512BF16__

inline vh rounded(vf x) { return (vh)_mm512_cvtneps_pbh((__m512)x); }
// sum + a b of both halves of each lane.
inline vf multiply_add(vu a, vu b, vf sum) {
  return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

#else

inline vh rounded(vf x) {
  const vu bits = (vu)x, nearest = bits + 0x7fffu + (bits >> 16 & 1);
  return __builtin_convertvector((x == x ? nearest : bits | 0x400000u) >> 16, vh);
}
inline vf multiply_add(vu a, vu b, vf sum) {
  sum += (vf)(a << 16) * (vf)(b << 16);
  return sum + (vf)(a & 0xffff0000u) * (vf)(b & 0xffff0000u);
}

#endif

// Rounds rows of floats to pairs of neighbours: rows x width / 2.
void pair_neighbours(int64_t rows, int64_t width, const float* from, uint32_t* to) {
  for (int64_t at = 0; at < rows * width; at += W)
    *reinterpret_cast<vh*>(to + at / 2) = rounded(load(from + at));
}

// Rounds to pairs of consecutive rows: rows / 2 x width, with zeros after an odd number of rows. `to`
// may equal `from`.
void pair_rows(int64_t rows, int64_t width, const float* from, uint32_t* to) {
  for (int64_t n = 0; n < rows; n += 2)
    for (int64_t j = 0; j < width; j += W) {
      const float* at = from + n * width + j;
      const vf second = n + 1 < rows ? load(at + width) : vf{};
      const vu low = __builtin_convertvector(rounded(load(at)), vu);
      const vu high = __builtin_convertvector(rounded(second), vu);
      *reinterpret_cast<vu*>(to + n / 2 * width + j) = low | high << 16;
    }
}

}  // namespace
}  // namespace linoss
