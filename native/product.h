// Matrix products of padded rows, in register blocks.
#pragma once

#include "half.h"

namespace linoss {
namespace {

constexpr int kRows = W >= 16 ? 8 : 4;  // rows of a register block

inline vf multiply_add(vf a, vf b, vf sum) { return sum + a * b; }
inline vf spread(float x) { return all(x); }
inline vu spread(uint32_t x) { return x + vu{}; }
inline vf load_right(const float* p) { return load(p); }
inline vu load_right(const uint32_t* p) { return *reinterpret_cast<const vu*>(p); }

// What a product begins with: rows, one row for all rows (`row` is 0), or zeros (null).
struct From {
  const float* at = nullptr;
  int64_t row = 0;
};

// C (rows x columns) = A (rows x depth) B (depth x columns) + `from`, which may be C itself. `columns` is
// a multiple of kPad, and rows are computed up to a multiple of 2 kRows, which divides kPad. A's element
// (i, k) is a[i * a_row + k * a_depth]. Elements of A and B are floats, or pairs of half.h along the depth.
template <int R, int V, typename Element>
inline void product_block(int64_t columns, int64_t depth, const Element* a, int64_t a_row,
                          int64_t a_depth, const Element* b, float* c, From from) {
  vf sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) sum[i][v] = from.at ? load(from.at + i * from.row + v * W) : vf{};
  for (int64_t k = 0; k < depth; ++k) {
    decltype(load_right(b)) right[V];
    for (int v = 0; v < V; ++v) right[v] = load_right(b + k * columns + v * W);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const auto left = spread(a[i * a_row + k * a_depth]);
      for (int v = 0; v < V; ++v) sum[i][v] = multiply_add(left, right[v], sum[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) store(c + i * columns + v * W, sum[i][v]);
}

template <typename Element>
void product(int64_t rows, int64_t columns, int64_t depth, const Element* a, int64_t a_row,
             int64_t a_depth, const Element* b, float* c, From from = {}) {
  auto start = [&](int64_t i, int64_t j) {
    return From{from.at ? from.at + i * from.row + j : nullptr, from.row};
  };
  int64_t j = 0;
  for (; j + 2 * W <= columns; j += 2 * W)
    for (int64_t i = 0; i < rows; i += kRows)
      product_block<kRows, 2>(columns, depth, a + i * a_row, a_row, a_depth, b + j,
                              c + i * columns + j, start(i, j));
  for (; j < columns; j += W)  // one vector of columns: more rows, for the same number of sums
    for (int64_t i = 0; i < rows; i += 2 * kRows)
      product_block<2 * kRows, 1>(columns, depth, a + i * a_row, a_row, a_depth, b + j,
                                  c + i * columns + j, start(i, j));
}

}  // namespace
}  // namespace linoss
