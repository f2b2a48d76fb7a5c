// Sizes, offsets and indices of arrays that come from Python: kernels trust them, so they are checked before.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace tastespace {

inline void require_size(const char* name, std::size_t given, std::size_t expected, const char* meaning) {
  if (given != expected)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(expected) + " values (" + meaning +
                                "), given " + std::to_string(given) + ".");
}

inline void require_least(const char* name, std::int64_t given, std::int64_t least) {
  if (given < least)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(least) + " or more, given " +
                                std::to_string(given) + ".");
}

// Whole numbers from 0 to n - 1.
inline void require_indices(const char* name, std::span<const std::int32_t> indices, std::int64_t n) {
  int outside = 0;
#pragma omp simd reduction(| : outside)
  for (std::size_t i = 0; i < indices.size(); ++i) outside |= indices[i] < 0 || indices[i] >= n;
  if (!outside) return;
  const auto bad = std::find_if(indices.begin(), indices.end(), [n](std::int32_t i) { return i < 0 || i >= n; });
  throw std::invalid_argument(std::string(name) + ": expected indices within 0 ... " + std::to_string(n - 1) +
                              ", given " + std::to_string(*bad) + " at position " +
                              std::to_string(bad - indices.begin()) + ".");
}

[[noreturn]] inline void bad_offsets(const char* name, std::int64_t n_values) {
  throw std::invalid_argument(std::string(name) + ": expected numbers that ascend from 0 to " +
                              std::to_string(n_values) + ".");
}

// Offsets of rows into an array of n values: one or more numbers, from 0 to n, none below the one before.
inline void require_offsets(const char* name, std::span<const std::int64_t> offsets, std::size_t n_values) {
  const auto n = static_cast<std::int64_t>(n_values);
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != n) bad_offsets(name, n);
  int falls = 0;
#pragma omp simd reduction(| : falls)
  for (std::size_t i = 1; i < offsets.size(); ++i) falls |= offsets[i] < offsets[i - 1];
  if (falls) bad_offsets(name, n);
}

// The rows of some users only, so that a call for one user takes no time that grows with the number of all.
inline void require_rows(const char* name, std::span<const std::int64_t> offsets, std::size_t n_values,
                         std::span<const std::int32_t> users) {
  const auto n = static_cast<std::int64_t>(n_values);
  require_indices("users", users, static_cast<std::int64_t>(offsets.size()) - 1);
  for (const std::int32_t user : users)
    if (offsets[user] < 0 || offsets[user + 1] < offsets[user] || offsets[user + 1] > n) bad_offsets(name, n);
}

// The same for lists of indices below `limit`.
inline void require_lists(const char* offsets_name, const char* name, std::span<const std::int64_t> offsets,
                          std::span<const std::int32_t> values, std::span<const std::int32_t> users,
                          std::int64_t limit) {
  require_rows(offsets_name, offsets, values.size(), users);
  for (const std::int32_t user : users)
    require_indices(name, values.subspan(offsets[user], offsets[user + 1] - offsets[user]), limit);
}

// No NaN and, unless `infinite`, no infinity: comparisons with NaN are no order, and sorts rely on one.
template <class T>
void require_numbers(const char* name, std::span<const T> values, bool infinite = false) {
  int bad = 0;
  for (const T value : values) bad |= infinite ? std::isnan(value) : !std::isfinite(value);
  if (bad)
    throw std::invalid_argument(std::string(name) + ": expected " + (infinite ? "" : "finite ") +
                                "numbers, given NaN" + (infinite ? "." : " or an infinite one."));
}

}  // namespace tastespace
