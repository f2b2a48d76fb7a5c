// Rules for finished lists: pinned items, at most n items of a group, a least share of new items.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Lists of item rows, best first: list l has the entries offsets[l] ... offsets[l + 1] - 1.
struct ItemLists {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> rows;

  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

// Groups of items, such as brands, and how many items of each a list may hold.
struct ItemGroups {
  std::span<const std::int64_t> offsets;  // item i is in the groups members[offsets[i] ... offsets[i + 1] - 1]; may be empty
  std::span<const std::int32_t> members;
  std::span<const std::int32_t> most;    // of each group
  std::span<const std::uint8_t> allowed;  // 1 for each item that a longer pool could hold
};

struct PinnedItems {
  ItemLists lists;                      // of each list, by ascending place
  std::span<const std::int32_t> places;  // from 1, of each entry
};

struct NewItems {
  std::span<const std::uint8_t> is_new;  // of each item; empty: no rule
  double share = 0.0;
};

struct RuledLists {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> entries;     // place in the pools of each row, -1 for a pinned item
  std::vector<std::uint8_t> incomplete;  // per list: whether a longer pool could change it
};

// The first lengths[l] items of each pool that obey the rules, in the order of the pool but for two exceptions:
//
// * A pinned item is at its place, or at the end of a list that ends before.
// * The best new items are moved up where a prefix would have too few: n places have floor(share * n) new items or more,
//   all lengths[l] places ceil(share * lengths[l]), unless pinned items take the places. A list ends before the first
//   place that would break this.
//
// No prefix has more than `most` items of a group. Pinned items count first, then the new items that the share needs, so
// that others do not use up their groups.
RuledLists apply_list_rules(const ItemLists& pools, std::span<const std::int32_t> lengths, const ItemGroups& groups,
                            const PinnedItems& pinned, const NewItems& new_items, int threads);

}  // namespace tastespace
