// Short loops over the coordinates of vectors, in the widest registers of the SIMD variant being compiled.
//
// Each result is a fixed sequence of operations: the same bits for every number of threads.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
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

// The first n < kLanes values; the other lanes are 0.
inline Vec load_first(const float* from, std::int64_t n) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), from);
#elif defined(__AVX2__)
  static constexpr std::int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return (Vec)_mm256_maskload_ps(from, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 8 - n)));
#else
  Vec out{};
  for (std::int64_t k = 0; k < n; ++k) out[k] = from[k];
  return out;
#endif
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

namespace detail {

// Sums of the lanes of four registers, each in the order of sum_of_four(fold_to_four(...)).
inline Vec4 sums_of_four(const Vec* wide) {
#if defined(__AVX512F__)
  const auto halves = [](Vec a, Vec b) {  // [a's two halves added, b's two halves added]
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  };
  const Vec ab = halves(wide[0], wide[1]), cd = halves(wide[2], wide[3]);
  Vec four = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
             __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  four += __builtin_shufflevector(four, four, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  four += __builtin_shufflevector(four, four, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  return __builtin_shufflevector(four, four, 0, 4, 8, 12);
#else
  const Vec4 a = fold_to_four(wide[0]), b = fold_to_four(wide[1]), c = fold_to_four(wide[2]), d = fold_to_four(wide[3]);
  const Vec4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vec4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#endif
}

}  // namespace detail

// |x_n - v_m|^2 for N vectors that follow each other in memory and M items anywhere: out[m * N + n]. Each coordinate
// is read once for all of them. Each result is the same sum whatever the others are.
template <int N, int M>
inline void squared_distances(const float* x, const float* const* v, std::int64_t dim, float* out) {
  constexpr int kSums = (N * M + 3) / 4 * 4;
  Vec wide[kSums];
#pragma GCC unroll 32
  for (int i = 0; i < kSums; ++i) wide[i] = Vec{};  // an initializer would go through memory
  const auto add = [&](const auto& load_at) {  // the lanes that load_at gives
    Vec item[M];
    for (int m = 0; m < M; ++m) item[m] = load_at(v[m]);
    for (int n = 0; n < N; ++n) {
      const Vec own = load_at(x + n * dim);
      for (int m = 0; m < M; ++m) {
        const Vec difference = own - item[m];
        wide[m * N + n] += difference * difference;
      }
    }
  };
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) add([k](const float* row) { return load<Vec>(row + k); });
  if (k < dim) add([k, dim](const float* row) { return load_first(row + k, dim - k); });
  float sums[kSums];
  for (int i = 0; i < kSums; i += 4) store(sums + i, detail::sums_of_four(wide + i));
  std::copy_n(sums, N * M, out);
}

// The same for one item and any number of vectors.
inline void squared_distances(const float* x, std::int64_t n, const float* v, std::int64_t dim, float* out) {
  for (; n >= 4; n -= 4, x += 4 * dim, out += 4) squared_distances<4, 1>(x, &v, dim, out);
  switch (n) {
    case 3: return squared_distances<3, 1>(x, &v, dim, out);
    case 2: return squared_distances<2, 1>(x, &v, dim, out);
    case 1: return squared_distances<1, 1>(x, &v, dim, out);
    default: return;
  }
}

// |a - b|^2
inline float squared_distance(const float* a, const float* b, std::int64_t dim) {
  float out;
  squared_distances<1, 1>(a, &b, dim, &out);
  return out;
}

// Apply `step(k, V)` to all coordinates, first in wide registers, then one by one.
template <class Step>
inline void for_each_part(std::int64_t dim, Step step) {
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) step(k, Vec{});
  if constexpr (kLanes > 4)
    for (; k + 4 <= dim; k += 4) step(k, Vec4{});
  typedef float One __attribute__((vector_size(sizeof(float))));
  for (; k < dim; ++k) step(k, One{});
}

// The sum of what `step(k, V)` gives for all coordinates.
template <class Step>
inline float sum_of_parts(std::int64_t dim, Step step) {
  Vec wide{};
  std::int64_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) wide += step(k, Vec{});
  Vec4 four = fold_to_four(wide);
  if constexpr (kLanes > 4)
    for (; k + 4 <= dim; k += 4) four += step(k, Vec4{});
  float total = sum_of_four(four);
  typedef float One __attribute__((vector_size(sizeof(float))));
  for (; k < dim; ++k) total += step(k, One{})[0];
  return total;
}

inline float dot(const float* a, const float* b, std::int64_t dim) {
  return sum_of_parts(dim, [=]<class V>(std::int64_t k, V) { return load<V>(a + k) * load<V>(b + k); });
}

// to += scale * (a - b)
inline void add_difference(float* to, float scale, const float* a, const float* b, std::int64_t dim) {
  for_each_part(dim, [=]<class V>(std::int64_t k, V) {
    store(to + k, load<V>(to + k) + (load<V>(a + k) - load<V>(b + k)) * scale);
  });
}

// to = scale * (a - b)
inline void difference(float* to, float scale, const float* a, const float* b, std::int64_t dim) {
  for_each_part(dim,
                [=]<class V>(std::int64_t k, V) { store(to + k, (load<V>(a + k) - load<V>(b + k)) * scale); });
}

// exp(x) for x <= 0 to about 2e-7 of its value: Cephes' polynomial, as in most math libraries.
inline Vec exp_of_nonpositive(Vec x) {
  typedef std::int32_t Ints __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const Vec least = Vec{} - 87.0f;
  x = x > least ? x : least;
  const Vec shifted = x * 1.44269504f + kRound, whole = shifted - kRound;
  const Vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec y = r * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.0f;
  Ints bits, power;
  std::memcpy(&bits, &shifted, sizeof bits);
  power = (bits + (127 - 0x4b400000)) << 23;  // 0x4b400000: the bits of kRound
  Vec scale;
  std::memcpy(&scale, &power, sizeof scale);
  return y * scale;
}

// Prefetch a row: rows are read in random order, which the hardware prefetcher cannot predict.
inline void prefetch(const float* row, std::int64_t n) {
  for (std::int64_t k = 0; k < n; k += 16) __builtin_prefetch(row + k);
}

inline void scale(float* a, float factor, std::int64_t dim) {
  for_each_part(dim, [=]<class V>(std::int64_t k, V) { store(a + k, load<V>(a + k) * factor); });
}

}  // namespace tastespace::simd
