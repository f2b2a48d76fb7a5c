// Short loops over the coordinates of vectors, in the widest registers of the SIMD variant being compiled.
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

// Sums of the lanes by halves: (0 + 8) + (4 + 12) ..., the same order in every build of a SIMD variant.
inline Vec4 fold_to_four(Vec value) {
#if defined(__AVX512F__)
  typedef float Vec8 __attribute__((vector_size(8 * sizeof(float))));
  const Vec8 eight = __builtin_shufflevector(value, value, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#elif defined(__AVX2__)
  return __builtin_shufflevector(value, value, 0, 1, 2, 3) + __builtin_shufflevector(value, value, 4, 5, 6, 7);
#else
  return value;
#endif
}

inline float sum_of_four(Vec4 value) { return (value[0] + value[2]) + (value[1] + value[3]); }

// |x_n - v|^2 for N vectors that follow each other in memory; v is read once for all of them.
template <int N>
inline void squared_distances(const float* x, const float* v, std::int64_t dim, float* out) {
  Vec wide[N] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) {
    const Vec item = load<Vec>(v + k);
    for (int n = 0; n < N; ++n) {
      const Vec difference = load<Vec>(x + n * dim + k) - item;
      wide[n] += difference * difference;
    }
  }
  Vec4 four[N];
  for (int n = 0; n < N; ++n) four[n] = fold_to_four(wide[n]);
  if constexpr (kLanes > 4)
    for (; k + 4 <= dim; k += 4) {
      const Vec4 item = load<Vec4>(v + k);
      for (int n = 0; n < N; ++n) {
        const Vec4 difference = load<Vec4>(x + n * dim + k) - item;
        four[n] += difference * difference;
      }
    }
  for (int n = 0; n < N; ++n) {
    float total = sum_of_four(four[n]);
    for (std::int64_t rest = k; rest < dim; ++rest) {
      const float difference = x[n * dim + rest] - v[rest];
      total += difference * difference;
    }
    out[n] = total;
  }
}

// The same for any number of vectors. Each result is the same sum whatever the others are.
inline void squared_distances(const float* x, std::int64_t n, const float* v, std::int64_t dim, float* out) {
  for (; n >= 4; n -= 4, x += 4 * dim, out += 4) squared_distances<4>(x, v, dim, out);
  switch (n) {
    case 3: return squared_distances<3>(x, v, dim, out);
    case 2: return squared_distances<2>(x, v, dim, out);
    case 1: return squared_distances<1>(x, v, dim, out);
    default: return;
  }
}

// |a - b|^2
inline float squared_distance(const float* a, const float* b, std::int64_t dim) {
  float out;
  squared_distances<1>(a, b, dim, &out);
  return out;
}

inline float dot(const float* a, const float* b, std::int64_t dim) {
  Vec wide{};
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) wide += load<Vec>(a + k) * load<Vec>(b + k);
  float total = sum_of_four(fold_to_four(wide));
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

// to = scale * (a - b)
inline void difference(float* to, float scale, const float* a, const float* b, std::int64_t dim) {
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) store(to + k, (load<Vec>(a + k) - load<Vec>(b + k)) * scale);
  for (; k < dim; ++k) to[k] = scale * (a[k] - b[k]);
}

// Prefetch a row: rows are read in random order, which the hardware prefetcher cannot predict.
inline void prefetch(const float* row, std::int64_t n) {
  for (std::int64_t k = 0; k < n; k += 16) __builtin_prefetch(row + k);
}

inline void scale(float* a, float factor, std::int64_t dim) {
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) store(a + k, load<Vec>(a + k) * factor);
  for (; k < dim; ++k) a[k] *= factor;
}

}  // namespace tastespace::simd
