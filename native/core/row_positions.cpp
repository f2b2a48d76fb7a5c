#include "core/row_positions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

// Whole numbers without a sign in the same order: they are compared without branches.
std::uint64_t ordered(std::int64_t key) { return static_cast<std::uint64_t>(key) ^ kSign; }

std::uint64_t ordered(double key) {
  if (std::isnan(key)) return std::numeric_limits<std::uint64_t>::max();
  const auto bits = std::bit_cast<std::uint64_t>(key + 0.0);  // -0 is 0
  return bits & kSign ? ~bits : bits | kSign;
}

struct Entry {
  std::uint64_t key;
  std::int32_t at;
};

template <class T>
std::vector<std::int32_t> positions(std::span<const std::int64_t> offsets, std::span<const T> keys, int threads) {
  const auto n = static_cast<std::int64_t>(offsets.size()) - 1;
  std::vector<std::int32_t> found(keys.size());
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<Entry> entries;
#pragma omp for schedule(dynamic, 256)
    for (std::int64_t row = 0; row < n; ++row)
      errors.run([&] {
        const std::int64_t first = offsets[row], size = offsets[row + 1] - first;
        entries.resize(size);
        for (std::int64_t e = 0; e < size; ++e) entries[e] = {ordered(keys[first + e]), static_cast<std::int32_t>(e)};
        std::sort(entries.begin(), entries.end(),
                  [](const Entry& a, const Entry& b) { return a.key != b.key ? a.key < b.key : a.at < b.at; });
        for (std::int64_t place = 0; place < size; ++place)
          found[first + entries[place].at] = static_cast<std::int32_t>(place);
      });
  }
  errors.rethrow();
  return found;
}

}  // namespace

std::vector<std::int32_t> row_positions(std::span<const std::int64_t> offsets, std::span<const double> keys,
                                        int threads) {
  return positions(offsets, keys, threads);
}

std::vector<std::int32_t> row_positions(std::span<const std::int64_t> offsets, std::span<const std::int64_t> keys,
                                        int threads) {
  return positions(offsets, keys, threads);
}

}  // namespace tastespace
