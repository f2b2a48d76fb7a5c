// Arrays that begin at a cache line: registers of a whole line are then read and written without crossing two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace tastespace {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace tastespace
