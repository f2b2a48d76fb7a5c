// What kernels that learn look up of the positives again and again, computed once for a training run: the user of each
// positive, and which items are among a user's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Tells which items a user has not taken, by bits. Where the user has taken one in 64 items or more there is a bit
// for every item, which is exact. For others it is a Bloom filter with two hash functions and 16 bits for each of the
// user's items: of the items outside, 1.4 in 100 may be taken by it.
class ItemFilter {
 public:
  ItemFilter() = default;
  ItemFilter(const std::uint64_t* words, std::int64_t n_taken, std::int32_t n_items)
      : words_(words), n_bits_(n_bits(n_taken, n_items)), exact_(is_exact(n_taken, n_items)) {}

  bool empty() const { return words_ == nullptr; }
  bool exact() const { return exact_; }

  // Bits of those of `n` items that may be among the user's.
  std::uint32_t may_contain(const std::int32_t* items, std::int64_t n) const {
    std::uint32_t found = 0;
    if (exact_) {
      for (std::int64_t j = 0; j < n; ++j) found |= has(static_cast<std::uint32_t>(items[j])) << j;
    } else {
      for (std::int64_t j = 0; j < n; ++j)
        found |= (has(first_hash(items[j], n_bits_)) & has(second_hash(items[j], n_bits_))) << j;
    }
    return found;
  }

  void prefetch() const {
    if (n_bits_ > kBitsPrefetched) return;  // most of it is not read
    for (std::uint64_t bit = 0; bit < n_bits_; bit += 512) __builtin_prefetch(words_ + bit / 64);
  }

  // The bits that tell of one item.
  void prefetch(std::int32_t item) const {
    const std::uint64_t bit = exact_ ? static_cast<std::uint64_t>(item) : first_hash(item, n_bits_);
    __builtin_prefetch(words_ + bit / 64);
    if (!exact_) __builtin_prefetch(words_ + second_hash(item, n_bits_) / 64);
  }

  static bool is_exact(std::int64_t n_taken, std::int32_t n_items) { return 64 * n_taken >= n_items; }
  static std::uint64_t n_bits(std::int64_t n_taken, std::int32_t n_items) {
    return (static_cast<std::uint64_t>(is_exact(n_taken, n_items) ? n_items : 16 * n_taken) + 63) / 64 * 64;
  }

  static void set(std::span<const std::int32_t> taken, std::int32_t n_items, std::uint64_t* words) {
    const auto n_taken = static_cast<std::int64_t>(taken.size());
    const std::uint64_t size = n_bits(n_taken, n_items);
    const auto set_bit = [words](std::uint64_t bit) { words[bit / 64] |= std::uint64_t{1} << (bit % 64); };
    for (const std::int32_t item : taken) {
      if (is_exact(n_taken, n_items)) {
        set_bit(static_cast<std::uint64_t>(item));
      } else {
        set_bit(first_hash(item, size));
        set_bit(second_hash(item, size));
      }
    }
  }

 private:
  static constexpr std::uint64_t kBitsPrefetched = 16 * 512;
  std::uint32_t has(std::uint64_t bit) const { return static_cast<std::uint32_t>(words_[bit / 64] >> (bit % 64)) & 1; }
  static std::uint64_t first_hash(std::int32_t item, std::uint64_t n_bits) {
    return static_cast<std::uint32_t>(item) * 2654435769u * n_bits >> 32;
  }
  static std::uint64_t second_hash(std::int32_t item, std::uint64_t n_bits) {
    return (static_cast<std::uint32_t>(item) ^ 0x5bd1e995u) * 2246822519u * n_bits >> 32;
  }

  const std::uint64_t* words_ = nullptr;
  std::uint64_t n_bits_ = 0;
  bool exact_ = false;
};

// A view of the index; empty where there is none, and then users and items are searched for.
struct PositiveIndex {
  std::span<const std::int32_t> users;           // per positive
  std::span<const std::int64_t> filter_offsets;  // per user
  const std::uint64_t* words = nullptr;
  std::int32_t n_items = 0;

  // Of a user with so many positives.
  ItemFilter filter(std::int64_t user, std::int64_t n_taken) const {
    return words ? ItemFilter(words + filter_offsets[user], n_taken, n_items) : ItemFilter();
  }
};

// Owns an index: at most 12 bytes per positive, and about 8 per user.
class PositiveIndexArrays {
 public:
  PositiveIndex view() const { return {users_, filter_offsets_, words_.data(), n_items_}; }
  bool is_for(std::int32_t n_items) const { return n_items_ == n_items; }

  void build(std::span<const std::int64_t> offsets, std::span<const std::int32_t> positives, std::int32_t n_items) {
    const std::int64_t n_users = static_cast<std::int64_t>(offsets.size()) - 1;
    n_items_ = -1;
    users_.resize(positives.size());
    filter_offsets_.assign(1, 0);
    for (std::int64_t user = 0; user < n_users; ++user) {
      const std::int64_t n_taken = offsets[user + 1] - offsets[user];
      const std::uint64_t n_words = n_taken == 0 ? 0 : ItemFilter::n_bits(n_taken, n_items) / 64;
      filter_offsets_.push_back(filter_offsets_.back() + static_cast<std::int64_t>(n_words));
    }
    words_.assign(std::max<std::int64_t>(1, filter_offsets_.back()), 0);
    for (std::int64_t user = 0; user < n_users; ++user) {
      const std::int64_t first = offsets[user], last = offsets[user + 1];
      std::fill(users_.begin() + first, users_.begin() + last, static_cast<std::int32_t>(user));
      ItemFilter::set(positives.subspan(first, last - first), n_items, words_.data() + filter_offsets_[user]);
    }
    n_items_ = n_items;
  }

 private:
  std::vector<std::int32_t> users_;
  std::vector<std::int64_t> filter_offsets_;
  std::vector<std::uint64_t> words_;
  std::int32_t n_items_ = -1;
};

}  // namespace tastespace
