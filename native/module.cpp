// XLA's foreign-function interface to the kernels: buffers checked and split into work for XLA's
// own threads. The work and the order of sums depend on shapes alone, so that results are the same
// to the bit for any number of threads.

#include <nanobind/nanobind.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
namespace nb = nanobind;

namespace linoss {

#if defined(LINOSS_HAS_portable)
namespace portable { extern const Kernels kernels; }
const Kernels& chosen_kernels() { return portable::kernels; }
const char* instruction_set() { return "portable"; }
#else
namespace v2 { extern const Kernels kernels; }
namespace v3 { extern const Kernels kernels; }
namespace v4 { extern const Kernels kernels; }

// The level that the processor has; LINOSS_NATIVE_LEVEL (2, 3 or 4) asks for a lower one.
int level() {
  static const int chosen = [] {
    int best = __builtin_cpu_supports("x86-64-v4")   ? 4
               : __builtin_cpu_supports("x86-64-v3") ? 3
                                                     : 2;
    const char* asked = std::getenv("LINOSS_NATIVE_LEVEL");
    if (asked && *asked >= '2' && *asked <= '4') best = std::min(best, *asked - '0');
    return best;
  }();
  return chosen;
}
const Kernels& chosen_kernels() {
  return level() == 4 ? v4::kernels : level() == 3 ? v3::kernels : v2::kernels;
}
const char* instruction_set() {
  return level() == 4 ? "x86-64-v4" : level() == 3 ? "x86-64-v3" : "x86-64-v2";
}
#endif

// Runs work(0) ... work(count - 1) on the pool and on this thread, and returns when all are done.
// This thread takes work like the others, so that a busy pool delays it but never blocks it.
void parallel(ffi::ThreadPool& pool, int64_t count, const std::function<void(int64_t)>& work) {
  struct Shared {
    std::atomic<int64_t> next{0};
    int64_t done = 0;
    std::mutex mutex;
    std::condition_variable all_done;
  };
  auto shared = std::make_shared<Shared>();
  auto run = [shared, count, &work] {  // `work` is only touched while some of it is left to do
    int64_t finished = 0;
    for (int64_t i; (i = shared->next.fetch_add(1)) < count; ++finished) work(i);
    if (finished) {
      std::lock_guard<std::mutex> lock(shared->mutex);
      if ((shared->done += finished) == count) shared->all_done.notify_all();
    }
  };
  const int64_t helpers = std::min<int64_t>(count, pool.num_threads()) - 1;
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule(std::function<void()>(run));
  run();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->all_done.wait(lock, [&] { return shared->done == count; });
}

// Floats, zero at first and aligned for vectors.
struct Memory {
  explicit Memory(int64_t size)
      : at(static_cast<float*>(std::aligned_alloc(64, (size * 4 + 127) / 64 * 64))) {
    if (at) std::memset(at, 0, size * 4);
  }
  ~Memory() { std::free(at); }
  Memory(const Memory&) = delete;
  float* at;
};

// Asks for large pages under a buffer that will be written in full: its memory is often new, and a
// page fault for every 4 KiB of it would cost as much as the writing.
template <typename Buffer>
void on_large_pages(Buffer& buffer) {
#if defined(__linux__)
  constexpr uintptr_t kLarge = 1 << 21;
  const uintptr_t from = reinterpret_cast<uintptr_t>(buffer->untyped_data());
  const uintptr_t first = (from + kLarge - 1) / kLarge * kLarge;
  const uintptr_t last = (from + buffer->size_bytes()) / kLarge * kLarge;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

ffi::Error out_of_memory() {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "linoss: out of memory");
}

ffi::Error wrong_shape(const char* what) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::string("linoss: wrong shape of ") + what);
}

template <typename Buffer>
bool has_shape(const Buffer& buffer, std::initializer_list<int64_t> shape) {
  const auto found = buffer.dimensions();
  return std::equal(found.begin(), found.end(), shape.begin(), shape.end());
}

using F32 = ffi::Buffer<ffi::F32>;
using OutF32 = ffi::ResultBuffer<ffi::F32>;
using U8 = ffi::Buffer<ffi::U8>;
using U32 = ffi::Buffer<ffi::U32>;

// ---- The scan ----

template <ffi::DataType kType>
struct ScanHandlers {
  using T = std::conditional_t<kType == ffi::F32, float, double>;
  using In = ffi::Buffer<kType>;
  using Out = ffi::ResultBuffer<kType>;

  static const ScanKernels<T>& kernels() {
    if constexpr (kType == ffi::F32) return chosen_kernels().scan_f32;
    else return chosen_kernels().scan_f64;
  }

  struct Problem {
    int64_t batch, time, state;
    int64_t group, groups;  // oscillators that are worked on together, and how many such groups
    bool varying, masked;
    Scan<T> scan(int64_t i, int64_t first, const In& force, const In& step, const U8& mask,
                 T* kept) const {
      const int64_t rows = varying ? batch * time * state : state;
      return {time, state, std::min(group, state - first),
              step.typed_data() + (varying ? i * time * state : 0) + first, rows,
              varying ? state : 0, force.typed_data() + i * time * state + first,
              masked ? mask.typed_data() + i * time : nullptr,
              kept + i * tiles(time) * 2 * state + first};
    }
  };

  // force (batch, time, state); step (6, state) or (6, batch, time, state); mask (batch, time) or
  // empty.
  static ffi::Error check(const In& force, const In& step, const U8& mask, Problem& p) {
    const auto shape = force.dimensions();
    if (shape.size() != 3) return wrong_shape("force");
    p.batch = shape[0], p.time = shape[1], p.state = shape[2];
    p.group = p.batch < 16 ? 16 : 64;  // few sequences leave the threads to be fed by oscillators
    p.groups = (p.state + p.group - 1) / p.group;
    p.varying = step.dimensions().size() == 4;
    p.masked = mask.element_count() > 0;
    if (!has_shape(step, {kStepRows, p.state}) &&
        !has_shape(step, {kStepRows, p.batch, p.time, p.state}))
      return wrong_shape("step");
    if (p.masked && !has_shape(mask, {p.batch, p.time})) return wrong_shape("mask");
    return ffi::Error::Success();
  }

  static ffi::Error forward(ffi::ThreadPool pool, In force, In step, U8 mask, In start,
                            Out positions, Out final, Out kept) {
    Problem p;
    if (ffi::Error error = check(force, step, mask, p); error.failure()) return error;
    if (!has_shape(start, {p.batch, p.state, 2})) return wrong_shape("start");
    if (!has_shape(*positions, {p.batch, p.time, p.state})) return wrong_shape("positions");
    if (!has_shape(*final, {p.batch, p.state, 2})) return wrong_shape("final");
    if (!has_shape(*kept, {p.batch, tiles(p.time), 2, p.state})) return wrong_shape("kept");
    parallel(pool, p.batch * p.groups, [&](int64_t work) {
      const int64_t i = work / p.groups, first = work % p.groups * p.group;
      const int64_t ends = (i * p.state + first) * 2;
      kernels().forward(p.scan(i, first, force, step, mask, kept->typed_data()),
                        start.typed_data() + ends,
                        positions->typed_data() + i * p.time * p.state + first,
                        final->typed_data() + ends);
    });
    return ffi::Error::Success();
  }

  static ffi::Error backward(ffi::ThreadPool pool, In force, In step, U8 mask, In kept,
                             In d_positions, In d_final, Out d_force, Out d_step, Out d_start) {
    Problem p;
    if (ffi::Error error = check(force, step, mask, p); error.failure()) return error;
    if (!has_shape(kept, {p.batch, tiles(p.time), 2, p.state})) return wrong_shape("kept");
    if (!has_shape(d_positions, {p.batch, p.time, p.state})) return wrong_shape("d_positions");
    if (!has_shape(d_final, {p.batch, p.state, 2})) return wrong_shape("d_final");
    std::vector<T> sums(p.varying ? 0 : p.batch * kStepRows * p.state);
    parallel(pool, p.batch * p.groups, [&](int64_t work) {
      const int64_t i = work / p.groups, first = work % p.groups * p.group;
      const int64_t at = i * p.time * p.state + first, ends = (i * p.state + first) * 2;
      T* d_step_here = p.varying ? d_step->typed_data() + at
                                 : sums.data() + i * kStepRows * p.state + first;
      kernels().backward(
          p.scan(i, first, force, step, mask, const_cast<T*>(kept.typed_data())),
          d_positions.typed_data() + at, d_final.typed_data() + ends, d_force->typed_data() + at,
          d_step_here, d_start->typed_data() + ends);
    });
    if (!p.varying) {
      std::fill_n(d_step->typed_data(), kStepRows * p.state, T(0));
      for (int64_t i = 0; i < p.batch; ++i)
        for (int64_t k = 0; k < kStepRows * p.state; ++k)
          d_step->typed_data()[k] += sums[i * kStepRows * p.state + k];
    }
    return ffi::Error::Success();
  }
};

// ---- The block ----

struct Block {
  Sizes sizes;
  Weights weights;
  Dropout dropout;
  const uint8_t* mask;

  const uint8_t* mask_of(int64_t i) const { return mask ? mask + i * sizes.time : nullptr; }
};

ffi::Error check_block(const F32& u, const F32& mean, const F32& scale, const F32& input,
                       const F32& bias, const F32& step, const F32& output, const F32& feedthrough,
                       const F32& glu, const F32& glu_bias, const U32& words, const U8& mask,
                       float rate, Block& block) {
  if (u.dimensions().size() != 3) return wrong_shape("u");
  if (input.dimensions().size() != 2) return wrong_shape("input");
  const int64_t batch = u.dimensions()[0], time = u.dimensions()[1], hidden = u.dimensions()[2];
  const int64_t state = input.dimensions()[0];
  if (!has_shape(mean, {hidden})) return wrong_shape("mean");
  if (!has_shape(scale, {hidden})) return wrong_shape("scale");
  if (!has_shape(input, {state, hidden})) return wrong_shape("input");
  if (!has_shape(bias, {state})) return wrong_shape("bias");
  if (!has_shape(step, {kStepRows, state})) return wrong_shape("step");
  if (!has_shape(output, {hidden, state})) return wrong_shape("output");
  if (!has_shape(feedthrough, {hidden})) return wrong_shape("feedthrough");
  if (!has_shape(glu, {2 * hidden, hidden})) return wrong_shape("glu");
  if (!has_shape(glu_bias, {2 * hidden})) return wrong_shape("glu_bias");
  if (!has_shape(words, {6})) return wrong_shape("words");
  if (mask.element_count() > 0 && !has_shape(mask, {batch, time})) return wrong_shape("mask");
  block.sizes = {batch, time, hidden, state};
  block.weights = {mean.typed_data(),   scale.typed_data(),       input.typed_data(),
                   bias.typed_data(),   step.typed_data(),        output.typed_data(),
                   feedthrough.typed_data(), glu.typed_data(),    glu_bias.typed_data()};
  block.mask = mask.element_count() > 0 ? mask.typed_data() : nullptr;
  block.dropout = {0, 1.f, {}, 0, 0};
  if (rate > 0) {
    block.dropout.threshold = static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0 + 0.5);
    block.dropout.scale = 1.f / (1.f - rate);
    std::memcpy(block.dropout.words, words.typed_data(), sizeof(block.dropout.words));
    block.dropout.origin = words.typed_data()[4];
    block.dropout.stride = words.typed_data()[5];
  }
  return ffi::Error::Success();
}

// Mean and variance of each channel over the samples that are there, from the sums of each piece of
// work, which are about a shift of its own.
class Moments {
 public:
  Moments(int64_t pieces, int64_t width)
      : counts(pieces), width_(width), padded_(padded(width)), sums_(pieces * 6 * padded_) {}
  bool failed() const { return !sums_.at; }
  double* at(int64_t piece) {
    return reinterpret_cast<double*>(sums_.at) + piece * 3 * padded_;
  }
  std::vector<int64_t> counts;  // of the samples in each piece

  // The mean over one piece, and 0 where it has no samples.
  void mean_of(int64_t piece, float* mean) {
    const double n = static_cast<double>(counts[piece]), *sums = at(piece);
    for (int64_t h = 0; h < width_; ++h)
      mean[h] = n == 0 ? 0 : static_cast<float>(shift(piece)[h] + sums[h] / n);
  }

  // Mean and variance over all of them.
  void merge(float* mean, float* variance) {
    for (int64_t h = 0; h < width_; ++h) {
      double total = 0, center = 0, squares = 0;  // by the rule of Chan, Golub and LeVeque
      for (size_t i = 0; i < counts.size(); ++i) {
        const double n = static_cast<double>(counts[i]);
        if (n == 0) continue;
        const double* sums = at(i);
        const double offset = sums[h] / n;
        const double here = shift(i)[h] + offset;
        const double apart = here - center;
        squares += sums[padded_ + h] - sums[h] * offset + apart * apart * total * n / (total + n);
        total += n, center += apart * n / total;
      }
      mean[h] = static_cast<float>(center);
      variance[h] = static_cast<float>(total == 0 ? 0 : std::max(squares / total, 0.0));
    }
  }

 private:
  const float* shift(int64_t piece) {
    return reinterpret_cast<const float*>(at(piece) + 2 * padded_);
  }

  int64_t width_, padded_;
  Memory sums_;
};

// The moments' share of the gradient of each sample x that is there: a + c x, as rows a and c.
void pull_of_moments(int64_t width, int64_t count, const F32& moments, const F32& d_moments,
                     float* pull) {
  if (count == 0) return;
  const float *mean = moments.typed_data(), *d_mean = d_moments.typed_data();
  for (int64_t h = 0; h < width; ++h) {
    const float slope = 2 * d_mean[width + h] / count;
    pull[h] = d_mean[h] / count - slope * mean[h];
    pull[padded(width) + h] = slope;
  }
}

int64_t present(const uint8_t* mask, int64_t samples) {
  if (!mask) return samples;
  return std::count_if(mask, mask + samples, [](uint8_t there) { return there != 0; });
}

ffi::Error block_forward(ffi::ThreadPool pool, F32 u, F32 mean, F32 scale, F32 input, F32 bias,
                         F32 step, F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words,
                         U8 mask, F32 start, float rate, OutF32 out, OutF32 final, OutF32 means,
                         OutF32 moments, OutF32 kept) {
  Block block;
  if (ffi::Error error = check_block(u, mean, scale, input, bias, step, output, feedthrough, glu,
                                     glu_bias, words, mask, rate, block);
      error.failure())
    return error;
  const Sizes& s = block.sizes;
  if (!has_shape(start, {s.batch, s.state, 2})) return wrong_shape("start");
  if (!has_shape(*out, {s.batch, s.time, s.hidden})) return wrong_shape("out");
  if (!has_shape(*final, {s.batch, s.state, 2})) return wrong_shape("final");
  if (!has_shape(*means, {s.batch, s.hidden})) return wrong_shape("means");
  if (!has_shape(*moments, {2, s.hidden})) return wrong_shape("moments");
  if (!has_shape(*kept, {s.batch, tiles(s.time), 2, s.state})) return wrong_shape("kept");
  on_large_pages(out), on_large_pages(kept);
  const Kernels& kernels = chosen_kernels();
  Memory packed(kernels.packed_size(s));
  if (!packed.at) return out_of_memory();
  kernels.pack(s, block.weights, packed.at);
  Moments sums(s.batch, s.hidden);
  if (sums.failed()) return out_of_memory();
  std::atomic<bool> failed{false};
  parallel(pool, s.batch, [&](int64_t i) {
    Memory memory(kernels.workspace(s));
    if (!memory.at) { failed = true; return; }
    const int64_t at = i * s.time * s.hidden, ends = i * 2 * s.state;
    sums.counts[i] = present(block.mask_of(i), s.time);
    kernels.forward(s, packed.at, block.dropout, i, u.typed_data() + at, block.mask_of(i),
                    start.typed_data() + ends, out->typed_data() + at, final->typed_data() + ends,
                    kept->typed_data() + i * tiles(s.time) * 2 * s.state, sums.at(i), memory.at);
    sums.mean_of(i, means->typed_data() + i * s.hidden);
  });
  if (failed) return out_of_memory();
  sums.merge(moments->typed_data(), moments->typed_data() + s.hidden);
  return ffi::Error::Success();
}

// Where each gradient's padded sum lies in one stretch of memory.
struct Sums {
  int64_t H, P, size;
  explicit Sums(const Sizes& s)
      : H(padded(s.hidden)), P(padded(s.state)),
        size(2 * P * H + 2 * H * H + (kStepRows + 1) * P + 5 * H) {}
  Gradients at(float* memory) const {
    auto take = [&](int64_t n) { float* here = memory; memory += n; return here; };
    Gradients g;
    g.input = take(P * H), g.output = take(H * P), g.glu = take(2 * H * H);
    g.step = take(kStepRows * P), g.bias = take(P);
    g.mean = take(H), g.scale = take(H), g.feedthrough = take(H), g.glu_bias = take(2 * H);
    return g;
  }
};

void copy_rows(const float* from, int64_t row, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * columns, from + i * row, columns * 4);
}

ffi::Error block_backward(ffi::ThreadPool pool, F32 u, F32 mean, F32 scale, F32 input, F32 bias,
                          F32 step, F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words,
                          U8 mask, F32 kept, F32 moments, F32 d_out, F32 d_final, F32 d_means,
                          F32 d_moments, float rate, OutF32 d_u,
                          OutF32 d_mean, OutF32 d_scale, OutF32 d_input, OutF32 d_bias,
                          OutF32 d_step, OutF32 d_output, OutF32 d_feedthrough, OutF32 d_glu,
                          OutF32 d_glu_bias, OutF32 d_start) {
  Block block;
  if (ffi::Error error = check_block(u, mean, scale, input, bias, step, output, feedthrough, glu,
                                     glu_bias, words, mask, rate, block);
      error.failure())
    return error;
  const Sizes& s = block.sizes;
  if (!has_shape(kept, {s.batch, tiles(s.time), 2, s.state})) return wrong_shape("kept");
  const bool only_means = d_out.element_count() == 0;  // d_out is zero, and left out
  if (!only_means && !has_shape(d_out, {s.batch, s.time, s.hidden})) return wrong_shape("d_out");
  if (!has_shape(d_means, {s.batch, s.hidden})) return wrong_shape("d_means");
  if (!has_shape(d_final, {s.batch, s.state, 2})) return wrong_shape("d_final");
  if (!has_shape(moments, {2, s.hidden})) return wrong_shape("moments");
  if (!has_shape(d_moments, {2, s.hidden})) return wrong_shape("d_moments");
  on_large_pages(d_u);
  const Kernels& kernels = chosen_kernels();
  Memory packed(kernels.packed_size(s));
  if (!packed.at) return out_of_memory();
  kernels.pack(s, block.weights, packed.at);
  Memory pull(2 * padded(s.hidden));
  if (!pull.at) return out_of_memory();
  pull_of_moments(s.hidden, present(block.mask, s.batch * s.time), moments, d_moments, pull.at);
  const Sums layout(s);
  const int64_t groups = std::min<int64_t>(s.batch, 16);
  std::vector<std::unique_ptr<Memory>> sums(std::max<int64_t>(groups, 1));
  for (auto& sum : sums) {
    sum = std::make_unique<Memory>(layout.size);
    if (!sum->at) return out_of_memory();
  }
  std::atomic<bool> failed{false};
  parallel(pool, groups, [&](int64_t group) {
    Memory memory(kernels.workspace(s)), pull_here(2 * padded(s.hidden));
    if (!memory.at || !pull_here.at) { failed = true; return; }
    for (int64_t i = group; i < s.batch; i += groups) {
      const int64_t at = i * s.time * s.hidden, ends = i * 2 * s.state;
      const int64_t count = std::max<int64_t>(present(block.mask_of(i), s.time), 1);
      std::memcpy(pull_here.at, pull.at, 2 * padded(s.hidden) * sizeof(float));
      for (int64_t h = 0; h < s.hidden; ++h)
        pull_here.at[h] += d_means.typed_data()[i * s.hidden + h] / count;
      kernels.backward(s, packed.at, block.dropout, i, u.typed_data() + at, block.mask_of(i),
                       kept.typed_data() + i * tiles(s.time) * 2 * s.state,
                       only_means ? nullptr : d_out.typed_data() + at,
                       d_final.typed_data() + ends, pull_here.at,
                       d_u->typed_data() + at, d_start->typed_data() + ends,
                       layout.at(sums[group]->at), memory.at);
    }
  });
  if (failed) return out_of_memory();
  for (int64_t group = 1; group < groups; ++group)
    for (int64_t k = 0; k < layout.size; ++k) sums[0]->at[k] += sums[group]->at[k];
  const Gradients g = layout.at(sums[0]->at);
  copy_rows(g.input, layout.H, s.state, s.hidden, d_input->typed_data());
  copy_rows(g.output, layout.P, s.hidden, s.state, d_output->typed_data());
  for (int64_t half = 0; half < 2; ++half)
    copy_rows(g.glu + half * layout.H * layout.H, layout.H, s.hidden, s.hidden,
              d_glu->typed_data() + half * s.hidden * s.hidden);
  copy_rows(g.glu_bias, layout.H, 2, s.hidden, d_glu_bias->typed_data());
  copy_rows(g.step, layout.P, kStepRows, s.state, d_step->typed_data());
  copy_rows(g.bias, layout.P, 1, s.state, d_bias->typed_data());
  copy_rows(g.feedthrough, layout.H, 1, s.hidden, d_feedthrough->typed_data());
  for (int64_t h = 0; h < s.hidden; ++h) {  // x = (u - mean) * scale
    const float factor = scale.typed_data()[h];
    d_mean->typed_data()[h] = -g.mean[h] * factor;
    d_scale->typed_data()[h] = g.scale[h] / factor;
  }
  return ffi::Error::Success();
}

// ---- The encoder ----

constexpr int64_t kSamples = 16 * kTile;  // that are worked on together

struct EncoderProblem {
  Encoder encoder;
  int64_t samples, pieces;
  const uint8_t* mask;
  std::unique_ptr<Memory> weights;

  const uint8_t* mask_of(int64_t piece) const { return mask ? mask + piece * kSamples : nullptr; }
  int64_t size(int64_t piece) const { return std::min(kSamples, samples - piece * kSamples); }
};

ffi::Error check_encoder(const F32& u, const F32& weight, const F32& bias, const U8& mask,
                         EncoderProblem& p) {
  if (u.dimensions().size() != 2) return wrong_shape("u");
  const int64_t samples = u.dimensions()[0], in = u.dimensions()[1];
  const int64_t hidden = bias.element_count(), row = padded(hidden);
  if (!has_shape(bias, {hidden})) return wrong_shape("bias");
  if (!has_shape(weight, {hidden, in})) return wrong_shape("weight");
  if (mask.element_count() > 0 && !has_shape(mask, {samples})) return wrong_shape("mask");
  p.weights = std::make_unique<Memory>((in + 1) * row);
  if (!p.weights->at) return out_of_memory();
  for (int64_t h = 0; h < hidden; ++h) {
    for (int64_t i = 0; i < in; ++i) p.weights->at[i * row + h] = weight.typed_data()[h * in + i];
    p.weights->at[in * row + h] = bias.typed_data()[h];
  }
  p.encoder = {in, hidden, p.weights->at, p.weights->at + in * row};
  p.samples = samples, p.pieces = (samples + kSamples - 1) / kSamples;
  p.mask = mask.element_count() > 0 ? mask.typed_data() : nullptr;
  return ffi::Error::Success();
}

ffi::Error encode_forward(ffi::ThreadPool pool, F32 u, F32 weight, F32 bias, U8 mask, OutF32 out,
                          OutF32 moments) {
  EncoderProblem p;
  if (ffi::Error error = check_encoder(u, weight, bias, mask, p); error.failure()) return error;
  const int64_t in = p.encoder.in, hidden = p.encoder.hidden;
  if (!has_shape(*out, {p.samples, hidden})) return wrong_shape("out");
  if (!has_shape(*moments, {2, hidden})) return wrong_shape("moments");
  on_large_pages(out);
  const Kernels& kernels = chosen_kernels();
  Moments sums(p.pieces, hidden);
  if (sums.failed()) return out_of_memory();
  std::atomic<bool> failed{false};
  parallel(pool, p.pieces, [&](int64_t i) {
    Memory memory(kernels.encoder_workspace(p.encoder));
    if (!memory.at) { failed = true; return; }
    const int64_t at = i * kSamples;
    sums.counts[i] = present(p.mask_of(i), p.size(i));
    kernels.encode(p.encoder, p.size(i), u.typed_data() + at * in, p.mask_of(i),
                   out->typed_data() + at * hidden, sums.at(i), memory.at);
  });
  if (failed) return out_of_memory();
  sums.merge(moments->typed_data(), moments->typed_data() + hidden);
  return ffi::Error::Success();
}

ffi::Error encode_backward(ffi::ThreadPool pool, F32 u, F32 weight, F32 bias, U8 mask, F32 moments,
                           F32 d_out, F32 d_moments, OutF32 d_weight, OutF32 d_bias) {
  EncoderProblem p;
  if (ffi::Error error = check_encoder(u, weight, bias, mask, p); error.failure()) return error;
  const int64_t in = p.encoder.in, hidden = p.encoder.hidden;
  if (!has_shape(moments, {2, hidden})) return wrong_shape("moments");
  if (!has_shape(d_moments, {2, hidden})) return wrong_shape("d_moments");
  if (!has_shape(d_out, {p.samples, hidden})) return wrong_shape("d_out");
  const Kernels& kernels = chosen_kernels();
  Memory pull(2 * padded(hidden));
  if (!pull.at) return out_of_memory();
  pull_of_moments(hidden, present(p.mask, p.samples), moments, d_moments, pull.at);
  const int64_t row = padded(in), groups = std::min<int64_t>(p.pieces, 16);
  const int64_t size = padded(hidden) * (row + 1);
  Memory sums(std::max<int64_t>(groups, 1) * size);
  if (!sums.at) return out_of_memory();
  std::atomic<bool> failed{false};
  parallel(pool, groups, [&](int64_t group) {
    Memory memory(kernels.encoder_workspace(p.encoder));
    if (!memory.at) { failed = true; return; }
    float* sum = sums.at + group * size;
    for (int64_t i = group; i < p.pieces; i += groups) {
      const int64_t at = i * kSamples;
      kernels.encode_backward(p.encoder, p.size(i), u.typed_data() + at * in, p.mask_of(i),
                              d_out.typed_data() + at * hidden, pull.at, sum,
                              sum + padded(hidden) * row, memory.at);
    }
  });
  if (failed) return out_of_memory();
  for (int64_t group = 1; group < groups; ++group)
    for (int64_t k = 0; k < size; ++k) sums.at[k] += sums.at[group * size + k];
  copy_rows(sums.at, row, hidden, in, d_weight->typed_data());
  copy_rows(sums.at + padded(hidden) * row, hidden, 1, hidden, d_bias->typed_data());
  return ffi::Error::Success();
}

using ScanF32 = ScanHandlers<ffi::F32>;
using ScanF64 = ScanHandlers<ffi::F64>;

XLA_FFI_DEFINE_HANDLER(kScanForwardF32, ScanF32::forward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<ScanF32::In>().Arg<ScanF32::In>().Arg<U8>().Arg<ScanF32::In>()
                           .Ret<ScanF32::In>().Ret<ScanF32::In>().Ret<ScanF32::In>());
XLA_FFI_DEFINE_HANDLER(kScanForwardF64, ScanF64::forward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<ScanF64::In>().Arg<ScanF64::In>().Arg<U8>().Arg<ScanF64::In>()
                           .Ret<ScanF64::In>().Ret<ScanF64::In>().Ret<ScanF64::In>());
XLA_FFI_DEFINE_HANDLER(kScanBackwardF32, ScanF32::backward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<ScanF32::In>().Arg<ScanF32::In>().Arg<U8>().Arg<ScanF32::In>()
                           .Arg<ScanF32::In>().Arg<ScanF32::In>()
                           .Ret<ScanF32::In>().Ret<ScanF32::In>().Ret<ScanF32::In>());
XLA_FFI_DEFINE_HANDLER(kScanBackwardF64, ScanF64::backward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<ScanF64::In>().Arg<ScanF64::In>().Arg<U8>().Arg<ScanF64::In>()
                           .Arg<ScanF64::In>().Arg<ScanF64::In>()
                           .Ret<ScanF64::In>().Ret<ScanF64::In>().Ret<ScanF64::In>());
XLA_FFI_DEFINE_HANDLER(kBlockForward, block_forward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<U32>().Arg<U8>()
                           .Arg<F32>().Attr<float>("rate")
                           .Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(kBlockBackward, block_backward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<U32>().Arg<U8>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>().Arg<F32>()
                           .Attr<float>("rate")
                           .Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>()
                           .Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>().Ret<F32>());

XLA_FFI_DEFINE_HANDLER(kEncodeForward, encode_forward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<U8>().Ret<F32>().Ret<F32>());
XLA_FFI_DEFINE_HANDLER(kEncodeBackward, encode_backward,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                           .Arg<F32>().Arg<F32>().Arg<F32>().Arg<U8>().Arg<F32>().Arg<F32>()
                           .Arg<F32>().Ret<F32>().Ret<F32>());

template <typename Handler>
nb::capsule capsule(Handler* handler) {
  static_assert(std::is_invocable_r_v<XLA_FFI_Error*, Handler, XLA_FFI_CallFrame*>);
  return nb::capsule(reinterpret_cast<void*>(handler));
}

}  // namespace linoss

NB_MODULE(_native, m) {
  m.def("instruction_set", &linoss::instruction_set);
  m.attr("tile") = linoss::kTile;
  m.def("handlers", [] {
    nb::dict handlers;
    handlers["linoss_scan_forward_float32"] = linoss::capsule(linoss::kScanForwardF32);
    handlers["linoss_scan_forward_float64"] = linoss::capsule(linoss::kScanForwardF64);
    handlers["linoss_scan_backward_float32"] = linoss::capsule(linoss::kScanBackwardF32);
    handlers["linoss_scan_backward_float64"] = linoss::capsule(linoss::kScanBackwardF64);
    handlers["linoss_block_forward"] = linoss::capsule(linoss::kBlockForward);
    handlers["linoss_block_backward"] = linoss::capsule(linoss::kBlockBackward);
    handlers["linoss_encode_forward"] = linoss::capsule(linoss::kEncodeForward);
    handlers["linoss_encode_backward"] = linoss::capsule(linoss::kEncodeBackward);
    return handlers;
  });
}
