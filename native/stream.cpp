// Streaming, one sample at a time, called from Python without XLA: encoder, blocks and head, with the
// functions of block.cpp on tiles of one sample.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <vector>

#include "block.h"
#include "runtime.h"

namespace nb = nanobind;

namespace linoss::block {

LINOSS_CHOOSE_HALF(Table, kernels)

using Array = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Changing = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

[[noreturn]] void refuse(const char* name) {
  throw nb::value_error((std::string("linoss: wrong ") + name).c_str());
}
template <typename Any>
void check(const char* name, const Any& array, std::initializer_list<int64_t> expected) {
  bool good = array.ndim() == expected.size();
  for (size_t k = 0; good && k < expected.size(); ++k)
    good = int64_t(array.shape(k)) == expected.begin()[k];
  if (!good) refuse(name);
}
const Array& at(const std::vector<Array>& arrays, size_t i) {
  if (i >= arrays.size()) refuse("number of arrays");
  return arrays[i];
}
const Array& matrix(const Array& weight) {
  if (weight.ndim() != 2) refuse("weight");
  return weight;
}

// W x + b.
class Affine {
 public:
  Affine(const Array& weight, const Array& bias)
      : in(matrix(weight).shape(1)), out(weight.shape(0)), weight_(in * padded(out)),
        bias_(padded(out)) {
    check("bias", bias, {out});
    for (int64_t o = 0; o < out; ++o) {
      bias_.at[o] = bias.data()[o];
      for (int64_t i = 0; i < in; ++i) weight_.at[i * padded(out) + o] = weight.data()[o * in + i];
    }
  }
  void operator()(const float* x, float* y) const {
    kernels().affine(in, out, x, weight_.at, bias_.at, y);
  }
  int64_t in, out;

 private:
  Memory<float> weight_, bias_;
};

class Stream {
 public:
  // layers: weight and bias of encoder and decoder. blocks: for each block the arrays of MixerArrays in
  // kernels/_block.py, with the rows of the scheme, and weight and bias of the GLU. states: blocks x streams
  // x 2 x oscillators, updated by each sample. pooled: streams x (hidden + 1), likewise, sums or the last
  // features and the number of samples, if the head pools; else empty. form: pooling, squash, epsilon, scheme, half, approximate, and `moves`, whether states
  // advance without forcing when a regular sample is missing.
  Stream(const std::vector<Array>& layers, const std::vector<std::vector<Array>>& blocks,
         Changing states, Sums pooled, nb::kwargs form)
      : encoder_(at(layers, 0), at(layers, 1)), decoder_(at(layers, 2), at(layers, 3)),
        states_(states), pooled_(pooled),
        means_(nb::cast<std::string>(form["pooling"]) == "mean"), pools_(!nb::cast<std::string>(form["pooling"]).empty()),
        squash_(nb::cast<bool>(form["squash"])), moves_(nb::cast<bool>(form["moves"])) {
    if (blocks.empty() || states.ndim() != 4) refuse("states");
    sizes_ = {1, 1, encoder_.out, int64_t(states.shape(3)), Scheme::constant,
              nb::cast<float>(form["epsilon"]), at(blocks[0], 6).ndim() == 2,
              nb::cast<bool>(form["half"]), nb::cast<bool>(form["approximate"]), 0,
              scheme_of(nb::cast<std::string>(form["scheme"]))};
    const int64_t streams = states.shape(1), H = sizes_.hidden;
    if (!varies(sizes_.rule) || sizes_.rule == Scheme::unknown) refuse("scheme");
    check("states", states, {int64_t(blocks.size()), streams, 2, sizes_.state});
    check("pooled", pooled, {pools_ ? streams : 0, pools_ ? H + 1 : 0});
    check("decoder", layers[2], {decoder_.out, H});
    varying_ = sizes_;
    std::swap(varying_.scheme, varying_.rule);
    features_.emplace(padded(H)), answer_.emplace(padded(decoder_.out));
    workspace_.emplace(Tile(sizes_, nullptr).parts.size);
    for (const auto& block : blocks)
      for (const Sizes& s : {sizes_, varying_}) packed_.push_back(pack(block, s));
  }

  // Processes one sample of each stream: sample (streams x in), answer (streams x out). An interval
  // that is not positive means regular sampling.
  void step(Array sample, Changing answer, float interval, bool present) {
    const int64_t streams = states_.shape(1);
    if (int64_t(sample.size()) != streams * encoder_.in) refuse("sample");
    if (int64_t(answer.size()) != streams * decoder_.out) refuse("answer");
    for (int64_t i = 0; i < streams; ++i)
      one(i, sample.data() + i * encoder_.in, answer.data() + i * decoder_.out, interval, present);
  }

 private:
  void one(int64_t i, const float* sample, float* answer, float interval, bool present) {
    const bool varies = interval > 0;
    const Sizes& s = varies ? varying_ : sizes_;
    const uint8_t mask = present ? kThere : moves_ && !varies ? kSilent : 0;
    float* features = features_->at;
    encoder_(sample, features);
    for (size_t b = 0; b < packed_.size() / 2; ++b) {
      const Place q = {packed_[2 * b + varies]->at, workspace_->at, 0, 0, 1, s.hidden, features, &mask,
                       &interval, nullptr, nullptr, nullptr, false};
      float* state = states_.data() + (b * states_.shape(1) + i) * 2 * s.state;
      kernels().drive(s, q);
      kernels().oscillate(s, q, state, state);
      kernels().finish(s, Dropout{0, 1.f, {}, 0, 0}, q, features);
    }
    if (pools_) {
      double* pooled = pooled_.data() + i * (s.hidden + 1);
      pooled[s.hidden] += present;
      for (int64_t h = 0; h < s.hidden; ++h) {
        if (present) pooled[h] = means_ ? pooled[h] + features[h] : features[h];
        features[h] = static_cast<float>(means_ ? pooled[h] / std::max(pooled[s.hidden], 1.0) : pooled[h]);
      }
    }
    decoder_(features, answer_->at);
    for (int64_t o = 0; o < decoder_.out; ++o)
      answer[o] = squash_ ? std::tanh(answer_->at[o]) : answer_->at[o];
  }

  std::unique_ptr<Memory<float>> pack(const std::vector<Array>& w, const Sizes& s) const {
    const int64_t H = s.hidden, P = s.state;
    if (w.size() != 9) refuse("block");
    check("mean", w[0], {H}), check("scale", w[1], {H}), check("input", w[2], {P, H});
    check("bias", w[3], {P}), check("step", w[4], {kSchemeRows, P}), check("output", w[5], {H, P});
    if (s.dense) check("feedthrough", w[6], {H, H});
    else check("feedthrough", w[6], {H});
    check("glu", w[7], {2 * H, H}), check("glu_bias", w[8], {2 * H});
    auto memory = std::make_unique<Memory<float>>(Packed(s, nullptr).parts.size);
    const Packed p(s, memory->at);
    pack_mixer(s, p, {w[0].data(), w[1].data(), w[2].data(), w[3].data(), w[4].data(), w[5].data(),
                      w[6].data(), kSchemeRows});
    pack_glu(s, p, w[7].data(), w[8].data());
    kernels().prepare(s, memory->at);
    return memory;
  }

  Affine encoder_, decoder_;
  Changing states_;
  Sums pooled_;
  bool means_, pools_, squash_, moves_;
  Sizes sizes_, varying_;
  std::optional<Memory<float>> features_, answer_, workspace_;
  std::vector<std::unique_ptr<Memory<float>>> packed_;  // two for each block
};

LINOSS_MODULE([](nb::module_& m) {
  nb::class_<Stream>(m, "Stream")
      .def(nb::init<const std::vector<Array>&, const std::vector<std::vector<Array>>&, Changing,
                    Sums, nb::kwargs>())
      .def("step", &Stream::step);
});

}  // namespace linoss::block
