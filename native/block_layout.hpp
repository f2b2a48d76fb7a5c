// Training without locks: positives are processed in blocks, and within a block first the users, then the items. Every
// user and every item is updated by one thread only, and the result does not depend on which thread that is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "positive_index.hpp"
#include "random.hpp"

namespace tastespace {

constexpr std::int64_t kChunkPositives = 16;  // of a chunk, or more where a user has more

// A positive of the current block.
struct BlockPositive {
  std::int64_t user, positive_index;  // positive_index: position in the array of all positives
};

// The row that contains this position: offsets[row] <= position < offsets[row + 1]. Branch-free: half of the
// branches would be mispredicted.
inline std::int64_t row_of_position(std::span<const std::int64_t> offsets, std::int64_t position) {
  const std::int64_t* base = offsets.data();
  for (std::size_t n = offsets.size(); n > 1;) {
    const std::size_t half = n / 2;
    base += half & (std::size_t{0} - static_cast<std::size_t>(base[half] <= position));
    n -= half;
  }
  return base - offsets.data();
}

// The shard of an item, below n_shards: the items of a shard are updated by one thread. Hashed, so that neighboring
// popular items are in different shards.
inline std::int32_t shard_of_item(std::int32_t item, std::int32_t n_shards) {
  const std::uint64_t hash = static_cast<std::uint32_t>(item) * 2654435769u;
  return static_cast<std::int32_t>(hash * static_cast<std::uint64_t>(n_shards) >> 32);
}

// The positives of one block at a time, in an epoch's random order, grouped by user, and divided into chunks of whole
// users, which threads take one after the other. Chunks do not depend on the number of threads.
class BlockLayout {
 public:
  // `users` holds the user of each positive; empty: they are searched for. `visited` holds positions of the positives
  // that the epoch goes through; empty: all of them.
  BlockLayout(std::span<const std::int64_t> offsets, std::span<const std::int32_t> users, std::uint64_t n_positives,
              std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> visited)
      : offsets_(offsets), users_(users), visited_(visited), order_(visited.empty() ? n_positives : visited.size(), seed, epoch),
        n_digits_((std::bit_width(offsets.size()) + 7) / 8) {}

  // The positives number first ... last - 1, grouped by user. Call from one thread.
  void load_block(std::int64_t first, std::int64_t last) {
    positives_.clear();
    for (std::int64_t i = first; i < last; ++i) {
      const auto place = static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(i)));
      const std::int64_t index = visited_.empty() ? place : visited_[place];
      positives_.push_back({users_.empty() ? row_of_position(offsets_, index) : users_[index], index});
    }
    sort_by_user();
    starts_.assign(1, 0);
    for (std::int64_t s = kChunkPositives; s < n_positives(); ++s)
      if (s - starts_.back() >= kChunkPositives && positives_[s].user != positives_[s - 1].user) starts_.push_back(s);
    starts_.push_back(n_positives());
  }

  std::span<const BlockPositive> positives() const { return positives_; }
  std::int64_t n_positives() const { return static_cast<std::int64_t>(positives_.size()); }
  std::int64_t n_chunks() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  // The positives of chunk c are start(c) ... start(c + 1) - 1.
  std::span<const std::int64_t> starts() const { return starts_; }
  std::int64_t start(std::int64_t chunk) const { return starts_[chunk]; }

 private:
  // Byte by byte from the lowest, which is stable: a user's positives keep their random order. A comparison
  // sort takes several times as long.
  void sort_by_user() {
    sorted_.resize(positives_.size());
    for (int digit = 0; digit < n_digits_; ++digit) {
      const auto byte_of = [digit](const BlockPositive& positive) { return (positive.user >> (8 * digit)) & 255; };
      std::size_t start_of[257] = {};
      for (const BlockPositive& positive : positives_) ++start_of[byte_of(positive) + 1];
      for (int b = 0; b < 255; ++b) start_of[b + 1] += start_of[b];
      for (const BlockPositive& positive : positives_) sorted_[start_of[byte_of(positive)]++] = positive;
      positives_.swap(sorted_);
    }
  }

  std::span<const std::int64_t> offsets_;
  std::span<const std::int32_t> users_;
  std::span<const std::int64_t> visited_;
  Permutation order_;
  int n_digits_;  // bytes of the largest user's index
  std::vector<BlockPositive> positives_, sorted_;
  std::vector<std::int64_t> starts_ = {0};
};

}  // namespace tastespace
