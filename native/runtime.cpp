// The Python module: the instruction set, the targets, and the threads that run them.

#include "runtime.h"

#include <nanobind/nanobind.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linoss {

#ifdef LINOSS_PORTABLE
const char* instruction_set() { return "portable"; }
#else
// The level of the processor; LINOSS_NATIVE_LEVEL (1 to 4) selects a lower one. Level 1 is the portable
// build: what every processor has.
int level() {
  static const int chosen = [] {
    int best = __builtin_cpu_supports("x86-64-v4") ? 4 + !!__builtin_cpu_supports("avx512bf16")
               : __builtin_cpu_supports("x86-64-v3") ? 3
               : __builtin_cpu_supports("x86-64-v2") ? 2
                                                     : 1;
    const char* lower = std::getenv("LINOSS_NATIVE_LEVEL");
    if (lower && *lower >= '1' && *lower <= '4') best = std::min(best, *lower - '0');
    return best;
  }();
  return chosen;
}

const char* instruction_set() {
  static const char* const names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4",
                                      "x86-64-v4, AVX512-BF16"};
  return names[level() - 1];
}
#endif

std::vector<std::pair<const char*, XLA_FFI_Handler*>>& targets() {
  static std::vector<std::pair<const char*, XLA_FFI_Handler*>> known;
  return known;
}

Target::Target(const char* name, XLA_FFI_Handler* handler) { targets().emplace_back(name, handler); }

std::vector<void (*)(nb::module_&)>& module_parts() {
  static std::vector<void (*)(nb::module_&)> known;
  return known;
}

Module::Module(void (*define)(nb::module_&)) { module_parts().push_back(define); }

void Threads::start(std::function<void()> work) {
  if (pool_)
    pool_->Schedule(std::move(work));
  else
    try {
      own_.emplace_back(std::move(work));
    } catch (const std::system_error&) {  // no more threads: the others do the work
    }
}

void on_large_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t kLarge = 1 << 21;
  const uintptr_t from = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (from + kLarge - 1) / kLarge * kLarge;
  const uintptr_t last = (from + bytes) / kLarge * kLarge;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// This thread takes work like the others, so that a busy pool delays it but never blocks it.
ffi::Error parallel(Threads& threads, int64_t count, int64_t floats,
                    const std::function<void(int64_t, float*)>& work) {
  struct Shared {
    std::atomic<int64_t> next{0};
    int64_t done = 0;
    std::mutex mutex;
    std::condition_variable all_done;
  };
  auto shared = std::make_shared<Shared>();
  auto run = [shared, count, &work](Memory<float>& memory) {
    int64_t finished = 0;
    for (int64_t i; (i = shared->next.fetch_add(1)) < count; ++finished)
      work(i, memory.at);  // `work` is only used while some of it is left
    if (finished) {
      std::lock_guard<std::mutex> lock(shared->mutex);
      if ((shared->done += finished) == count) shared->all_done.notify_all();
    }
  };
  auto help = [shared, count, floats, run] {
    if (shared->next >= count) return;
    Memory<float> memory(floats);
    if (memory.at) run(memory);
  };
  Memory<float> memory(floats);
  if (!memory.at) return out_of_memory();
  const int64_t helpers = std::min<int64_t>(count, threads.count()) - 1;
  for (int64_t i = 0; i < helpers; ++i) threads.start(help);
  run(memory);
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->all_done.wait(lock, [&] { return shared->done == count; });
  return ffi::Error::Success();
}

ffi::Error parallel_sums(Threads& threads, int64_t count, int64_t floats, int64_t size, float* sums,
                         const std::function<void(int64_t, float*, float*)>& work) {
  const int64_t groups = groups_of(count);
  ffi::Error error = parallel(threads, groups, floats, [&](int64_t group, float* memory) {
    for (int64_t i = group; i < count; i += groups) work(i, memory, sums + group * size);
  });
  for (int64_t group = 1; group < groups; ++group)
    for (int64_t k = 0; k < size; ++k) sums[k] += sums[group * size + k];
  return error;
}

void Turns::wait_long(int64_t turn) const {
  for (int tries = 0; passed_.load(std::memory_order_acquire) < turn; ++tries)
    if (tries > 1000) std::this_thread::yield();
}

ffi::Error parallel_steps(Threads& threads, int64_t count, int64_t steps, int64_t floats,
                          const std::function<void(int64_t, int64_t, float*)>& work) {
  const int64_t workers = std::max<int64_t>(threads.count(), 1);
  // Whole sequences keep all threads busy, or share their sums in turn.
  if (count % workers == 0 || count >= 4 * workers || count > kGroups)
    return parallel(threads, count, floats, [&](int64_t i, float* memory) {
      for (int64_t n = 0; n < steps; ++n) work(i, n, memory);
    });
  return parallel(threads, count * steps, floats, [&](int64_t k, float* memory) {
    work(k % count, k / count, memory);
  });
}

}  // namespace linoss

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // objects may live as long as the interpreter
  m.def("instruction_set", &linoss::instruction_set);
  m.attr("tile") = linoss::kTile;
  m.def("handlers", [] {
    nb::dict handlers;
    for (auto [name, handler] : linoss::targets())
      handlers[name] = nb::capsule(reinterpret_cast<void*>(handler));
    return handlers;
  });
  for (auto define : linoss::module_parts()) define(m);
}
