// Definitions for all kernel files: tiles, padded rows, an allocator.
//
// A kernel is one file, say scan.cpp, in three parts:
//
//   1. its arguments as structs, and `Table`, the pointers to its functions;
//   2. under `#ifdef LINOSS_ISA`, the functions: loops over plain pointers, from vector.h,
//      product.h and recurrence.h, and a `Table` of them in namespace LINOSS_ISA;
//   3. under `#else`, what XLA calls, from runtime.h: handlers that check shapes and split the work
//      over threads, and LINOSS_HANDLER, which registers them under a name.
//
// CMake compiles a kernel once for each instruction set, for part 2, and once without, for part 3;
// LINOSS_CHOOSE selects the table for the processor. To add a kernel, write its file and list it in
// CMakeLists.txt; Python calls it with `kernels.call(name, results, *arguments)`.
//
// In part 2, and in headers that it includes, every function is in an unnamed namespace, and only C
// functions of the standard library are used. The linker keeps one copy of an inline function with
// external linkage, which might use instructions that the processor does not have.
#pragma once

#include <cstdint>
#include <cstring>

namespace linoss {

// Time steps of a tile, which fits in a core's cache. The state at the start of each tile is stored for
// the backward pass.
constexpr int64_t kTile = 64;

// Rows in the kernels' memory are padded with zeros to a multiple of this, so that loops over them
// have no tails.
constexpr int64_t kPad = 16;

// One step of each oscillator, [z, y] <- M [z, y] + F b: rows zz, zy, yz, yy, fz, fy.
constexpr int kStepRows = 6;

// Values of a mask: the sample is present; or it is missing, and states advance without forcing. If it
// is 0, the sample is missing or padding, and states do not change.
constexpr uint8_t kThere = 1, kSilent = 2;

namespace {

inline bool is_there(const uint8_t* mask, int64_t n) { return !mask || mask[n] == kThere; }
inline bool is_silent(const uint8_t* mask, int64_t n) { return mask && mask[n] == kSilent; }

constexpr int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }
constexpr int64_t tiles(int64_t time) { return (time + kTile - 1) / kTile; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Allocates parts of an array of floats; if `at` is null, it only counts them.
struct Parts {
  float* at;
  int64_t size = 0;
  float* take(int64_t n) {
    size += n;
    return at ? at + size - n : nullptr;
  }
};

// Copies rows of `width` with distance `from_row` to rows with distance `to_row`.
inline void copy_rows(int64_t rows, int64_t width, const float* from, int64_t from_row, float* to,
                      int64_t to_row) {
  if (width == from_row && width == to_row)
    std::memcpy(to, from, rows * width * 4);
  else
    for (int64_t n = 0; n < rows; ++n) std::memcpy(to + n * to_row, from + n * from_row, width * 4);
}
// From rows without padding, and back.
inline void take_rows(int64_t rows, int64_t width, const float* from, float* to, int64_t to_row) {
  copy_rows(rows, width, from, width, to, to_row);
}
inline void give_rows(int64_t rows, int64_t width, const float* from, int64_t from_row, float* to) {
  copy_rows(rows, width, from, from_row, to, width);
}

}  // namespace
}  // namespace linoss
