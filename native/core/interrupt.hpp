// Stopping a kernel before its end, so that Ctrl-C is noticed while it runs.
#pragma once

#include <omp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

namespace tastespace {

// Threads ask `requested` between two pieces of work, each far below a second, and skip the rest of their work once it
// is true. Results then are incomplete, and nothing else is different.
class Interrupt {
 public:
  // `check` tells whether to stop. It is called from the thread that called the kernel only, a few times a second.
  explicit Interrupt(std::function<bool()> check = {}) : check_(std::move(check)) {}

  bool requested() {
    if (requested_.load(std::memory_order_relaxed)) return true;
    if (!check_ || omp_get_thread_num() != 0) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + kInterval;
    if (check_()) requested_.store(true, std::memory_order_relaxed);
    return requested_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{100};
  std::function<bool()> check_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kInterval;
  std::atomic<bool> requested_ = false;
};

}  // namespace tastespace
