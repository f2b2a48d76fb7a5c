// Mean and standard deviation of a row of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tastespace {

struct Moments {
  double mean, deviation;

  bool is_finite() const { return std::isfinite(mean) && std::isfinite(deviation); }
};

// In double precision and from the first score on, so that large scores with small differences lose no digits.
inline Moments moments_of(const float* row, std::int64_t n) {
  constexpr std::int64_t kSums = 16;  // partial sums side by side, which the compiler keeps in registers
  double sums[kSums] = {}, squares[kSums] = {};
  const double origin = row[0];
  std::int64_t k = 0;
  for (; k + kSums <= n; k += kSums)
    for (std::int64_t lane = 0; lane < kSums; ++lane) {
      const double value = row[k + lane] - origin;
      sums[lane] += value;
      squares[lane] += value * value;
    }
  for (; k < n; ++k) {
    const double value = row[k] - origin;
    sums[0] += value;
    squares[0] += value * value;
  }
  double sum = 0.0, square = 0.0;
  for (std::int64_t lane = 0; lane < kSums; ++lane) sum += sums[lane], square += squares[lane];
  const double mean = sum / static_cast<double>(n);
  const double variance = square / static_cast<double>(n) - mean * mean;
  return {origin + mean, std::isnan(variance) ? variance : std::sqrt(std::max(variance, 0.0))};
}

}  // namespace tastespace
