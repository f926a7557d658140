// A whole block in one pass over tiles: norm, B, oscillators, C and D, GELU, dropout, GLU, dropout,
// skip. The backward pass recomputes each tile from the block's input and the stored state at the
// tile's start. A second pass, which ends after C and D, runs from the last sample to the first: a
// bidirectional block adds its output before GELU.

#include "block.h"

#ifdef LINOSS_ISA

#include "backward.h"

namespace linoss::block {
namespace {

void prepare(const Sizes& s, float* packed) {
  const Packed p(s, packed);
  find_step(s, p);
  if (!s.half) return;
  const int64_t H = p.H, P = p.P;
  auto round = [](int64_t rows, int64_t columns, float* weight) {
    pair_rows(rows, columns, weight, reinterpret_cast<uint32_t*>(weight));
  };
  round(H, P, p.input_t), round(P, H, p.input), round(P, H, p.output_t), round(H, P, p.output);
  round(H, 2 * H, p.glu_t), round(2 * H, H, p.glu);
  if (s.dense) round(H, H, p.dense_t), round(H, H, p.dense);
}

void affine(int64_t in, int64_t out, const float* x, const float* weight_t, const float* bias,
            float* y) {
  for (int64_t j = 0; j < padded(out); j += W) {
    vf sum = load(bias + j);
    for (int64_t i = 0; i < in; ++i)
      sum = multiply_add(all(x[i]), load(weight_t + i * padded(out) + j), sum);
    store(y + j, sum);
  }
}

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {drive,           oscillate,      finish,      add_moments,
                              finish_mixer,    recompute,      recompute_mixer,
                              oscillate_back,  finish_back,    prepare,     pull_rule,
                              affine};
}
}  // namespace linoss::block

#else

#include <cmath>

#include "moments.h"
#include "runtime.h"

namespace linoss::block {

LINOSS_CHOOSE_HALF(Table, kernels)

// The attributes of a pass.
struct Form {
  std::string_view scheme;
  double epsilon;
  bool half, approximate;
  double dropout;
  int64_t keep;
};

// The arguments that all passes have, and the work in tiles. Inputs and outputs of the oscillators are in
// the order in which they visit samples, u and outputs in the order of time.
struct Problem {
  Sizes sizes = {};
  bool reverse, replay = false;
  const float *u, *intervals = nullptr, *weights = nullptr, *extra = nullptr;
  MixerWeights mixer;
  const float *glu = nullptr, *glu_bias = nullptr;
  const uint8_t* mask;  // batch x time, or null; see kThere
  float* record = nullptr;
  Dropout dropout = {0, 1.f, {}, 0, 0};
  std::optional<Memory<float>> packed;

  Problem(Arrays& a, const Form& form, bool reverse) : reverse(reverse) {
    Sizes& s = sizes;
    s.epsilon = static_cast<float>(form.epsilon), s.half = form.half, s.keep = form.keep;
    s.approximate = form.approximate;
    s.scheme = scheme_of(form.scheme);
    if (s.scheme == Scheme::unknown) a.refuse("scheme", std::string(form.scheme));
    std::tie(s.batch, s.time, s.hidden) = a.sizes<3>("u");
    u = a.in<float>("u", {s.batch, s.time, s.hidden});
    mixer.mean = a.in<float>("mean", {s.hidden}), mixer.scale = a.in<float>("scale", {s.hidden});
    std::tie(s.state, std::ignore) = a.sizes<2>("input");
    if (s.scheme == Scheme::pairs && s.state % kPad)
      a.refuse("input", std::to_string(s.state) + " rows");
    mixer.input = a.in<float>("input", {s.state, s.hidden});
    mixer.bias = a.in<float>("bias", {s.state});
    mixer.step_rows = step_rows(s.scheme);
    mixer.step = a.in<float>("step", {mixer.step_rows, s.state});
    mixer.output = a.in<float>("output", {s.hidden, s.state});
    s.dense = a.rank() == 2;
    mixer.feedthrough = s.dense ? a.in<float>("feedthrough", {s.hidden, s.hidden})
                                : a.in<float>("feedthrough", {s.hidden});
    mask = a.in_or_null<uint8_t>("mask", {s.batch, s.time});
    intervals = a.in_or_null<float>("intervals", {s.batch, s.time});
    weights = a.in_or_null<float>("weights", {s.batch, s.time});
    if (varies(s.scheme) && !intervals) std::swap(s.scheme, s.rule);
    if (intervals && !varies(s.scheme)) a.refuse("intervals", "expected none for one step");
  }
  // The arguments of the other half of a block. words: two words of a key for each dropout, origin and
  // stride.
  void read_rest(Arrays& a, double rate) {
    const int64_t hidden = sizes.hidden;
    glu = a.in<float>("glu", {2 * hidden, hidden}), glu_bias = a.in<float>("glu_bias", {2 * hidden});
    const uint32_t* words = a.in<uint32_t>("words", {6});
    extra = a.in_or_null<float>("extra", {sizes.batch, sizes.time, hidden});
    if (a.refused() || rate <= 0) return;
    // As in nn/_operations.py: 2^32 times the rate, rounded.
    dropout.threshold = uint32_t(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1));
    dropout.scale = static_cast<float>(1 / (1 - rate));
    std::memcpy(dropout.words, words, sizeof(dropout.words));
    dropout.origin = words[4], dropout.stride = words[5];
  }
  // Packs the weights, after all checks. False if there is no memory.
  bool pack() {
    packed.emplace(Packed(sizes, nullptr).parts.size);
    if (!packed->at) return false;
    const Packed p(sizes, packed->at);
    pack_mixer(sizes, p, mixer);
    if (glu) pack_glu(sizes, p, glu, glu_bias);
    kernels().prepare(sizes, packed->at);
    return true;
  }

  int64_t features() const { return sizes.batch * sizes.time * sizes.hidden; }
  int64_t tile_size() const { return Tile(sizes, nullptr).parts.size; }
  const uint8_t* mask_of(int64_t i) const { return mask ? mask + i * sizes.time : nullptr; }
  // The offsets of a tile in arrays of samples, in arrays like u, and in stored states.
  int64_t sample(int64_t i, int64_t tile) const { return i * sizes.time + tile * kTile; }
  int64_t features(int64_t i, int64_t tile) const {
    const int64_t first = tile * kTile;
    return (i * sizes.time + (reverse ? sizes.time - 1 - first : first)) * sizes.hidden;
  }
  int64_t state(int64_t i, int64_t tile) const {
    return (i * tiles(sizes.time) + tile) * 2 * sizes.state;
  }
  Place place(int64_t i, int64_t tile, float* workspace) const {
    auto at = [&](auto* samples) { return samples ? samples + sample(i, tile) : nullptr; };
    const int64_t from = tile * kTile;
    return {packed->at, workspace, i, from, std::min(kTile, sizes.time - from),
            reverse ? -sizes.hidden : sizes.hidden, u + features(i, tile), at(mask), at(intervals),
            at(weights), extra ? extra + features(i, tile) : nullptr,
            record ? record + sample(i, tile) * record_width(sizes, sizes.keep) : nullptr, replay};
  }
};

// The gradients of u, the mixer, intervals and weights, the first results of a backward pass.
struct MixerGradients {
  float *u, *mean, *scale, *input, *bias, *step, *output, *feedthrough, *intervals, *weights;

  MixerGradients(Arrays& a, const Problem& p) {
    const Sizes& s = p.sizes;
    u = a.out<float>("d_u", {s.batch, s.time, s.hidden});
    mean = a.out<float>("d_mean", {s.hidden}), scale = a.out<float>("d_scale", {s.hidden});
    input = a.out<float>("d_input", {s.state, s.hidden}), bias = a.out<float>("d_bias", {s.state});
    step = a.out<float>("d_step", {p.mixer.step_rows, s.state});
    output = a.out<float>("d_output", {s.hidden, s.state});
    feedthrough = s.dense ? a.out<float>("d_feedthrough", {s.hidden, s.hidden})
                          : a.out<float>("d_feedthrough", {s.hidden});
    intervals = a.out_if<float>(p.intervals, "d_intervals", {s.batch, s.time});
    weights = a.out_if<float>(p.weights, "d_weights", {s.batch, s.time});
  }
  void give(const Problem& p, const Gradients& g) {
    const int64_t hidden = p.sizes.hidden, state = p.sizes.state;
    give_rows(state, hidden, g.input, g.H, input);
    give_rows(hidden, state, g.output, g.P, output);
    give_rows(p.mixer.step_rows, state, g.step, g.P, step);
    give_rows(1, state, g.bias, g.P, bias);
    give_rows(p.sizes.dense ? hidden : 1, hidden, p.sizes.dense ? g.dense : g.feedthrough, g.H,
              feedthrough);
    const bool channels = p.sizes.epsilon == 0;  // x = (u - mean) * scale
    for (int64_t h = 0; h < hidden; ++h) {
      const float factor = p.mixer.scale[h];
      mean[h] = channels ? -g.mean[h] * factor : g.mean[h];
      scale[h] = channels ? g.scale[h] / factor : g.scale[h];
    }
  }
};

// Runs the tiles of all sequences, forwards, from the states in `kept`. Tiles wait for the state before
// them; finish(place, i, tile) follows.
template <typename Finish>
ffi::Error forward_tiles(Threads& threads, const Problem& p, float* kept, float* final,
                         Finish finish) {
  const Sizes& s = p.sizes;
  std::unique_ptr<Turns[]> states(new Turns[s.batch]);
  Memory<float> after(s.batch * 2 * s.state);
  if (!after.at) return out_of_memory();
  auto work = [&](int64_t i, int64_t tile, float* workspace) {
    const Place q = p.place(i, tile, workspace);
    const bool last = tile + 1 == tiles(s.time);
    kernels().drive(s, q);
    states[i].wait(tile);
    kernels().oscillate(s, q, kept + p.state(i, tile),
                        last ? after.at + i * 2 * s.state : kept + p.state(i, tile + 1));
    states[i].pass();
    finish(q, i, tile);
  };
  ffi::Error error = parallel_steps(threads, s.batch, tiles(s.time), p.tile_size(), work);
  for (int64_t k = 0; final && k < s.batch * 2 * s.state; ++k) {  // z and y side by side
    const int64_t i = k / (2 * s.state), j = k / 2 % s.state;
    final[k] = after.at[(2 * i + k % 2) * s.state + j];
  }
  return error;
}

// Runs the tiles of all sequences, from the last to the first, with `more` floats behind the workspace.
// recompute(place, i, tile, sums) computes the gradient of positions. d_final, d_start: gradients of the
// final and the initial states, or null.
template <typename Recompute>
ffi::Error backward_tiles(Threads& threads, const Problem& p, MixerGradients& d, StepSums& sums,
                          const float* d_final, float* d_start, int64_t more, Recompute recompute) {
  const Sizes& s = p.sizes;
  const int64_t P = padded(s.state), number = tiles(s.time);
  std::unique_ptr<Turns[]> turns(new Turns[s.batch]);
  Memory<float> sensitivity(s.batch * 2 * P);
  if (!sensitivity.at) return out_of_memory();
  auto at = [&](int64_t k) {  // z and y side by side
    return (k / s.state / 2 * 2 + k % 2) * P + k / 2 % s.state;
  };
  for (int64_t k = 0; d_final && k < s.batch * 2 * s.state; ++k) sensitivity.at[at(k)] = d_final[k];
  auto work = [&](int64_t i, int64_t step, float* workspace) {
    const int64_t tile = number - 1 - step, sample = p.sample(i, tile);
    const Place q = p.place(i, tile, workspace);
    sums.turn(i, step, [&](float* sums) {
      recompute(q, i, tile, sums);
      turns[i].wait(step);
      kernels().oscillate_back(s, q, sensitivity.at + i * 2 * P,
                               d.intervals ? d.intervals + sample : nullptr,
                               d.weights ? d.weights + sample : nullptr, sums);
      turns[i].pass();
      kernels().finish_back(s, q, d.u + p.features(i, tile), sums);
    });
  };
  ffi::Error error = parallel_steps(threads, s.batch, number, p.tile_size() + more, work);
  for (int64_t k = 0; d_start && k < s.batch * 2 * s.state; ++k) d_start[k] = sensitivity.at[at(k)];
  kernels().pull_rule(s, p.packed->at, sums.total());
  d.give(p, Gradients(s, sums.total()));
  return error;
}

// ---- The block ----

ffi::Error forward(Threads& threads, Arrays& a, const Form& form) {
  Problem p(a, form, false);
  p.read_rest(a, form.dropout);
  const Sizes& s = p.sizes;
  const float* start = a.in<float>("start", {s.batch, s.state, 2});
  float* out = a.out<float>("out", {s.batch, s.time, s.hidden});
  float* final = a.out<float>("final", {s.batch, s.state, 2});
  float* means = a.out<float>("means", {s.batch, s.hidden});
  float* moments = a.out<float>("moments", {2, s.hidden});
  float* kept = a.out<float>("kept", {s.batch, tiles(s.time), 2, s.state});
  const int64_t width = record_width(s, s.keep);
  p.record = a.out_if<float>(s.keep, "record", {s.batch, s.time, width});
  if (a.wrong()) return a.error();
  on_large_pages(out, p.features()), on_large_pages(kept, p.state(s.batch, 0));
  on_large_pages(p.record, s.batch * s.time * width);
  Moments sums(s.batch, s.hidden);
  if (!p.pack() || sums.failed()) return out_of_memory();
  for (int64_t k = 0; k < s.batch * s.state * 2; ++k) {  // z and y side by side
    const int64_t i = k / 2 / s.state, j = k / 2 % s.state;
    kept[p.state(i, 0) + k % 2 * s.state + j] = start[k];
  }
  for (int64_t i = 0; i < s.batch; ++i) sums.counts[i] = present(p.mask_of(i), s.time);
  std::unique_ptr<Turns[]> turns(new Turns[s.batch]);
  ffi::Error error = forward_tiles(threads, p, kept, final, [&](const Place& q, int64_t i, int64_t tile) {
    kernels().finish(s, p.dropout, q, out + p.features(i, tile));
    turns[i].wait(tile);
    kernels().add_moments(s, q, sums.at(i));
    turns[i].pass();
  });
  for (int64_t i = 0; i < s.batch; ++i) sums.mean_of(i, means + i * s.hidden);
  sums.merge(moments, moments + s.hidden);
  return error;
}

ffi::Error backward(Threads& threads, Arrays& a, const Form& form) {
  Problem p(a, form, false);
  p.read_rest(a, form.dropout);
  const Sizes& s = p.sizes;
  const float* kept = a.in<float>("kept", {s.batch, tiles(s.time), 2, s.state});
  const int64_t width = record_width(s, s.keep);
  p.record = const_cast<float*>(a.in_or_null<float>("record", {s.batch, s.time, width}));
  if (s.keep && !p.record) a.refuse("record", "it is empty");
  p.replay = true;
  const float* moments = a.in<float>("moments", {2, s.hidden});
  const float* d_out = a.in_or_null<float>("d_out", {s.batch, s.time, s.hidden});  // null for zeros
  const float* d_final = a.in<float>("d_final", {s.batch, s.state, 2});
  const float* d_means = a.in<float>("d_means", {s.batch, s.hidden});
  const float* d_moments = a.in<float>("d_moments", {2, s.hidden});
  MixerGradients d(a, p);
  float* d_glu = a.out<float>("d_glu", {2 * s.hidden, s.hidden});
  float* d_glu_bias = a.out<float>("d_glu_bias", {2 * s.hidden});
  float* d_extra = a.out_if<float>(p.extra, "d_extra", {s.batch, s.time, s.hidden});
  float* d_start = a.out<float>("d_start", {s.batch, s.state, 2});
  if (a.wrong()) return a.error();
  on_large_pages(d.u, p.features());
  const int64_t row = 2 * padded(s.hidden), tile_size = p.tile_size();
  Memory<float> pull(row);
  StepSums sums(s.batch, tiles(s.time), Gradients(s, nullptr).parts.size);
  if (!p.pack() || !pull.at || sums.failed()) return out_of_memory();
  pull_of_moments(s.hidden, present(p.mask, s.batch * s.time), moments, d_moments, pull.at);
  std::vector<int64_t> counts(s.batch);
  for (int64_t i = 0; i < s.batch; ++i)
    counts[i] = std::max<int64_t>(present(p.mask_of(i), s.time), 1);
  ffi::Error error = backward_tiles(
      threads, p, d, sums, d_final, d_start, row,
      [&](const Place& q, int64_t i, int64_t tile, float* sums) {
        float* pull_here = q.workspace + tile_size;  // including that of the mean over the sequence
        std::memcpy(pull_here, pull.at, row * sizeof(float));
        for (int64_t h = 0; h < s.hidden; ++h) pull_here[h] += d_means[i * s.hidden + h] / counts[i];
        const int64_t at = p.features(i, tile);
        kernels().recompute(s, p.dropout, q, kept + p.state(i, tile), d_out ? d_out + at : nullptr,
                            pull_here, d_extra ? d_extra + at : nullptr, sums);
      });
  const Gradients g(s, sums.total());
  for (int64_t half = 0; half < 2; ++half)
    give_rows(s.hidden, s.hidden, g.glu + half * g.H * g.H, g.H, d_glu + half * s.hidden * s.hidden);
  give_rows(2, s.hidden, g.glu_bias, g.H, d_glu_bias);
  return error;
}

// ---- The mixer alone, from the last sample to the first, from rest ----

ffi::Error mix_forward(Threads& threads, Arrays& a, const Form& form) {
  Problem p(a, form, true);
  const Sizes& s = p.sizes;
  float* out = a.out<float>("out", {s.batch, s.time, s.hidden});
  float* kept = a.out<float>("kept", {s.batch, tiles(s.time), 2, s.state});
  if (a.wrong()) return a.error();
  if (!p.pack()) return out_of_memory();
  on_large_pages(out, p.features()), on_large_pages(kept, p.state(s.batch, 0));
  for (int64_t i = 0; i < s.batch; ++i) std::fill_n(kept + p.state(i, 0), 2 * s.state, 0.f);
  return forward_tiles(threads, p, kept, nullptr, [&](const Place& q, int64_t i, int64_t tile) {
    kernels().finish_mixer(s, q, out + p.features(i, tile));
  });
}

ffi::Error mix_backward(Threads& threads, Arrays& a, const Form& form) {
  Problem p(a, form, true);
  const Sizes& s = p.sizes;
  const float* kept = a.in<float>("kept", {s.batch, tiles(s.time), 2, s.state});
  const float* d_out = a.in<float>("d_out", {s.batch, s.time, s.hidden});
  MixerGradients d(a, p);
  if (a.wrong()) return a.error();
  on_large_pages(d.u, p.features());
  StepSums sums(s.batch, tiles(s.time), Gradients(s, nullptr).parts.size);
  if (!p.pack() || sums.failed()) return out_of_memory();
  return backward_tiles(threads, p, d, sums, nullptr, nullptr, 0,
                        [&](const Place& q, int64_t i, int64_t tile, float* sums) {
                          kernels().recompute_mixer(s, q, kept + p.state(i, tile),
                                                    d_out + p.features(i, tile), sums);
                        });
}

template <ffi::Error (*kRun)(Threads&, Arrays&, const Form&)>
ffi::Error with_form(Threads& threads, Arrays& a, std::string_view scheme, double epsilon, bool half,
                     bool approximate, double dropout, int64_t keep) {
  return kRun(threads, a, {scheme, epsilon, half, approximate, dropout, keep});
}
#define LINOSS_FORM                                                                   \
  .Attr<std::string_view>("scheme").Attr<double>("epsilon").Attr<bool>("half")         \
      .Attr<bool>("approximate").Attr<double>("dropout").Attr<int64_t>("keep")
LINOSS_HANDLER(linoss_block_forward, with_form<forward>, LINOSS_FORM);
LINOSS_HANDLER(linoss_block_backward, with_form<backward>, LINOSS_FORM);
LINOSS_HANDLER(linoss_mix_forward, with_form<mix_forward>, LINOSS_FORM);
LINOSS_HANDLER(linoss_mix_backward, with_form<mix_backward>, LINOSS_FORM);

}  // namespace linoss::block

#endif
