// Training without locks: positives are processed in blocks, and within a block first the users, then the items. Every
// user and every item is updated by one thread only, and the result does not depend on which thread that is.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/positive_index.hpp"
#include "core/random.hpp"

namespace tastespace {

constexpr std::int64_t kChunkPositives = 16;  // of a chunk, or more where a user has more
constexpr std::int64_t kRunPositives = 8;     // of one user, one after the other

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

// An epoch's random order of the positives, for a user in runs: the vectors of a user, and the optimizer's state of them,
// are fetched once for a run. Each user's positives are shuffled and laid out one user after the other; the order is a
// random one of the runs of this sequence, which begin at a random place. Nothing is stored: an entry is computed from
// (seed, epoch).
class EpochOrder {
 public:
  // `users` holds the user of each positive; empty: they are searched for. `visited` holds the positions of the
  // positives that the epoch goes through, ascending; empty: all of them.
  EpochOrder(std::span<const std::int64_t> offsets, std::span<const std::int32_t> users, std::int64_t n_positives,
             std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> visited)
      : offsets_(offsets), users_(users), visited_(visited), seed_(seed), epoch_(epoch),
        n_(visited.empty() ? n_positives : static_cast<std::int64_t>(visited.size())), n_runs_(n_ / kRunPositives),
        runs_(static_cast<std::uint64_t>(n_runs_), seed, epoch) {
    if (n_ > 0) shift_ = CounterRng(seed, epoch, kShiftKey).next() % static_cast<std::uint64_t>(n_);
  }

  // Append the positives number first ... last - 1.
  void append(std::int64_t first, std::int64_t last, std::vector<BlockPositive>& out) const {
    const std::int64_t end = (last + kRunPositives - 1) / kRunPositives;
    std::int64_t ahead[kRunsAhead];  // first places of the next runs, whose users are prefetched
    for (std::int64_t run = first / kRunPositives, n = 0; run < end && n < kRunsAhead; ++run, ++n)
      ahead[run % kRunsAhead] = first_place(run);
    OwnPlaces own{0, 0, 0, runs_};
    const std::size_t n_before = out.size();
    out.resize(n_before + static_cast<std::size_t>(std::max<std::int64_t>(0, last - first)));
    BlockPositive* next = out.data() + n_before;
    for (std::int64_t run = first / kRunPositives; run < end; ++run) {
      const std::int64_t start = ahead[run % kRunsAhead] - run * kRunPositives;
      if (run + kRunsAhead < end) ahead[run % kRunsAhead] = first_place(run + kRunsAhead);
      for (std::int64_t i = std::max(first, run * kRunPositives), to = std::min(last, (run + 1) * kRunPositives); i < to; ++i) {
        std::int64_t place = start + i;
        if (place >= n_) place -= n_;
        if (place < own.first || place >= own.last) own = places_of_user(place);
        const std::int64_t shuffled =
            own.first + static_cast<std::int64_t>(own.order(static_cast<std::uint64_t>(place - own.first)));
        *next++ = {own.user, position(shuffled)};
      }
    }
  }

 private:
  // The places of a user in the sequence, and their order.
  struct OwnPlaces {
    std::int64_t user, first, last;
    Permutation order;
  };

  static constexpr std::int64_t kRunsAhead = 8;

  // Where a run begins in the sequence. Its user is prefetched.
  std::int64_t first_place(std::int64_t run) const {  // what is left over at the end is no whole run
    const std::int64_t moved = run < n_runs_ ? static_cast<std::int64_t>(runs_(static_cast<std::uint64_t>(run))) : run;
    std::int64_t place = moved * kRunPositives + static_cast<std::int64_t>(shift_);
    if (place >= n_) place -= n_;
    if (!users_.empty()) __builtin_prefetch(visited_.empty() ? static_cast<const void*>(&users_[place]) : &visited_[place]);
    return place;
  }

  // Keys of random numbers beside those of positives and of the order of runs.
  static constexpr std::uint64_t kShiftKey = ~std::uint64_t{1}, kUserKey = ~std::uint64_t{2};

  std::int64_t position(std::int64_t place) const { return visited_.empty() ? place : visited_[place]; }

  OwnPlaces places_of_user(std::int64_t place) const {
    const std::int64_t at = position(place), user = users_.empty() ? row_of_position(offsets_, at) : users_[at];
    std::int64_t first = offsets_[user], last = offsets_[user + 1];
    if (!visited_.empty()) {
      first = std::lower_bound(visited_.begin(), visited_.end(), first) - visited_.begin();
      last = std::lower_bound(visited_.begin() + first, visited_.end(), last) - visited_.begin();
    }
    const CounterRng rng(seed_, epoch_, kUserKey - static_cast<std::uint64_t>(user));
    return {user, first, last, Permutation(static_cast<std::uint64_t>(last - first), rng, 2)};
  }

  std::span<const std::int64_t> offsets_;
  std::span<const std::int32_t> users_;
  std::span<const std::int64_t> visited_;
  std::uint64_t seed_, epoch_, shift_ = 0;
  std::int64_t n_, n_runs_;
  Permutation runs_;
};

// The positives of one block at a time, in an epoch's order, grouped by user, and divided into chunks of whole users,
// which threads take one after the other. Chunks do not depend on the number of threads.
class BlockLayout {
 public:
  BlockLayout(const EpochOrder& order, std::int64_t n_users)
      : order_(order), n_digits_((std::bit_width(static_cast<std::uint64_t>(n_users)) + 7) / 8) {}

  // The positives number first ... last - 1, grouped by user. Call from one thread.
  void load_block(std::int64_t first, std::int64_t last) {
    positives_.clear();
    order_.append(first, last, positives_);
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

  EpochOrder order_;
  int n_digits_;  // bytes of the largest user's index
  std::vector<BlockPositive> positives_, sorted_;
  std::vector<std::int64_t> starts_ = {0};
};

}  // namespace tastespace
