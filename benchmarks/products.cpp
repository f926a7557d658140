// The matrix products that one block's forward and backward pass need, and nothing else: the floor
// that the block is measured against. By the kernels' own product, or by a BLAS given as a pointer.

#include "../native/product.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Sgemm = void (*)(char*, char*, int*, int*, int*, float*, float*, int*, float*, int*, float*,
                       float*, int*);
using namespace linoss;

// C (rows x columns, row-major) = or += A B, with A transposed where a_depth > 1.
void multiply(Sgemm blas, int64_t rows, int64_t columns, int64_t depth, const float* a,
              int64_t a_row, int64_t a_depth, const float* b, float* c, bool add) {
  if (!blas)
    return product(rows, columns, depth, a, a_row, a_depth, b, c, add ? From{c, columns} : From{});
  char plain = 'N', kind = a_depth == 1 ? 'N' : 'T';
  int m = columns, n = rows, k = depth, lda = columns, ldb = a_depth == 1 ? a_row : a_depth;
  float one = 1, beta = add ? 1 : 0;
  blas(&plain, &kind, &m, &n, &k, &one, const_cast<float*>(b), &lda, const_cast<float*>(a), &ldb,
       &beta, c, &m);
}

void one_tile(Sgemm blas, int64_t H, int64_t P, float* x, float* y, float* w, float* big) {
  const int64_t R = kTile;
  multiply(blas, R, P, H, x, H, 1, big, y, false);       // B x
  multiply(blas, R, H, P, y, P, 1, big, x, false);       // C y
  multiply(blas, R, 2 * H, H, x, H, 1, big, w, false);   // GLU
  multiply(blas, R, H, 2 * H, w, 2 * H, 1, big, x, false);
  multiply(blas, R, P, H, x, H, 1, big, y, false);
  multiply(blas, R, H, P, y, P, 1, big, x, false);
  multiply(blas, 2 * H, H, R, w, 1, 2 * H, x, big, true);
  multiply(blas, H, P, R, x, 1, H, y, big, true);
  multiply(blas, P, H, R, y, 1, P, x, big, true);
}

}  // namespace

// Seconds for `tiles` tiles on `threads` threads.
extern "C" double products(int64_t hidden, int64_t state, int64_t tiles, int threads, void* blas) {
  const int64_t H = padded(hidden), P = padded(state);
  auto work = [&](int64_t count) {
    auto make = [](int64_t n) {
      float* at = static_cast<float*>(std::aligned_alloc(64, n * 4));
      std::memset(at, 0, n * 4);
      return at;
    };
    float *x = make(kTile * H), *y = make(kTile * P), *w = make(kTile * 2 * H);
    float* big = make(2 * H * (H + P));
    for (int64_t i = 0; i < count; ++i)
      one_tile(reinterpret_cast<Sgemm>(blas), H, P, x, y, w, big);
    std::free(x), std::free(y), std::free(w), std::free(big);
  };
  work(2);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, tiles / threads);
  work(tiles - (threads - 1) * (tiles / threads));
  for (auto& other : others) other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
