// Mean and variance of each channel of a kernel's output over present samples: sums that a kernel
// computes while its output is in the cache, and their combination by handlers.
#pragma once

#ifdef LINOSS_ISA
#include "vector.h"
#else
#include <algorithm>
#include <vector>

#include "runtime.h"
#endif

namespace linoss {
namespace {

#ifdef LINOSS_ISA

// Sums of (x - shift) and its square, and the shift, which is the first present sample, to avoid
// cancellation: H doubles, H doubles, H floats; one more float is 1 if the shift is known.
class MomentSums {
 public:
  MomentSums(int64_t H, double* sums) : H_(H), sums_(sums) {}

  void add(int64_t rows, const float* x, const uint8_t* mask) {
    float* shift = reinterpret_cast<float*>(sums_ + 2 * H_);
    for (int64_t n = 0; n < rows && shift[H_] == 0; ++n)
      if (is_there(mask, n)) std::memcpy(shift, x + n * H_, H_ * 4), shift[H_] = 1;
    for (int64_t j = 0; j < H_; j += W) {
      const vf s = load(shift + j);
      vf first = {}, second = {};
      for (int64_t n = 0; n < rows; ++n) {
        if (!is_there(mask, n)) continue;
        const vf d = load(x + n * H_ + j) - s;
        first += d, second += d * d;
      }
      for (int i = 0; i < W; ++i) sums_[j + i] += first[i], sums_[H_ + j + i] += second[i];
    }
  }

 private:
  int64_t H_;
  double* sums_;
};

#else

inline int64_t present(const uint8_t* mask, int64_t samples) {
  return mask ? std::count(mask, mask + samples, kThere) : samples;
}

// The sums of each part of the output, each with its own shift, and their combination.
class Moments {
 public:
  Moments(int64_t parts, int64_t width)
      : counts(parts), width_(width), padded_(padded(width)), sums_(parts * 3 * padded_) {}
  bool failed() const { return !sums_.at; }
  double* at(int64_t part) { return sums_.at + part * 3 * padded_; }
  std::vector<int64_t> counts;  // number of samples in each part

  // The mean over one part; 0 if it has no samples.
  void mean_of(int64_t part, float* mean) {
    const double n = static_cast<double>(counts[part]), *sums = at(part);
    for (int64_t h = 0; h < width_; ++h)
      mean[h] = n == 0 ? 0 : static_cast<float>(shift(part)[h] + sums[h] / n);
  }

  // Mean and variance over all parts, by the rule of Chan, Golub and LeVeque.
  void merge(float* mean, float* variance) {
    for (int64_t h = 0; h < width_; ++h) {
      double total = 0, center = 0, squares = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        const double n = static_cast<double>(counts[i]);
        if (n == 0) continue;
        const double* sums = at(i);
        const double offset = sums[h] / n;
        const double apart = shift(i)[h] + offset - center;
        squares += sums[padded_ + h] - sums[h] * offset + apart * apart * total * n / (total + n);
        total += n, center += apart * n / total;
      }
      mean[h] = static_cast<float>(center);
      variance[h] = static_cast<float>(total == 0 ? 0 : std::max(squares / total, 0.0));
    }
  }

 private:
  const float* shift(int64_t part) {
    return reinterpret_cast<const float*>(at(part) + 2 * padded_);
  }

  int64_t width_, padded_;
  Memory<double> sums_;
};

// The gradient of the moments with respect to each present sample x: a + c x, as padded rows a and c.
inline void pull_of_moments(int64_t width, int64_t count, const float* mean, const float* d_mean,
                            float* pull) {
  if (count == 0) return;
  for (int64_t h = 0; h < width; ++h) {
    const float slope = 2 * d_mean[width + h] / count;
    pull[h] = d_mean[h] / count - slope * mean[h];
    pull[padded(width) + h] = slope;
  }
}

#endif

}  // namespace
}  // namespace linoss
