// Row-wise optimizers, and the projection of a row onto the ball or the sphere. Only rows with a gradient change.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "simd.hpp"

namespace tastespace {

enum class Optimizer { sgd, adagrad, adam };

struct OptimizerSettings {
  Optimizer optimizer;
  float learning_rate;
  float beta1, beta2;  // Adam
  float epsilon;
};

// State of the optimizer for one matrix of rows; what an optimizer does not need is empty.
struct OptimizerState {
  std::span<float> first;         // Adagrad: sums of squares. Adam: mean gradients.
  std::span<float> second;        // Adam: mean squared gradients
  std::span<std::int32_t> steps;  // Adam: steps taken by each row
};

// Where rows must lie.
enum class Region { unbounded, ball, sphere };

// Project a row into the ball or onto the sphere of this radius.
inline void project(float* row, std::int64_t dim, Region region, float radius) {
  if (region == Region::unbounded) return;
  const float norm = std::sqrt(simd::dot(row, row, dim));
  // The row overflowed. Scaling by radius / infinity would hide that behind zeros.
  if (!(norm <= std::numeric_limits<float>::max())) {
    std::fill_n(row, dim, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  if (region == Region::ball && norm <= radius) return;
  if (norm > 0.0f) simd::scale(row, radius / norm, dim);
}

namespace detail {

// Square roots of all lanes. Compilers do not reliably turn the loop into one instruction.
template <class V>
inline V root(V value) {
#if defined(__x86_64__)
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return (V)_mm512_sqrt_ps((__m512)value);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) return (V)_mm256_sqrt_ps((__m256)value);
#endif
  if constexpr (sizeof(V) == 16) return (V)_mm_sqrt_ps((__m128)value);
#endif
  for (std::size_t i = 0; i < sizeof(V) / sizeof(float); ++i) value[i] = std::sqrt(value[i]);
  return value;
}

// Apply `step(k, V)` to all coordinates, first in wide registers, then one by one.
template <class Step>
inline void for_each_part(std::int64_t dim, Step step) {
  std::int64_t k = 0;
  for (; k + simd::kLanes <= dim; k += simd::kLanes) step(k, simd::Vec{});
  if constexpr (simd::kLanes > 4)
    for (; k + 4 <= dim; k += 4) step(k, simd::Vec4{});
  typedef float One __attribute__((vector_size(sizeof(float))));
  for (; k < dim; ++k) step(k, One{});
}

}  // namespace detail

// One step of the optimizer for row `row` with this gradient.
inline void optimizer_step(float* values, const float* gradient, std::int64_t row, std::int64_t dim,
                           const OptimizerSettings& settings, const OptimizerState& state) {
  using simd::load, simd::store;
  float* x = values + row * dim;
  const float rate = settings.learning_rate, epsilon = settings.epsilon;
  if (settings.optimizer == Optimizer::sgd) {
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      store(x + k, load<V>(x + k) - load<V>(gradient + k) * rate);
    });
  } else if (settings.optimizer == Optimizer::adagrad) {
    float* squares = state.first.data() + row * dim;
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      const V g = load<V>(gradient + k);
      const V total = load<V>(squares + k) + g * g;
      store(squares + k, total);
      store(x + k, load<V>(x + k) - g * rate / (detail::root(total) + epsilon));
    });
  } else {
    float* mean = state.first.data() + row * dim;
    float* square = state.second.data() + row * dim;
    const auto t = static_cast<float>(++state.steps[row]);
    const float b1 = settings.beta1, b2 = settings.beta2;
    const float corrected = rate / (1.0f - std::pow(b1, t));
    const float square_scale = 1.0f / (1.0f - std::pow(b2, t));
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      const V g = load<V>(gradient + k);
      const V m = load<V>(mean + k) * b1 + g * (1.0f - b1);
      const V v = load<V>(square + k) * b2 + g * g * (1.0f - b2);
      store(mean + k, m);
      store(square + k, v);
      store(x + k, load<V>(x + k) - m * corrected / (detail::root(v * square_scale) + epsilon));
    });
  }
}

}  // namespace tastespace
