// The encoder: W u + b for samples of any sequence, with moments of the output.

#include "kernel.h"

namespace linoss::encoder {

// Padded weights: in x hidden, the transpose of W; and b.
struct Encoder {
  int64_t in, hidden;
  const float *weight, *bias;
};

// `samples` of u (in) and out (hidden). workspace: initially zero.
struct Table {
  void (*forward)(const Encoder&, int64_t samples, const float* u, const uint8_t* mask, float* out,
                  double* moments, float* workspace);
  // pull: rows a and c of a + c out, the gradient of the moments. The gradients of W (hidden x in,
  // padded) and then b are added to.
  void (*backward)(const Encoder&, int64_t samples, const float* u, const uint8_t* mask,
                   const float* d_out, const float* pull, float* d_weight, float* workspace);
};

}  // namespace linoss::encoder

#ifdef LINOSS_ISA

#include "moments.h"
#include "product.h"

namespace linoss::encoder {
namespace {

void forward(const Encoder& e, int64_t samples, const float* u, const uint8_t* mask, float* out,
             double* moments, float* workspace) {
  const int64_t I = padded(e.in), H = padded(e.hidden);
  float *x = workspace, *y = x + kTile * I;
  MomentSums sums(H, moments);
  for (int64_t from = 0; from < samples; from += kTile) {
    const int64_t rows = smaller(kTile, samples - from);
    take_rows(rows, e.in, u + from * e.in, x, I);
    product(rows, H, e.in, x, I, 1, e.weight, y, {e.bias, 0});
    give_rows(rows, e.hidden, y, H, out + from * e.hidden);
    sums.add(rows, y, mask ? mask + from : nullptr);
  }
}

void backward(const Encoder& e, int64_t samples, const float* u, const uint8_t* mask,
              const float* d_out, const float* pull, float* d_weight, float* workspace) {
  const int64_t I = padded(e.in), H = padded(e.hidden);
  float* d_bias = d_weight + H * I;
  float *x = workspace, *y = x + kTile * I, *dy = y + kTile * H;
  for (int64_t from = 0; from < samples; from += kTile) {
    const int64_t rows = smaller(kTile, samples - from);
    take_rows(rows, e.in, u + from * e.in, x, I);
    take_rows(rows, e.hidden, d_out + from * e.hidden, dy, H);
    product(rows, H, e.in, x, I, 1, e.weight, y, {e.bias, 0});
    for (int64_t j = 0; j < H; j += W) {
      const vf a = load(pull + j), c = load(pull + H + j);
      vf sum = {};
      for (int64_t n = 0; n < rows; ++n) {
        const int64_t at = n * H + j;
        vf d = load(dy + at);
        if (is_there(mask, from + n)) d += a + c * load(y + at);
        store(dy + at, d);
        sum += d;
      }
      store(d_bias + j, load(d_bias + j) + sum);
    }
    product(H, I, rows, dy, 1, H, x, d_weight, {d_weight, I});
  }
}

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {forward, backward};
}
}  // namespace linoss::encoder

#else

#include "moments.h"
#include "runtime.h"

namespace linoss::encoder {

LINOSS_CHOOSE(Table, kernels)

// Number of samples of a unit of work.
constexpr int64_t kShare = 16 * kTile;

struct Problem {
  int64_t samples, in, hidden, shares;
  const float *u, *weight, *bias;
  const uint8_t* mask;  // samples, or null

  explicit Problem(Arrays& a) {
    std::tie(samples, in) = a.sizes<2>("u");
    u = a.in<float>("u", {samples, in});
    std::tie(hidden, std::ignore) = a.sizes<2>("weight");
    weight = a.in<float>("weight", {hidden, in}), bias = a.in<float>("bias", {hidden});
    mask = a.in_or_null<uint8_t>("mask", {samples});
    shares = (samples + kShare - 1) / kShare;
  }

  const uint8_t* mask_of(int64_t share) const { return mask ? mask + share * kShare : nullptr; }
  int64_t size(int64_t share) const { return std::min(kShare, samples - share * kShare); }
  int64_t workspace() const { return kTile * (padded(in) + 2 * padded(hidden)); }
  int64_t packed_size() const { return (in + 1) * padded(hidden); }
  Encoder pack(float* packed) const {
    const int64_t row = padded(hidden);
    for (int64_t h = 0; h < hidden; ++h) {
      for (int64_t i = 0; i < in; ++i) packed[i * row + h] = weight[h * in + i];
      packed[in * row + h] = bias[h];
    }
    return {in, hidden, packed, packed + in * row};
  }
};

ffi::Error forward(Threads& threads, Arrays& a) {
  const Problem p(a);
  float* out = a.out<float>("out", {p.samples, p.hidden});
  float* moments = a.out<float>("moments", {2, p.hidden});
  if (a.wrong()) return a.error();
  on_large_pages(out, p.samples * p.hidden);
  Memory<float> packed(p.packed_size());
  Moments sums(p.shares, p.hidden);
  if (!packed.at || sums.failed()) return out_of_memory();
  const Encoder encoder = p.pack(packed.at);
  auto work = [&](int64_t i, float* workspace) {
    const int64_t at = i * kShare;
    sums.counts[i] = present(p.mask_of(i), p.size(i));
    kernels().forward(encoder, p.size(i), p.u + at * p.in, p.mask_of(i), out + at * p.hidden,
                      sums.at(i), workspace);
  };
  ffi::Error error = parallel(threads, p.shares, p.workspace(), work);
  sums.merge(moments, moments + p.hidden);
  return error;
}

ffi::Error backward(Threads& threads, Arrays& a) {
  const Problem p(a);
  const float* moments = a.in<float>("moments", {2, p.hidden});
  const float* d_out = a.in<float>("d_out", {p.samples, p.hidden});
  const float* d_moments = a.in<float>("d_moments", {2, p.hidden});
  float* d_weight = a.out<float>("d_weight", {p.hidden, p.in});
  float* d_bias = a.out<float>("d_bias", {p.hidden});
  if (a.wrong()) return a.error();
  const int64_t row = padded(p.in), bias_at = padded(p.hidden) * row;
  const int64_t size = bias_at + padded(p.hidden);
  Memory<float> packed(p.packed_size()), pull(2 * padded(p.hidden));
  Memory<float> sums(groups_of(p.shares) * size);
  if (!packed.at || !pull.at || !sums.at) return out_of_memory();
  const Encoder encoder = p.pack(packed.at);
  pull_of_moments(p.hidden, present(p.mask, p.samples), moments, d_moments, pull.at);
  auto work = [&](int64_t i, float* workspace, float* sum) {
    kernels().backward(encoder, p.size(i), p.u + i * kShare * p.in, p.mask_of(i),
                       d_out + i * kShare * p.hidden, pull.at, sum, workspace);
  };
  ffi::Error error = parallel_sums(threads, p.shares, p.workspace(), size, sums.at, work);
  give_rows(p.hidden, p.in, sums.at, row, d_weight);
  give_rows(1, p.hidden, sums.at + bias_at, p.hidden, d_bias);
  return error;
}

LINOSS_HANDLER(linoss_encode_forward, forward);
LINOSS_HANDLER(linoss_encode_backward, backward);

}  // namespace linoss::encoder

#endif
