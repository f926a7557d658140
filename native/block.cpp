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
  product(1, padded(out), in, x, 0, 1, weight_t, padded(out), y, 0, bias, 0);  // rows are one row
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
#include <tuple>

#include "moments.h"
#include "runtime.h"

namespace linoss::block {

LINOSS_CHOOSE_HALF(Table, kernels)

static constexpr char kRate[] = "rate", kEpsilon[] = "epsilon", kScheme[] = "scheme";
static constexpr char kHalf[] = "half", kKeep[] = "keep";
using Rate = ffi::Attr<double, kRate>;
using Epsilon = ffi::Attr<double, kEpsilon>;
using Name = ffi::Attr<std::string_view, kScheme>;
using Half = ffi::Attr<bool, kHalf>;
using Keep = ffi::Attr<int64_t, kKeep>;

// The weights up to C and D, and the arrays over samples.
struct Mixer {
  F32 mean;         // hidden; the shift of a norm over channels
  F32 scale;        // hidden: 1 / deviation, or the scale of a norm over channels
  F32 input;        // state x hidden: B
  F32 bias;         // state: b
  F32 step;         // kStepRows or kSchemeRows x state; see Scheme
  F32 output;       // hidden x state: C
  F32 feedthrough;  // hidden, or hidden x hidden: D
  U8 mask;          // batch x time, or empty; see kThere
  F32 intervals;    // batch x time if steps vary, else empty
  F32 weights;      // batch x time: of forces, or empty
};

struct Form {
  double epsilon;
  std::string_view scheme;
  bool half, reverse;
  int64_t keep = 0;
};

// Inputs and outputs of the oscillators are in the order in which they visit samples, u and outputs in
// the order of time.
struct Problem {
  Sizes sizes;
  Mixer mixer;
  bool reverse;
  Memory<float> packed;
  const float* extra = nullptr;
  float* record = nullptr;
  bool replay = false;

  Problem(const F32& u, const Mixer& m, const Form& form, Shapes& shapes)
      : sizes(sizes_of(u, m, form, shapes)), mixer(m), reverse(form.reverse),
        packed(Packed(sizes, nullptr).parts.size) {
    const auto [batch, time, hidden, state] = std::tie(sizes.batch, sizes.time, sizes.hidden,
                                                       sizes.state);
    const bool varying = varies(sizes.scheme);
    shapes.check("mean", m.mean, {hidden}), shapes.check("scale", m.scale, {hidden});
    shapes.check("input", m.input, {state, hidden}), shapes.check("bias", m.bias, {state});
    const int64_t rows = step_rows(varies(sizes.rule) ? sizes.rule : sizes.scheme);
    shapes.check("step", m.step, {rows, state});
    shapes.check("output", m.output, {hidden, state});
    check_feedthrough("feedthrough", m.feedthrough, shapes);
    if (or_null(m.mask)) shapes.check("mask", m.mask, {batch, time});
    if (varying) shapes.check("intervals", m.intervals, {batch, time});
    if (or_null(m.weights)) shapes.check("weights", m.weights, {batch, time});
    if (shapes.wrong() || !packed.at) return;
    pack_mixer(sizes, Packed(sizes, packed.at),
               {m.mean.typed_data(), m.scale.typed_data(), m.input.typed_data(), m.bias.typed_data(),
                m.step.typed_data(), m.output.typed_data(), m.feedthrough.typed_data()},
               rows);
  }

  static Sizes sizes_of(const F32& u, const Mixer& m, const Form& form, Shapes& shapes) {
    Sizes s = {};
    std::tie(s.batch, s.time, s.hidden) = shapes.sizes<3>("u", u);
    std::tie(s.state, std::ignore) = shapes.sizes<2>("input", m.input);
    s.scheme = scheme_of(form.scheme);
    if (s.scheme == Scheme::unknown) shapes.refuse("scheme", std::string(form.scheme));
    if (varies(s.scheme) && !or_null(m.intervals)) std::swap(s.scheme, s.rule);
    if (s.scheme == Scheme::pairs && s.state % kPad)
      shapes.refuse("input", std::to_string(s.state) + " rows, no multiple of " +
                                 std::to_string(kPad));
    s.epsilon = static_cast<float>(form.epsilon);
    s.dense = m.feedthrough.dimensions().size() == 2;
    s.half = form.half, s.keep = form.keep;
    return s;
  }

  template <typename Buffer>
  void check_feedthrough(const char* name, const Buffer& buffer, Shapes& shapes) const {
    if (sizes.dense)
      shapes.check(name, buffer, {sizes.hidden, sizes.hidden});
    else
      shapes.check(name, buffer, {sizes.hidden});
  }

  int64_t workspace() const { return Tile(sizes, nullptr).parts.size; }
  // The offsets of a tile in arrays of samples, in arrays like u, and in stored states.
  int64_t sample(int64_t i, int64_t tile) const { return i * sizes.time + tile * kTile; }
  int64_t features(int64_t i, int64_t tile) const {
    const int64_t first = tile * kTile;
    return (i * sizes.time + (reverse ? sizes.time - 1 - first : first)) * sizes.hidden;
  }
  int64_t state(int64_t i, int64_t tile) const {
    return (i * tiles(sizes.time) + tile) * 2 * sizes.state;
  }
  Place place(const F32& u, int64_t i, int64_t tile, float* workspace) const {
    auto at = [&](auto* samples) { return samples ? samples + sample(i, tile) : nullptr; };
    const int64_t from = tile * kTile;
    return {packed.at, workspace, i, from, std::min(kTile, sizes.time - from),
            reverse ? -sizes.hidden : sizes.hidden, u.typed_data() + features(i, tile),
            at(or_null(mixer.mask)), at(or_null(mixer.intervals)), at(or_null(mixer.weights)),
            extra ? extra + features(i, tile) : nullptr,
            record ? record + sample(i, tile) * record_width(sizes, sizes.keep) : nullptr, replay};
  }
};

// The gradients of a mixer, and their outputs.
struct MixerGradients {
  OutF32 mean, scale, input, bias, step, output, feedthrough, intervals, weights;

  void check(const Problem& p, Shapes& shapes) {
    p.check_feedthrough("d_feedthrough", *feedthrough, shapes);
    if (or_null(p.mixer.intervals))
      shapes.check("d_intervals", *intervals, {p.sizes.batch, p.sizes.time});
    if (or_null(p.mixer.weights))
      shapes.check("d_weights", *weights, {p.sizes.batch, p.sizes.time});
  }
  void give(const Problem& p, const Gradients& g) {
    const int64_t hidden = p.sizes.hidden, state = p.sizes.state;
    give_rows(state, hidden, g.input, g.H, input->typed_data());
    give_rows(hidden, state, g.output, g.P, output->typed_data());
    give_rows(step->dimensions()[0], state, g.step, g.P, step->typed_data());
    give_rows(1, state, g.bias, g.P, bias->typed_data());
    if (p.sizes.dense)
      give_rows(hidden, hidden, g.dense, g.H, feedthrough->typed_data());
    else
      give_rows(1, hidden, g.feedthrough, g.H, feedthrough->typed_data());
    const bool channels = p.sizes.epsilon == 0;  // x = (u - mean) * scale
    for (int64_t h = 0; h < hidden; ++h) {
      const float factor = p.mixer.scale.typed_data()[h];
      mean->typed_data()[h] = channels ? -g.mean[h] * factor : g.mean[h];
      scale->typed_data()[h] = channels ? g.scale[h] / factor : g.scale[h];
    }
  }
};

// Runs the tiles of all sequences, forwards. Tiles wait for the state before them; finish(place, i,
// tile) follows.
template <typename Finish>
ffi::Error forward_tiles(Threads& threads, const Problem& p, const F32& u, float* kept,
                         float* final, Finish finish) {
  const Sizes& s = p.sizes;
  kernels().prepare(s, p.packed.at);
  std::unique_ptr<Turns[]> states(new Turns[s.batch]);
  Memory<float> after(s.batch * 2 * s.state);
  if (!after.at) return out_of_memory();
  auto work = [&](int64_t i, int64_t tile, float* workspace) {
    const Place q = p.place(u, i, tile, workspace);
    const bool last = tile + 1 == tiles(s.time);
    kernels().drive(s, q);
    states[i].wait(tile);
    kernels().oscillate(s, q, kept + p.state(i, tile),
                        last ? after.at + i * 2 * s.state : kept + p.state(i, tile + 1));
    states[i].pass();
    finish(q, i, tile);
  };
  ffi::Error error = parallel_steps(threads, s.batch, tiles(s.time), p.workspace(), work);
  for (int64_t k = 0; final && k < s.batch * 2 * s.state; ++k) {  // z and y side by side
    const int64_t i = k / (2 * s.state), j = k / 2 % s.state;
    final[k] = after.at[(2 * i + k % 2) * s.state + j];
  }
  return error;
}

// Runs the tiles of all sequences, from the last to the first. recompute(place, i, tile, sums) computes
// the gradient of positions. ends: gradients of the final states, and finally of the initial states.
template <typename Recompute>
ffi::Error backward_tiles(Threads& threads, const Problem& p, const F32& u, const float* d_final,
                          float* d_start, OutF32& d_u, MixerGradients& d,
                          StepSums& sums, int64_t more, Recompute recompute) {
  const Sizes& s = p.sizes;
  const int64_t P = padded(s.state), number = tiles(s.time);
  kernels().prepare(s, p.packed.at);
  std::unique_ptr<Turns[]> turns(new Turns[s.batch]);
  Memory<float> sensitivity(s.batch * 2 * P);
  if (!sensitivity.at) return out_of_memory();
  auto at = [&](int64_t k) {  // z and y side by side
    return (k / s.state / 2 * 2 + k % 2) * P + k / 2 % s.state;
  };
  for (int64_t k = 0; d_final && k < s.batch * 2 * s.state; ++k) sensitivity.at[at(k)] = d_final[k];
  const bool varying = or_null(p.mixer.intervals), weighs = or_null(p.mixer.weights);
  auto work = [&](int64_t i, int64_t step, float* workspace) {
    const int64_t tile = number - 1 - step, sample = p.sample(i, tile);
    const Place q = p.place(u, i, tile, workspace);
    sums.turn(i, step, [&](float* sums) {
      recompute(q, i, tile, sums);
      turns[i].wait(step);
      kernels().oscillate_back(s, q, sensitivity.at + i * 2 * P,
                               varying ? d.intervals->typed_data() + sample : nullptr,
                               weighs ? d.weights->typed_data() + sample : nullptr, sums);
      turns[i].pass();
      kernels().finish_back(s, q, d_u->typed_data() + p.features(i, tile), sums);
    });
  };
  ffi::Error error = parallel_steps(threads, s.batch, number, p.workspace() + more, work);
  for (int64_t k = 0; d_start && k < s.batch * 2 * s.state; ++k) d_start[k] = sensitivity.at[at(k)];
  kernels().pull_rule(s, p.packed.at, sums.total());
  d.give(p, Gradients(s, sums.total()));
  return error;
}

// ---- The block ----

struct Glu {
  F32 weight;  // 2 hidden x hidden: gate, then value
  F32 bias;    // 2 hidden

  void pack(const Problem& p, Shapes& shapes) const {
    const int64_t hidden = p.sizes.hidden;
    shapes.check("glu", weight, {2 * hidden, hidden}), shapes.check("glu_bias", bias, {2 * hidden});
    if (!shapes.wrong() && p.packed.at)
      pack_glu(p.sizes, Packed(p.sizes, p.packed.at), weight.typed_data(), bias.typed_data());
  }
};

// words: two words of a key for each dropout, origin and stride.
Dropout dropout_of(const U32& words, double rate, Shapes& shapes) {
  Dropout dropout = {0, 1.f, {}, 0, 0};
  shapes.check("words", words, {6});
  if (shapes.wrong() || rate <= 0) return dropout;
  // As in nn/_dropout.py: 2^32 times the rate, rounded.
  dropout.threshold = uint32_t(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1));
  dropout.scale = static_cast<float>(1 / (1 - rate));
  std::memcpy(dropout.words, words.typed_data(), sizeof(dropout.words));
  dropout.origin = words.typed_data()[4], dropout.stride = words.typed_data()[5];
  return dropout;
}

// extra: batch x time x hidden, or empty. start, final: batch x state x 2.
ffi::Error forward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                   F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words, U8 mask,
                   F32 intervals, F32 weights, F32 extra, F32 start, Rate rate, Epsilon epsilon,
                   Name scheme, Half half, Keep keep, OutF32 out, OutF32 final, OutF32 means,
                   OutF32 moments, OutF32 kept, OutF32 record) {
  Shapes shapes;
  Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  {*epsilon, *scheme, *half, false, *keep}, shapes);
  const Dropout dropout = dropout_of(words, *rate, shapes);
  const Sizes& s = p.sizes;
  Glu{glu, glu_bias}.pack(p, shapes);
  if ((p.extra = or_null(extra))) shapes.check("extra", extra, {s.batch, s.time, s.hidden});
  p.record = or_null(*record);
  if (s.keep)
    shapes.check("record", *record, {s.batch, s.time, record_width(s, s.keep)});
  shapes.check("start", start, {s.batch, s.state, 2});
  shapes.check("out", *out, {s.batch, s.time, s.hidden});
  shapes.check("final", *final, {s.batch, s.state, 2});
  shapes.check("means", *means, {s.batch, s.hidden});
  shapes.check("moments", *moments, {2, s.hidden});
  shapes.check("kept", *kept, {s.batch, tiles(s.time), 2, s.state});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(out), on_large_pages(kept), on_large_pages(record);
  Moments sums(s.batch, s.hidden);
  if (!p.packed.at || sums.failed()) return out_of_memory();
  for (int64_t k = 0; k < s.batch * s.state * 2; ++k) {  // z and y side by side
    const int64_t i = k / 2 / s.state, j = k / 2 % s.state;
    kept->typed_data()[p.state(i, 0) + k % 2 * s.state + j] = start.typed_data()[k];
  }
  for (int64_t i = 0; i < s.batch; ++i)
    sums.counts[i] = present(mask.element_count() ? mask.typed_data() + i * s.time : nullptr, s.time);
  std::unique_ptr<Turns[]> turns(new Turns[s.batch]);
  ffi::Error error = forward_tiles(
      threads, p, u, kept->typed_data(), final->typed_data(),
      [&](const Place& q, int64_t i, int64_t tile) {
        kernels().finish(p.sizes, dropout, q, out->typed_data() + p.features(i, tile));
        turns[i].wait(tile);
        kernels().add_moments(p.sizes, q, sums.at(i));
        turns[i].pass();
      });
  for (int64_t i = 0; i < s.batch; ++i) sums.mean_of(i, means->typed_data() + i * s.hidden);
  sums.merge(moments->typed_data(), moments->typed_data() + s.hidden);
  return error;
}

ffi::Error backward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                    F32 output, F32 feedthrough, F32 glu, F32 glu_bias, U32 words, U8 mask,
                    F32 intervals, F32 weights, F32 extra, F32 kept, F32 record, F32 moments, F32 d_out,
                    F32 d_final, F32 d_means, F32 d_moments, Rate rate, Epsilon epsilon, Name scheme,
                    Half half, Keep keep, OutF32 d_u, OutF32 d_mean, OutF32 d_scale, OutF32 d_input, OutF32 d_bias,
                    OutF32 d_step, OutF32 d_output, OutF32 d_feedthrough, OutF32 d_glu,
                    OutF32 d_glu_bias, OutF32 d_intervals, OutF32 d_weights, OutF32 d_extra,
                    OutF32 d_start) {
  Shapes shapes;
  Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  {*epsilon, *scheme, *half, false, *keep}, shapes);
  const Dropout dropout = dropout_of(words, *rate, shapes);
  const Sizes& s = p.sizes;
  Glu{glu, glu_bias}.pack(p, shapes);
  MixerGradients d = {d_mean,   d_scale,       d_input,     d_bias,   d_step,
                      d_output, d_feedthrough, d_intervals, d_weights};
  d.check(p, shapes);
  const float* d_out_or_null = or_null(d_out);
  if ((p.extra = or_null(extra))) shapes.check("d_extra", *d_extra, {s.batch, s.time, s.hidden});
  p.record = const_cast<float*>(or_null(record)), p.replay = true;
  if (s.keep) shapes.check("record", record, {s.batch, s.time, record_width(s, s.keep)});
  if (d_out_or_null) shapes.check("d_out", d_out, {s.batch, s.time, s.hidden});  // else zeros
  shapes.check("kept", kept, {s.batch, tiles(s.time), 2, s.state});
  shapes.check("d_means", d_means, {s.batch, s.hidden});
  shapes.check("d_final", d_final, {s.batch, s.state, 2});
  shapes.check("moments", moments, {2, s.hidden});
  shapes.check("d_moments", d_moments, {2, s.hidden});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(d_u);
  const int64_t row = 2 * padded(s.hidden), tile_size = p.workspace();
  Memory<float> pull(row);
  StepSums sums(s.batch, tiles(s.time), Gradients(s, nullptr).parts.size);
  if (!p.packed.at || !pull.at || sums.failed()) return out_of_memory();
  const uint8_t* there = or_null(mask);
  pull_of_moments(s.hidden, present(there, s.batch * s.time), moments, d_moments, pull.at);
  std::vector<int64_t> counts(s.batch);
  for (int64_t i = 0; i < s.batch; ++i)
    counts[i] = std::max<int64_t>(present(there ? there + i * s.time : nullptr, s.time), 1);
  ffi::Error error = backward_tiles(
      threads, p, u, d_final.typed_data(), d_start->typed_data(), d_u, d, sums, row,
      [&](const Place& q, int64_t i, int64_t tile, float* sums) {
        float* pull_here = q.workspace + tile_size;  // including that of the mean over the sequence
        std::memcpy(pull_here, pull.at, row * sizeof(float));
        for (int64_t h = 0; h < p.sizes.hidden; ++h)
          pull_here[h] += d_means.typed_data()[i * p.sizes.hidden + h] / counts[i];
        const int64_t at = p.features(i, tile);
        kernels().recompute(p.sizes, dropout, q, kept.typed_data() + p.state(i, tile),
                            d_out_or_null ? d_out_or_null + at : nullptr, pull_here,
                            p.extra ? d_extra->typed_data() + at : nullptr, sums);
      });
  const Gradients g(s, sums.total());
  for (int64_t half = 0; half < 2; ++half)
    give_rows(s.hidden, s.hidden, g.glu + half * g.H * g.H, g.H,
              d_glu->typed_data() + half * s.hidden * s.hidden);
  give_rows(2, s.hidden, g.glu_bias, g.H, d_glu_bias->typed_data());
  return error;
}

// ---- The mixer alone, from the last sample to the first, from rest ----

ffi::Error mix_forward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                       F32 output, F32 feedthrough, U8 mask, F32 intervals, F32 weights,
                       Epsilon epsilon, Name scheme, Half half, OutF32 out, OutF32 kept) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  {*epsilon, *scheme, *half, true}, shapes);
  const Sizes& s = p.sizes;
  shapes.check("out", *out, {s.batch, s.time, s.hidden});
  shapes.check("kept", *kept, {s.batch, tiles(s.time), 2, s.state});
  if (shapes.wrong()) return shapes.error();
  if (!p.packed.at) return out_of_memory();
  on_large_pages(out), on_large_pages(kept);
  for (int64_t i = 0; i < s.batch; ++i)
    std::fill_n(kept->typed_data() + p.state(i, 0), 2 * s.state, 0.f);
  return forward_tiles(threads, p, u, kept->typed_data(), nullptr,
                       [&](const Place& q, int64_t i, int64_t tile) {
                         kernels().finish_mixer(p.sizes, q, out->typed_data() + p.features(i, tile));
                       });
}

ffi::Error mix_backward(Threads threads, F32 u, F32 mean, F32 scale, F32 input, F32 bias, F32 step,
                        F32 output, F32 feedthrough, U8 mask, F32 intervals, F32 weights, F32 kept,
                        F32 d_out, Epsilon epsilon, Name scheme, Half half, OutF32 d_u, OutF32 d_mean,
                        OutF32 d_scale, OutF32 d_input, OutF32 d_bias, OutF32 d_step,
                        OutF32 d_output, OutF32 d_feedthrough, OutF32 d_intervals,
                        OutF32 d_weights) {
  Shapes shapes;
  const Problem p(u, {mean, scale, input, bias, step, output, feedthrough, mask, intervals, weights},
                  {*epsilon, *scheme, *half, true}, shapes);
  const Sizes& s = p.sizes;
  MixerGradients d = {d_mean,   d_scale,       d_input,     d_bias,   d_step,
                      d_output, d_feedthrough, d_intervals, d_weights};
  d.check(p, shapes);
  shapes.check("kept", kept, {s.batch, tiles(s.time), 2, s.state});
  shapes.check("d_out", d_out, {s.batch, s.time, s.hidden});
  if (shapes.wrong()) return shapes.error();
  on_large_pages(d_u);
  StepSums sums(s.batch, tiles(s.time), Gradients(s, nullptr).parts.size);
  if (!p.packed.at || sums.failed()) return out_of_memory();
  return backward_tiles(threads, p, u, nullptr, nullptr, d_u, d, sums, 0,
                        [&](const Place& q, int64_t i, int64_t tile, float* sums) {
                          kernels().recompute_mixer(p.sizes, q, kept.typed_data() + p.state(i, tile),
                                                    d_out.typed_data() + p.features(i, tile), sums);
                        });
}

LINOSS_TARGET(linoss_block_forward, forward);
LINOSS_TARGET(linoss_block_backward, backward);
LINOSS_TARGET(linoss_mix_forward, mix_forward);
LINOSS_TARGET(linoss_mix_backward, mix_backward);

}  // namespace linoss::block

#endif
