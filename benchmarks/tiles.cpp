// One tile of a block on one core, stage by stage: where the time of a training step goes.

#include "../native/block.cpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

namespace linoss::block {
namespace {

constexpr int kStages = 6;

struct Numbers {  // drawn, in memory of their own that lasts as long as the process
  std::mt19937 engine{0};
  float* operator()(int64_t size, float scale) {
    float* at = static_cast<float*>(std::aligned_alloc(64, (size * 4 + 127) / 64 * 64));
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < size; ++i) at[i] = scale * normal(engine);
    return at;
  }
  float* zeros(int64_t size) { return (*this)(size, 0); }
};

}  // namespace
}  // namespace linoss::block

// The least seconds of each stage in `repeats`: forces; oscillators; from C to the output; all of that
// again and back to the oscillators; their adjoint; back to the input.
extern "C" void tiles(int64_t hidden, int64_t state, bool half, int repeats, double* seconds) {
  using namespace linoss;
  using namespace linoss::block;
  Sizes s = {1, kTile, hidden, state, Scheme::constant, 0, false, half, false, 0};
  Numbers numbers;
  float* packed = numbers.zeros(Packed(s, nullptr).parts.size);
  float* step = numbers.zeros(kStepRows * state);  // LinOSS-IM with A = dt = 1/2
  const float factors[] = {8 / 9.f, -2 / 9.f, 4 / 9.f, 8 / 9.f, 4 / 9.f, 2 / 9.f};
  for (int64_t k = 0; k < kStepRows * state; ++k) step[k] = factors[k / state];
  const float thin = 1 / std::sqrt(float(hidden));
  pack_mixer(s, Packed(s, packed),
             {numbers.zeros(hidden), numbers(hidden, 1), numbers(state * hidden, thin),
              numbers.zeros(state), step, numbers(hidden * state, thin), numbers(hidden, 1),
              kStepRows});
  pack_glu(s, Packed(s, packed), numbers(2 * hidden * hidden, thin), numbers.zeros(2 * hidden));
  prepare(s, packed);
  float *u = numbers(kTile * hidden, 1), *out = numbers.zeros(kTile * hidden);
  float *before = numbers.zeros(2 * state), *after = numbers.zeros(2 * state);
  float *sensitivity = numbers.zeros(2 * padded(state)), *pull = numbers.zeros(2 * padded(hidden));
  float* sums = numbers.zeros(Gradients(s, nullptr).parts.size);
  const Dropout dropout = {1u << 28, 16 / 15.f, {{1, 2}, {3, 4}}, 0, kTile};
  const Place q = {packed, numbers.zeros(Tile(s, nullptr).parts.size), 0, 0, kTile, hidden, u,
                   nullptr, nullptr, nullptr, nullptr, nullptr, false};
  std::fill_n(seconds, kStages, 1e9);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    int stage = 0;
    auto timed = [&](auto work) {
      const auto start = std::chrono::steady_clock::now();
      work();
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      seconds[stage] = std::min(seconds[stage], spent.count());
      ++stage;
    };
    timed([&] { drive(s, q); });
    timed([&] { oscillate(s, q, before, after); });
    timed([&] { finish(s, dropout, q, out); });
    timed([&] { recompute(s, dropout, q, before, u, pull, nullptr, sums); });
    timed([&] { oscillate_back(s, q, sensitivity, nullptr, nullptr, sums); });
    timed([&] { finish_back(s, q, out, sums); });
  }
}
