#include "lists/past_reasons.hpp"

#include <limits>

#include "core/simd.hpp"

namespace tastespace {

namespace {

// Put a value in its place among the k best; of equal ones the first stays in front.
void insert(std::span<std::int32_t> items, std::span<float> values, std::int32_t item, float value) {
  std::size_t at = values.size();
  while (at > 0 && value > values[at - 1]) --at;
  if (at == values.size()) return;
  for (std::size_t i = values.size() - 1; i > at; --i) {
    values[i] = values[i - 1];
    items[i] = items[i - 1];
  }
  values[at] = value;
  items[at] = item;
}

constexpr int kAtOnce = 8;  // past items that an item is compared with in one go

}  // namespace

PastReasons past_reasons(std::span<const float> vectors, std::int64_t dim, bool by_distance,
                         std::span<const std::int64_t> offsets, std::span<const std::int32_t> past,
                         std::span<const std::int32_t> users, std::span<const std::int32_t> listed, std::int64_t k) {
  const std::size_t n = listed.size(), width = static_cast<std::size_t>(k);
  PastReasons out{std::vector<std::int32_t>(n * width, -1),
                  std::vector<float>(n * width, -std::numeric_limits<float>::infinity())};
  for (std::size_t i = 0; i < n; ++i) {
    const float* item = vectors.data() + listed[i] * dim;
    const std::span<std::int32_t> items(out.items.data() + i * width, width);
    const std::span<float> values(out.closeness.data() + i * width, width);
    std::int64_t at = offsets[users[i]];
    for (; by_distance && at + kAtOnce <= offsets[users[i] + 1]; at += kAtOnce) {
      const float* others[kAtOnce];
      float distances[kAtOnce];
      for (int j = 0; j < kAtOnce; ++j) others[j] = vectors.data() + past[at + j] * dim;
      simd::squared_distances<1, kAtOnce>(item, others, dim, distances);
      for (int j = 0; j < kAtOnce; ++j) insert(items, values, past[at + j], -distances[j]);
    }
    for (; at < offsets[users[i] + 1]; ++at) {
      const float* other = vectors.data() + past[at] * dim;
      float value = 0.0f;
      if (by_distance) {
        simd::squared_distances(other, 1, item, dim, &value);
        value = -value;
      } else {
        value = simd::dot(other, item, dim);
      }
      insert(items, values, past[at], value);
    }
  }
  return out;
}

}  // namespace tastespace
