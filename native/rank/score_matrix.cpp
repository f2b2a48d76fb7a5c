#include "rank/score_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kTileUsers = 16;
constexpr std::int64_t kSums = 16;  // partial sums side by side, which the compiler keeps in registers

struct Moments {
  double mean, deviation;
};

// In double precision and from the first score on, so that large scores with small differences lose no digits.
Moments moments_of(const float* row, std::int64_t n) {
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

// Working memory of one thread for a few users.
struct Tile {
  explicit Tile(const PackedItems& items)
      : scores(kTileUsers * items.padded_items()), interests(kTileUsers * items.padded_items()) {}

  template <class T>
  void copy_rows(const std::vector<T>& from, const PackedItems& items, std::size_t n_rows, T* to) const {
    for (std::size_t row = 0; row < n_rows; ++row)
      std::copy_n(from.begin() + row * items.padded_items(), items.n_items(), to + row * items.n_items());
  }

  std::vector<float> scores;
  std::vector<std::int32_t> interests;
  GatheredRows gathered;
};

// Calls work(tile, some of the users, position of the first of them) for all users, in parallel.
template <class Work>
void for_tiles(const PackedItems& items, std::span<const std::int32_t> users, int threads, const Work& work) {
  const auto n = static_cast<std::int64_t>(users.size());
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<Tile> tile;
    errors.run([&] { tile.emplace(items); });
#pragma omp for schedule(dynamic)
    for (std::int64_t first = 0; first < n; first += kTileUsers)
      errors.run([&] { work(*tile, users.subspan(first, std::min(kTileUsers, n - first)), first); });
  }
  errors.rethrow();
}

}  // namespace

std::vector<float> score_users(const ScoringVectors& space,
                               std::span<const std::int32_t> users, int threads) {
  const PackedItems& items = *space.items;
  std::vector<float> out(users.size() * items.n_items());
  for_tiles(items, users, threads, [&](Tile& tile, std::span<const std::int32_t> some, std::int64_t first) {
    tile.gathered.gather(space.users, some, items.dim());
    score_block(items, tile.gathered.rows(), space.scale, static_cast<std::int64_t>(some.size()), tile.scores);
    tile.copy_rows(tile.scores, items, some.size(), out.data() + first * items.n_items());
  });
  return out;
}

std::vector<std::int32_t> nearest_interests(const ScoringVectors& space,
                                            std::span<const std::int32_t> users, int threads) {
  const PackedItems& items = *space.items;
  std::vector<std::int32_t> out(users.size() * items.n_items());
  for_tiles(items, users, threads, [&](Tile& tile, std::span<const std::int32_t> some, std::int64_t first) {
    tile.gathered.gather(space.users, some, items.dim());
    score_block(items, tile.gathered, space.scale, static_cast<std::int64_t>(some.size()), tile.scores, tile.interests);
    tile.copy_rows(tile.interests, items, some.size(), out.data() + first * items.n_items());
  });
  return out;
}

std::int64_t add_standardized(std::span<float> total, std::span<const float> scores, std::int64_t n_columns,
                              float weight, int threads) {
  const std::int64_t n_rows = n_columns == 0 ? 0 : static_cast<std::int64_t>(scores.size()) / n_columns;
  std::int64_t bad = std::numeric_limits<std::int64_t>::max();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(min : bad)
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const float* from = scores.data() + row * n_columns;
    float* to = total.data() + row * n_columns;
    const Moments moments = moments_of(from, n_columns);
    if (!std::isfinite(moments.mean) || !std::isfinite(moments.deviation)) {
      bad = std::min(bad, row);
      continue;
    }
    if (moments.deviation == 0.0) continue;
    const double factor = weight / moments.deviation;
    for (std::int64_t k = 0; k < n_columns; ++k) to[k] += static_cast<float>(factor * (from[k] - moments.mean));
  }
  return bad == std::numeric_limits<std::int64_t>::max() ? -1 : bad;
}

}  // namespace tastespace
