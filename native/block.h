// A block's arguments and memory, for the kernel (block.cpp) and for streams (stream.cpp).
#pragma once

#include "kernel.h"
#include "schemes.h"

namespace linoss::block {

// Batch, time steps, channels, oscillators (real ones: complex pairs count twice), and the form of the
// block: the source of steps, the epsilon of a norm over channels (0 for a norm of each channel),
// whether D is a matrix, and whether products round their factors to bfloat16.
struct Sizes {
  int64_t batch, time, hidden, state;
  Scheme scheme;
  float epsilon;
  bool dense, half, approximate;  // approximate: GELU in its tanh form
  int64_t keep;  // the products that the forward pass stores for the backward pass, of Kept
  Scheme rule;   // if it varies, the constant step is that of this scheme, of any length
};
enum Kept : int64_t { kForces = 1, kOutputs = 2, kGates = 4 };

// Dropout after GELU and after GLU: two words of a key each.
struct Dropout {
  uint32_t threshold;  // an element is dropped if its bits are below it; 0 for no dropout
  float scale;         // the factor of the others
  uint32_t words[2][2];
  uint32_t origin;  // the index of the first sample in the whole batch
  uint32_t stride;  // samples from one sequence to the next
};

// One tile of one sequence, in the order in which oscillators visit samples. `row` is the distance
// between samples of u, outputs and their gradients; it is negative for reverse time. Pointers are to
// the tile's first sample, and null for unused arrays.
struct Place {
  const float* packed;  // memory of Packed
  float* workspace;     // memory of Tile, zero before its first use
  int64_t index, from;  // the sequence in the batch and the tile's first sample, for dropout
  int64_t rows, row;
  const float* u;
  const uint8_t* mask;  // see kThere
  const float *intervals, *weights;  // of steps, and of forces
  const float* extra;                // added before GELU
  float* record;                     // rows x record_width, stored products
  bool replay;                       // the record is read instead of written
};

// The stages of one tile, in this order. Only `oscillate` waits for the previous tile, and only
// `oscillate_back` for the gradients of the next tile.
struct Table {
  void (*drive)(const Sizes&, const Place&);
  // before, after: states, 2 x state.
  void (*oscillate)(const Sizes&, const Place&, const float* before, float* after);
  void (*finish)(const Sizes&, const Dropout&, const Place&, float* out);
  // Adds the output of `finish` to the sums of moments.h.
  void (*add_moments)(const Sizes&, const Place&, double* moments);
  void (*finish_mixer)(const Sizes&, const Place&, float* out);

  // d_out: null for zeros. pull: rows a and c of a + c out, the gradient of the averages of out. sums:
  // memory of Gradients, which is added to. d_extra: null if there is none.
  void (*recompute)(const Sizes&, const Dropout&, const Place&, const float* before,
                    const float* d_out, const float* pull, float* d_extra, float* sums);
  void (*recompute_mixer)(const Sizes&, const Place&, const float* before, const float* d_out,
                          float* sums);
  // sensitivity: 2 x state, padded. d_intervals, d_weights: like intervals and weights.
  void (*oscillate_back)(const Sizes&, const Place&, float* sensitivity, float* d_intervals,
                         float* d_weights, float* sums);
  void (*finish_back)(const Sizes&, const Place&, float* d_u, float* sums);

  // The constant step from the rows of its rule, and weights in the layout of rounding products of
  // this instruction set.
  void (*prepare)(const Sizes&, float* packed);
  // Replaces the gradient of the constant step by that of the rows of its rule.
  void (*pull_rule)(const Sizes&, const float* packed, float* sums);

  // y = W x + b for one sample; rows of W's transpose, b and y are padded.
  void (*affine)(int64_t in, int64_t out, const float* x, const float* weight_t, const float* bias,
                 float* y);
};

namespace {

// Weights in padded rows of H or P; matrices also transposed.
struct Packed {
  int64_t H, P;
  Parts parts;
  float *mean, *scale, *feedthrough, *bias, *step, *glu_bias;  // the mean of a norm over channels: shift
  float* rule;               // the rows of Sizes::rule
  float *input, *input_t;    // B: P x H
  float *output, *output_t;  // C: H x P
  float *dense, *dense_t;    // D: H x H, if it is a matrix
  float *glu, *glu_t;        // gate, then value: 2 H x H

  Packed(const Sizes& s, float* at) : H(padded(s.hidden)), P(padded(s.state)), parts{at} {
    mean = parts.take(H), scale = parts.take(H), feedthrough = parts.take(H);
    bias = parts.take(P), step = parts.take(kStepRows * P), glu_bias = parts.take(2 * H);
    rule = parts.take(varies(s.rule) * kSchemeRows * P);
    input_t = parts.take(H * P), input = parts.take(P * H);
    output_t = parts.take(P * H), output = parts.take(H * P);
    glu_t = parts.take(H * 2 * H), glu = parts.take(2 * H * H);
    dense_t = parts.take(s.dense * H * H), dense = parts.take(s.dense * H * H);
  }
};

// Stored numbers of a sample: forces B x, outputs C y (and D x if D is a matrix), gates W g.
inline int64_t record_width(const Sizes& s, int64_t keep) {
  const int64_t H = padded(s.hidden), P = padded(s.state);
  return (keep & kForces ? P : 0) + (keep & kOutputs ? H : 0) + (keep & kGates ? 2 * H : 0);
}

// The weights of norm and mixer in rows without padding, in the order of the Python arguments.
struct MixerWeights {
  const float* mean;         // hidden; the shift of a norm over channels
  const float* scale;        // hidden: 1 / deviation, or the scale of a norm over channels
  const float* input;        // state x hidden: B
  const float* bias;         // state: b
  const float* step;         // step_rows x state; see Scheme
  const float* output;       // hidden x state: C
  const float* feedthrough;  // hidden, or hidden x hidden: D
  int64_t step_rows;
};

inline void pack_both(int64_t rows, int64_t columns, const float* from, float* to, int64_t to_row,
                      float* to_t, int64_t to_t_row) {
  take_rows(rows, columns, from, to, to_row);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to_t[j * to_t_row + i] = from[i * columns + j];
}
inline void pack_mixer(const Sizes& s, const Packed& p, const MixerWeights& w) {
  take_rows(1, s.hidden, w.mean, p.mean, p.H), take_rows(1, s.hidden, w.scale, p.scale, p.H);
  take_rows(1, s.state, w.bias, p.bias, p.P);
  take_rows(w.step_rows, s.state, w.step, varies(s.rule) ? p.rule : p.step, p.P);
  pack_both(s.state, s.hidden, w.input, p.input, p.H, p.input_t, p.P);
  pack_both(s.hidden, s.state, w.output, p.output, p.P, p.output_t, p.H);
  if (s.dense)
    pack_both(s.hidden, s.hidden, w.feedthrough, p.dense, p.H, p.dense_t, p.H);
  else
    take_rows(1, s.hidden, w.feedthrough, p.feedthrough, p.H);
}
inline void pack_glu(const Sizes& s, const Packed& p, const float* weight, const float* bias) {
  take_rows(2, s.hidden, bias, p.glu_bias, p.H);
  for (int half = 0; half < 2; ++half)
    pack_both(s.hidden, s.hidden, weight + half * s.hidden * s.hidden, p.glu + half * p.H * p.H, p.H,
              p.glu_t + half * p.H, 2 * p.H);
}

// Copies rows to the padded rows of a tile and clears the padding: a NaN of another sequence may be
// there, and would enter sums over a row.
inline void refill_rows(int64_t rows, int64_t width, const float* from, int64_t from_row, float* to,
                        int64_t to_row) {
  copy_rows(rows, width, from, from_row, to, to_row);
  for (int64_t n = 0; n < rows && width < to_row; ++n)
    std::memset(to + n * to_row + width, 0, (to_row - width) * sizeof(float));
}

// Sums of the gradients of weights, also in padded rows.
struct Gradients {
  int64_t H, P;
  Parts parts;
  float *mean, *scale, *input, *bias, *step, *output, *feedthrough, *dense, *glu, *glu_bias;

  Gradients(const Sizes& s, float* at) : H(padded(s.hidden)), P(padded(s.state)), parts{at} {
    input = parts.take(P * H), output = parts.take(H * P), glu = parts.take(2 * H * H);
    step = parts.take(kStepRows * P), bias = parts.take(P);
    mean = parts.take(H), scale = parts.take(H), feedthrough = parts.take(H);
    dense = parts.take(s.dense * H * H), glu_bias = parts.take(2 * H);
  }
};

// The rows of a tile. A gradient replaces the values that it is the gradient of.
struct Tile {
  Parts parts;
  float *u, *x, *v, *g, *w;   // hidden, hidden, hidden, hidden, 2 hidden
  float *b, *y, *z, *dy;      // state; y and z have one row more, for the state before the first sample
  float *state;               // 2 x state
  float *center, *deviation;  // of each sample, for a norm over channels: mean, and 1 / deviation
  double *along;              // two sums over oscillators for each sample, one vector each
  uint32_t* half[2];          // the factors of a product, rounded

  Tile(const Sizes& s, float* at) : parts{at} {
    const int64_t H = padded(s.hidden), P = padded(s.state);
    u = parts.take(kTile * H), x = parts.take(kTile * H), v = parts.take(kTile * H);
    g = parts.take(kTile * H), w = parts.take(kTile * 2 * H);
    b = parts.take(kTile * P), dy = parts.take(kTile * P);
    parts.take(P), y = parts.take(kTile * P), parts.take(P), z = parts.take(kTile * P);
    state = parts.take(2 * P), center = parts.take(kTile), deviation = parts.take(kTile);
    along = reinterpret_cast<double*>(parts.take(2 * kTile * kPad));
    const int64_t widest = P > 2 * H ? P : 2 * H;
    for (uint32_t*& rows : half)
      rows = reinterpret_cast<uint32_t*>(parts.take(s.half * kTile * widest / 2));
  }
};

}  // namespace
}  // namespace linoss::block
