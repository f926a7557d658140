// What the recurrences of scan.cpp and diagonal.cpp share: sequences of oscillators or modes in rows, whose
// step is the same for all samples or one for each, and their division among threads.
#pragma once

#include "kernel.h"

namespace linoss {

// Maximum number of oscillators of one sequence that are computed together.
constexpr int64_t kMostLanes = 64;

// `lanes` oscillators of one sequence, in rows of `width`. Pointers are to the first of them.
template <typename T>
struct Part {
  int64_t time, width, lanes;
  const T* step;                // rows, `step_row` apart, of `width` or of time x width
  int64_t step_row, step_time;  // `step_time`: distance between samples, 0 if constant
  const T* input;               // time x width
  const uint8_t* mask;          // time, or null
};

// Functions for both precisions.
template <template <typename> class Kernels>
struct Precisions {
  Kernels<float> single;
  Kernels<double> twice;
  const Kernels<float>& of(float) const { return single; }
  const Kernels<double>& of(double) const { return twice; }
};

}  // namespace linoss

#ifndef LINOSS_ISA

#include "runtime.h"

namespace linoss {

template <typename T>
struct Sequences {
  int64_t batch, time, width, rows, lanes;
  bool varying;
  const T *input, *step;
  const uint8_t* mask;

  // The next arguments: input (batch, time, width), with `parts` numbers for each oscillator; step (rows,
  // width) or (rows, batch, time, width); mask (batch, time) or empty.
  Sequences(Arrays& a, int64_t rows, int64_t parts) : rows(rows) {
    std::tie(batch, time, width) = a.sizes<3>("input");
    lanes = width / parts;
    if (lanes * parts != width) a.refuse("input", "its rows cannot be divided");
    input = a.in<T>("input", {batch, time, width});
    varying = a.rank() == 4;
    step = varying ? a.in<T>("step", {rows, batch, time, width}) : a.in<T>("step", {rows, width});
    mask = a.in_or_null<uint8_t>("mask", {batch, time});
  }
  // The next result, like `step`.
  T* d_step(Arrays& a) const {
    return varying ? a.out<T>("d_step", {rows, batch, time, width})
                   : a.out<T>("d_step", {rows, width});
  }
  // Offset in arrays like the input.
  int64_t at(int64_t i, int64_t first) const { return i * time * width + first; }

  // Calls work(part, i, first) for the groups of oscillators, from `first` on, of each sequence i.
  template <typename Work>
  ffi::Error run(Threads& threads, Work work) const {
    const int64_t group = batch < 16 ? 16 : kMostLanes;  // few sequences: threads share oscillators
    const int64_t groups = (lanes + group - 1) / group;
    return parallel(threads, batch * groups, 0, [&](int64_t number, float*) {
      const int64_t i = number / groups, first = number % groups * group;
      const Part<T> part = {time, width, std::min(group, lanes - first),
                            step + (varying ? at(i, first) : first),
                            varying ? batch * time * width : width, varying ? width : 0,
                            input + at(i, first), mask ? mask + i * time : nullptr};
      work(part, i, first);
    });
  }
  // The same for work(part, i, first, d_step) that writes the gradients of its steps. Those of a constant
  // step are summed over sequences.
  template <typename Work>
  ffi::Error run_back(Threads& threads, T* d_step, Work work) const {
    const int64_t size = varying ? 0 : rows * width;
    Memory<T> sums(batch * size);
    if (!sums.at) return out_of_memory();
    ffi::Error error = run(threads, [&](const Part<T>& part, int64_t i, int64_t first) {
      work(part, i, first, varying ? d_step + at(i, first) : sums.at + i * size + first);
    });
    std::fill_n(d_step, size, T(0));
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t k = 0; k < size; ++k) d_step[k] += sums.at[i * size + k];
    return error;
  }
};

}  // namespace linoss

#endif
