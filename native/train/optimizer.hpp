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
#include <type_traits>

#include "core/simd.hpp"

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

// Project a row with this squared norm into the ball or onto the sphere of this radius.
inline void project(float* row, float squared_norm, std::int64_t dim, Region region, float radius) {
  if (region == Region::unbounded) return;
  const float norm = std::sqrt(squared_norm);
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

}  // namespace detail

// One step of the optimizer for row `row`. `gradient(k, V)` gives the coordinates of the gradient from k on, as many as
// V has. Returns the squared norm of the row after the step.
template <class Gradient>
  requires(!std::is_pointer_v<Gradient>)
inline float optimizer_step(float* values, Gradient gradient, std::int64_t row, std::int64_t dim,
                            const OptimizerSettings& settings, const OptimizerState& state) {
  using simd::load, simd::store;
  float* x = values + row * dim;
  const float rate = settings.learning_rate, epsilon = settings.epsilon;
  const auto replace = [x]<class V>(std::int64_t k, V updated) {
    store(x + k, updated);
    return updated * updated;
  };
  if (settings.optimizer == Optimizer::sgd)
    return simd::sum_of_parts(
        dim, [&]<class V>(std::int64_t k, V) { return replace(k, load<V>(x + k) - gradient(k, V{}) * rate); });
  if (settings.optimizer == Optimizer::adagrad) {
    float* squares = state.first.data() + row * dim;
    return simd::sum_of_parts(dim, [&]<class V>(std::int64_t k, V) {
      const V g = gradient(k, V{});
      const V total = load<V>(squares + k) + g * g;
      store(squares + k, total);
      return replace(k, load<V>(x + k) - g * rate / (detail::root(total) + epsilon));
    });
  }
  float* mean = state.first.data() + row * dim;
  float* square = state.second.data() + row * dim;
  const auto t = static_cast<float>(++state.steps[row]);
  const float b1 = settings.beta1, b2 = settings.beta2;
  const float corrected = rate / (1.0f - std::pow(b1, t));
  const float square_scale = 1.0f / (1.0f - std::pow(b2, t));
  return simd::sum_of_parts(dim, [&]<class V>(std::int64_t k, V) {
    const V g = gradient(k, V{});
    const V m = load<V>(mean + k) * b1 + g * (1.0f - b1);
    const V v = load<V>(square + k) * b2 + g * g * (1.0f - b2);
    store(mean + k, m);
    store(square + k, v);
    return replace(k, load<V>(x + k) - m * corrected / (detail::root(v * square_scale) + epsilon));
  });
}

// The same with a gradient in memory.
inline float optimizer_step(float* values, const float* gradient, std::int64_t row, std::int64_t dim,
                            const OptimizerSettings& settings, const OptimizerState& state) {
  const auto part = [gradient]<class V>(std::int64_t k, V) { return simd::load<V>(gradient + k); };
  return optimizer_step(values, part, row, dim, settings, state);
}

}  // namespace tastespace
