#include "rank/score_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/parallel_errors.hpp"
#include "rank/moments.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kTileUsers = 16;
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
    if (!moments.is_finite()) {
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
