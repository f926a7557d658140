// Support for the handlers of kernels: selection of the instruction set, registration, checks, memory
// and threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernel.h"
#include "xla/ffi/api/ffi.h"

namespace nanobind { class module_; }

namespace linoss {

namespace ffi = xla::ffi;

// ---- Instruction sets ----

// LINOSS_CHOOSE(Table, name) declares the table of each instruction set, and the function `name`, which
// returns the one for this processor. LINOSS_CHOOSE_HALF is for kernels with products of half.h.
#ifdef LINOSS_PORTABLE
#define LINOSS_CHOOSE(Table, name)             \
  namespace portable { extern const Table name; } \
  static const Table& name() { return portable::name; }
#define LINOSS_CHOOSE_HALF LINOSS_CHOOSE
#else
// Level 1 to 4 of x86-64, or 5 for level 4 with AVX512-BF16.
int level();
#define LINOSS_BY_LEVEL(Table, name, choose)      \
  namespace portable { extern const Table name; } \
  namespace v2 { extern const Table name; }       \
  namespace v3 { extern const Table name; }       \
  namespace v4 { extern const Table name; }       \
  static const Table& name() {                    \
    const int n = level();                        \
    return choose n >= 4 ? v4::name : n == 3 ? v3::name : n == 2 ? v2::name : portable::name; \
  }
#define LINOSS_CHOOSE(Table, name) LINOSS_BY_LEVEL(Table, name, )
#define LINOSS_CHOOSE_HALF(Table, name)          \
  namespace v4_bf16 { extern const Table name; } \
  LINOSS_BY_LEVEL(Table, name, n == 5 ? v4_bf16::name :)
#endif

// ---- Handlers ----

// A handler's first parameter: XLA's threads. Functions that Python calls without XLA have their own
// threads, which end with this object.
class Threads {
 public:
  Threads(ffi::ThreadPool pool) : pool_(pool), count_(pool.num_threads()) {}
  explicit Threads(int64_t count) : count_(count) {}
  ~Threads() {
    for (std::thread& thread : own_) thread.join();
  }
  Threads(Threads&&) = default;
  int64_t count() const { return count_; }
  void start(std::function<void()> work);

 private:
  std::optional<ffi::ThreadPool> pool_;
  int64_t count_;
  std::vector<std::thread> own_;
};

// Registers a handler (Threads&, Arrays&) under a name. Attributes follow as .Attr<type>("name"), here and
// in its parameters.
struct Target {
  Target(const char* name, XLA_FFI_Handler* handler);
};
#define LINOSS_HANDLER(name, function, ...)                                               \
  XLA_FFI_DEFINE_HANDLER_EXPLICIT(handle_##name, ::linoss::with_arrays(function),         \
                                  ffi::Ffi::Bind()                                        \
                                      .Ctx<ffi::ThreadPool>()                             \
                                      .RemainingArgs()                                    \
                                      .RemainingRets() __VA_ARGS__);                      \
  static const Target target_##name(#name, handle_##name)

// Adds the Python definitions of a kernel file to the module: LINOSS_MODULE([](nb::module_& m) {...});
struct Module {
  Module(void (*define)(nanobind::module_&));
};
#define LINOSS_MODULE(...) static const Module module_part(__VA_ARGS__)

// The arguments and results of a handler, in order, each checked where its name is given.
class Arrays {
 public:
  using Sizes = std::initializer_list<int64_t>;
  Arrays(ffi::RemainingArgs arguments, ffi::RemainingRets results)
      : arguments_(arguments), results_(results) {}

  // The sizes of the next argument, which must have that many dimensions; zeros if it has not. Only the
  // first may be 0, the batch.
  template <size_t kRank>
  auto sizes(const char* name) {
    std::array<int64_t, kRank> found = {};
    const auto next = arguments_.get<ffi::AnyBuffer>(argument_);
    if (!next) return refuse(name, "missing"), std::tuple_cat(found);
    const auto shape = next->dimensions();
    bool good = shape.size() == kRank;
    for (size_t k = 0; k < shape.size(); ++k)
      good &= shape[k] >= (k > 0) && shape[k] <= std::numeric_limits<int32_t>::max();
    if (good) std::copy(shape.begin(), shape.end(), found.begin());
    else refuse(name, written(shape) + ", expected " + std::to_string(kRank) + " sizes above 0");
    return std::tuple_cat(found);
  }
  // The number of dimensions of the argument `ahead` of the next one.
  size_t rank(size_t ahead = 0) const {
    const auto next = arguments_.get<ffi::AnyBuffer>(argument_ + ahead);
    return next ? next->dimensions().size() : 0;
  }
  // The next argument, of that shape.
  template <typename T>
  const T* in(const char* name, Sizes expected) {
    auto next = arguments_.get<ffi::AnyBuffer>(argument_++);
    return next ? typed<T>(name, *next, expected) : (refuse(name, "missing"), nullptr);
  }
  // The same, or null if it is empty.
  template <typename T>
  const T* in_or_null(const char* name, Sizes expected) {
    const auto next = arguments_.get<ffi::AnyBuffer>(argument_);
    if (next && next->element_count() == 0) return ++argument_, nullptr;
    return in<T>(name, expected);
  }
  // The next result, of that shape, or null if it is not wanted.
  template <typename T>
  T* out_if(bool wanted, const char* name, Sizes expected) {
    if (wanted) return out<T>(name, expected);
    return ++result_, nullptr;
  }
  // The next result, of that shape.
  template <typename T>
  T* out(const char* name, Sizes expected) {
    auto next = results_.get<ffi::AnyBuffer>(result_++);
    return next ? typed<T>(name, **next, expected) : (refuse(name, "missing"), nullptr);
  }

  void refuse(const std::string& name, const std::string& why) {
    if (wrong_.empty()) wrong_ = "linoss: wrong " + name + ": " + why;
  }
  // Whether any was wrong, or some were not asked for.
  bool wrong() {
    if (argument_ != arguments_.size() || result_ != results_.size())
      refuse("number of arrays", std::to_string(arguments_.size() + results_.size()));
    return !wrong_.empty();
  }
  // Whether any was wrong so far.
  bool refused() const { return !wrong_.empty(); }
  ffi::Error error() const { return ffi::Error(ffi::ErrorCode::kInvalidArgument, wrong_); }

 private:
  template <typename T>
  static constexpr ffi::DataType kType = std::is_same_v<T, float>    ? ffi::F32
                                         : std::is_same_v<T, double> ? ffi::F64
                                         : std::is_same_v<T, uint8_t> ? ffi::U8
                                                                      : ffi::U32;
  template <typename T>
  T* typed(const char* name, const ffi::AnyBuffer& buffer, Sizes expected) {
    const auto shape = buffer.dimensions();
    if (buffer.element_type() != kType<T>)
      refuse(name, "its type");
    else if (!std::equal(shape.begin(), shape.end(), expected.begin(), expected.end()))
      refuse(name, written(shape) + ", expected " + written(expected));
    return static_cast<T*>(buffer.untyped_data());
  }
  template <typename Shape>
  static std::string written(const Shape& shape) {
    std::string text = "(";
    for (int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
    return text + ")";
  }

  ffi::RemainingArgs arguments_;
  ffi::RemainingRets results_;
  size_t argument_ = 0, result_ = 0;
  std::string wrong_;
};

// What XLA calls for a handler (Threads&, Arrays&, attributes...).
template <typename... Attributes>
auto with_arrays(ffi::Error (*run)(Threads&, Arrays&, Attributes...)) {
  return [run](ffi::ThreadPool pool, ffi::RemainingArgs arguments, ffi::RemainingRets results,
               Attributes... attributes) {
    Threads threads(pool);
    Arrays arrays(arguments, results);
    return run(threads, arrays, attributes...);
  };
}

inline ffi::Error out_of_memory() {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "linoss: out of memory");
}

// ---- Memory and threads ----

// Zero-initialised memory, aligned for vectors; `at` is null if the allocation failed.
template <typename T>
class Memory {
 public:
  explicit Memory(int64_t size)
      : at(static_cast<T*>(std::aligned_alloc(64, (size * sizeof(T) + 127) / 64 * 64))),
        bytes_(size * sizeof(T)) {
    clear();
  }
  ~Memory() { std::free(at); }
  Memory(const Memory&) = delete;
  void clear() { if (at) std::memset(at, 0, bytes_); }
  T* at;

 private:
  int64_t bytes_;
};

// Requests large pages for a buffer that will be written completely: its memory is often new, and a
// page fault for every 4 KiB would cost as much as the writes.
void on_large_pages(void* data, size_t bytes);
template <typename T>
void on_large_pages(T* data, int64_t size) {
  on_large_pages(static_cast<void*>(data), size * sizeof(T));
}

// Runs work(i, memory) for i = 0 ... count - 1 on XLA's threads and on this one, and returns when all
// are done. Threads take work in order. `memory` is `floats` floats of a thread, zero before its first
// work. The assignment to threads must not matter: work and order of sums depend on shapes only, so
// that results are bitwise identical for any number of threads.
ffi::Error parallel(Threads& threads, int64_t count, int64_t floats,
                    const std::function<void(int64_t, float*)>& work);

// The same for work that adds to `size` sums, work(i, memory, sums). Each of at most kGroups groups of
// work has its own sums; at the end the first `size` of `sums`, initially zero, hold the total.
constexpr int64_t kGroups = 16;
inline int64_t groups_of(int64_t count) { return std::clamp<int64_t>(count, 1, kGroups); }
ffi::Error parallel_sums(Threads& threads, int64_t count, int64_t floats, int64_t size, float* sums,
                         const std::function<void(int64_t, float*, float*)>& work);

// Orders work across threads: wait(n) returns when n turns have passed. Work may only wait for work
// that comes before it in the order in which `parallel` distributes work.
class Turns {
 public:
  void wait(int64_t turn) const {
    if (passed_.load(std::memory_order_acquire) < turn) wait_long(turn);
  }
  void pass() { passed_.fetch_add(1, std::memory_order_release); }

 private:
  void wait_long(int64_t turn) const;
  std::atomic<int64_t> passed_{0};
};

// Runs work(i, n, memory) for n = 0 ... steps - 1 of each of `count` sequences. The steps of a sequence
// are in order, but may be in several threads: if threads would be idle, the next step starts
// concurrently and waits for its turns.
ffi::Error parallel_steps(Threads& threads, int64_t count, int64_t steps, int64_t floats,
                          const std::function<void(int64_t, int64_t, float*)>& work);

// Sums for such work. Each of at most kGroups sequences, and each of kLanes steps of few sequences,
// adds to its own `size` sums in turn; later ones share them. total() is the sum of all.
class StepSums {
 public:
  static constexpr int64_t kLanes = 8;
  StepSums(int64_t count, int64_t steps, int64_t size)
      : groups_(groups_of(count)), lanes_(std::max<int64_t>(kLanes / groups_, 1)), steps_(steps),
        size_(size), turns_(new Turns[groups_ * lanes_]), sums_(groups_ * lanes_ * size) {}
  bool failed() const { return !sums_.at; }

  // Adds step n of sequence i: add(sums).
  template <typename Add>
  void turn(int64_t i, int64_t n, Add add) {
    const int64_t lane = i % groups_ * lanes_ + n % lanes_;
    turns_[lane].wait(i / groups_ * steps_ + n / lanes_);  // with several groups, each has one lane
    add(sums_.at + lane * size_);
    turns_[lane].pass();
  }
  // The total, after all additions.
  float* total() {
    for (int64_t lane = 1; lane < groups_ * lanes_; ++lane)
      for (int64_t k = 0; k < size_; ++k) sums_.at[k] += sums_.at[lane * size_ + k];
    lanes_ = groups_ = 1;
    return sums_.at;
  }

 private:
  int64_t groups_, lanes_, steps_, size_;
  std::unique_ptr<Turns[]> turns_;
  Memory<float> sums_;
};

}  // namespace linoss
