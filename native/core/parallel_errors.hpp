// Exceptions inside parallel regions: one that left the region would end the process.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

namespace tastespace {

// Runs parts of a parallel region. The first exception is kept, the parts that follow are left out, and `rethrow`, called
// after the region, throws what was kept.
//
// What a thread needs for its parts is made in a `run` as well: a part is left out where that failed.
class ParallelErrors {
 public:
  template <class Part>
  void run(Part&& part) noexcept {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      std::forward<Part>(part)();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  void rethrow() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace tastespace
