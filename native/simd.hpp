// Short loops over the coordinates of vectors, in the widest registers of the twin at hand.
//
// Each result is a fixed sequence of operations: the same bits for every number of threads.
#pragma once

#include <cstdint>
#include <cstring>

namespace tastespace::simd {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
typedef float Vec4 __attribute__((vector_size(4 * sizeof(float))));

template <class V>
inline V load(const float* from) {
  V out;
  std::memcpy(&out, from, sizeof(V));
  return out;
}

template <class V>
inline void store(float* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

template <class V>
inline float sum(V value) {
  constexpr int n = sizeof(V) / sizeof(float);
  float lanes[n];
  std::memcpy(lanes, &value, sizeof(V));
  for (int width = n / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

// |a - b|^2
inline float squared_distance(const float* a, const float* b, std::int64_t dim) {
  Vec wide{};
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) {
    const Vec difference = load<Vec>(a + k) - load<Vec>(b + k);
    wide += difference * difference;
  }
  float total = sum(wide);
  if constexpr (kLanes > 4) {
    Vec4 narrow{};
    for (; k + 4 <= dim; k += 4) {
      const Vec4 difference = load<Vec4>(a + k) - load<Vec4>(b + k);
      narrow += difference * difference;
    }
    total += sum(narrow);
  }
  for (; k < dim; ++k) total += (a[k] - b[k]) * (a[k] - b[k]);
  return total;
}

inline float dot(const float* a, const float* b, std::int64_t dim) {
  Vec wide{};
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) wide += load<Vec>(a + k) * load<Vec>(b + k);
  float total = sum(wide);
  for (; k < dim; ++k) total += a[k] * b[k];
  return total;
}

// to += scale * (a - b)
inline void add_difference(float* to, float scale, const float* a, const float* b, std::int64_t dim) {
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes)
    store(to + k, load<Vec>(to + k) + (load<Vec>(a + k) - load<Vec>(b + k)) * scale);
  for (; k < dim; ++k) to[k] += scale * (a[k] - b[k]);
}

inline void scale(float* a, float factor, std::int64_t dim) {
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) store(a + k, load<Vec>(a + k) * factor);
  for (; k < dim; ++k) a[k] *= factor;
}

}  // namespace tastespace::simd
