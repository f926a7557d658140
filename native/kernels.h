// The kernels: what they are given, and how they are reached.
#pragma once

#include <cstdint>

namespace linoss {

// Sizes of a block: batch, time steps, channels, oscillators (real ones: complex pairs count twice).
struct Sizes {
  int64_t batch, time, hidden, state;
};

// One step of each oscillator, [z, y] <- M [z, y] + F b: rows zz, zy, yz, yy, fz, fy.
constexpr int kStepRows = 6;

// Steps of time between two kept states; the unit of work that stays in cache.
constexpr int64_t kTile = 64;

// Rows in the kernels' memory are padded with zeros to a multiple of this.
constexpr int64_t kPad = 16;

inline int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }
inline int64_t tiles(int64_t time) { return (time + kTile - 1) / kTile; }

// Weights as the caller has them, row-major.
struct Weights {
  const float* mean;         // hidden
  const float* scale;        // hidden, one over the deviation
  const float* input;        // state x hidden: B
  const float* bias;         // state: b
  const float* step;         // kStepRows x state
  const float* output;       // hidden x state: C
  const float* feedthrough;  // hidden: D
  const float* glu;          // 2 hidden x hidden: gate, then value
  const float* glu_bias;     // 2 hidden
};

// Dropout after GELU and after GLU: two words of a key each.
struct Dropout {
  uint32_t threshold;  // an element is dropped if its bits are below; 0 for no dropout
  float scale;         // what the others are multiplied by
  uint32_t words[4];
  uint32_t origin;  // the number of the batch's first sample, where the batch is part of a larger one
  uint32_t stride;  // samples from one sequence to the next
};

struct Gradients {
  float *mean, *scale, *input, *bias, *step, *output, *feedthrough, *glu, *glu_bias;
};

// The encoder's weights, padded.
struct Encoder {
  int64_t in, hidden;
  const float* weight;  // in x hidden, the transpose of W
  const float* bias;    // hidden
};

// A piece of work of the scan alone: `lanes` oscillators of one sequence, of which rows of force,
// positions and steps hold `state`. Pointers are at the first of these oscillators.
template <typename T>
struct Scan {
  int64_t time, state, lanes;
  const T* step;         // kStepRows, `step_row` apart, of `state`; or of time x state
  int64_t step_row, step_time;  // from row to row, and from sample to sample: 0 if constant
  const T* force;        // time x state
  const uint8_t* mask;   // time, or null
  T* kept;               // tiles x 2 x state, the state at each tile's start
};

template <typename T>
struct ScanKernels {
  // start, final: state x 2. positions: time x state.
  void (*forward)(const Scan<T>&, const T* start, T* positions, T* final);
  // d_step: like step, added to if constant, set if not.
  void (*backward)(const Scan<T>&, const T* d_positions, const T* d_final, T* d_force, T* d_step,
                   T* d_start);
};

// One instruction set's kernels. Those of the block work on one sequence, and need `workspace`
// floats, aligned to 64 bytes and zero at first; `packed` and sums of gradients likewise.
struct Kernels {
  ScanKernels<float> scan_f32;
  ScanKernels<double> scan_f64;
  // u, out: time x hidden. start, final: state x 2. kept: tiles x 2 x state, the state at each
  // tile's start. mask: time, or null. index: the sequence's place in the batch, for dropout.
  // moments: sums of out minus a shift and of its square, and the shift, as floats. d_out: null for
  // zeros. pull: a, then c (padded), of a + c out, which averages of out add to its gradient.
  void (*forward)(const Sizes&, const void* packed, const Dropout&, int64_t index, const float* u,
                  const uint8_t* mask, const float* start, float* out, float* final, float* kept,
                  double* moments, float* workspace);
  void (*backward)(const Sizes&, const void* packed, const Dropout&, int64_t index,
                   const float* u, const uint8_t* mask, const float* kept, const float* d_out,
                   const float* d_final, const float* pull, float* d_u, float* d_start, Gradients,
                   float* workspace);
  int64_t (*workspace)(const Sizes&);
  int64_t (*packed_size)(const Sizes&);
  void (*pack)(const Sizes&, const Weights&, void* packed);
  // `samples` of u (in) and out (hidden), of one sequence or more. d_weight: hidden x in, padded.
  void (*encode)(const Encoder&, int64_t samples, const float* u, const uint8_t* mask, float* out,
                 double* moments, float* workspace);
  void (*encode_backward)(const Encoder&, int64_t samples, const float* u, const uint8_t* mask,
                          const float* d_out, const float* pull, float* d_weight, float* d_bias,
                          float* workspace);
  int64_t (*encoder_workspace)(const Encoder&);
};

}  // namespace linoss
