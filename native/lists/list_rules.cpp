#include "lists/list_rules.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/parallel_errors.hpp"

namespace tastespace {

namespace {

// Works on one list after the other; keeps its memory between them.
class ListBuilder {
 public:
  ListBuilder(const ItemLists& pools, const ItemGroups& groups, const PinnedItems& pinned, const NewItems& new_items)
      : pools_(pools), groups_(groups), pinned_(pinned), new_items_(new_items), counts_(groups.most.size(), 0),
        in_pool_(groups.allowed.size(), 0) {}

  struct Place {
    std::int32_t row;
    std::int64_t entry;
  };

  // Puts list `l` of at most `length` places into `places`; whether a longer pool could change it.
  bool build(std::int64_t l, std::int32_t length) {
    begin_ = pools_.offsets[l];
    end_ = pools_.offsets[l + 1];
    first_pin_ = pinned_.lists.offsets[l];
    n_pins_ = std::min<std::int64_t>(pinned_.lists.offsets[l + 1] - first_pin_, length);
    places.clear();
    for (std::int64_t p = 0; p < n_pins_; ++p) count(pin(p), 1);
    find_needed(length);
    const bool all_found = reserve_new();
    fill(length);
    const bool full = static_cast<std::int32_t>(places.size()) == length;
    const bool incomplete = (!full || !all_found) && has_others(full);
    for (const std::int32_t group : touched_) counts_[group] = 0;
    touched_.clear();
    return incomplete;
  }

  std::vector<Place> places;

 private:
  std::int32_t pin(std::int64_t p) const { return pinned_.lists.rows[first_pin_ + p]; }
  bool has_share() const { return !new_items_.is_new.empty() && new_items_.share > 0; }
  bool is_new(std::int32_t row) const { return has_share() && new_items_.is_new[row] != 0; }

  bool is_pinned(std::int32_t row) const {
    for (std::int64_t p = 0; p < n_pins_; ++p)
      if (pin(p) == row) return true;
    return false;
  }

  std::span<const std::int32_t> groups_of(std::int32_t row) const {
    if (groups_.offsets.empty()) return {};
    return groups_.members.subspan(groups_.offsets[row], groups_.offsets[row + 1] - groups_.offsets[row]);
  }

  // True if an allowed item outside the pool has room in its groups, and is new where only new ones are missing.
  bool has_others(bool only_new) {
    for (std::int64_t e = begin_; e < end_; ++e) in_pool_[pools_.rows[e]] = 1;
    for (std::int64_t p = 0; p < n_pins_; ++p) in_pool_[pin(p)] = 1;
    bool found = false;
    const auto n = static_cast<std::int32_t>(groups_.allowed.size());
    for (std::int32_t row = 0; row < n && !found; ++row)
      found = groups_.allowed[row] && !in_pool_[row] && (!only_new || is_new(row)) && has_room(row);
    for (std::int64_t e = begin_; e < end_; ++e) in_pool_[pools_.rows[e]] = 0;
    for (std::int64_t p = 0; p < n_pins_; ++p) in_pool_[pin(p)] = 0;
    return found;
  }

  bool has_room(std::int32_t row) const {
    for (const std::int32_t group : groups_of(row))
      if (counts_[group] >= groups_.most[group]) return false;
    return true;
  }

  void count(std::int32_t row, std::int32_t by) {
    for (const std::int32_t group : groups_of(row)) {
      counts_[group] += by;
      touched_.push_back(group);
    }
  }

  // least_[n], least_early_[n]: new items that the first n places must have, and must have so that no later prefix fails.
  void find_needed(std::int32_t length) {
    least_.assign(length + 1, 0);
    least_early_.assign(length + 1, 0);
    if (!has_share()) return;
    std::vector<std::uint8_t>& can_be_new = can_be_new_;
    can_be_new.assign(length + 1, 1);
    std::int64_t p = 0;
    for (std::int32_t n = 1; n <= length && p < n_pins_; ++n)
      if (pinned_.places[first_pin_ + p] <= n) can_be_new[n] = is_new(pin(p++));
    // Shares such as 0.3 are not exact in binary: 0.3 * 10 must be 3 from below and from above.
    constexpr double tolerance = 1e-9;
    std::int32_t most = 0;
    for (std::int32_t n = 1; n <= length; ++n) {
      most += can_be_new[n];
      const double exact = new_items_.share * n;
      const double whole = n == length ? std::ceil(exact - tolerance) : std::floor(exact + tolerance);
      least_[n] = std::min(most, static_cast<std::int32_t>(whole));
    }
    least_early_[length] = least_[length];
    for (std::int32_t n = length - 1; n >= 1; --n)
      least_early_[n] = std::max(least_[n], least_early_[n + 1] - can_be_new[n + 1]);
  }

  // Finds the best new items of the pool that the share needs and counts them; whether there are enough.
  bool reserve_new() {
    reserved_.clear();
    if (!has_share()) return true;
    std::int32_t missing = least_.back();
    for (std::int64_t p = 0; p < n_pins_; ++p) missing -= is_new(pin(p));
    for (std::int64_t e = begin_; e < end_ && missing > 0; ++e) {
      const std::int32_t row = pools_.rows[e];
      if (!is_new(row) || is_pinned(row) || !has_room(row)) continue;
      count(row, 1);
      reserved_.push_back(e);
      --missing;
    }
    return missing <= 0;
  }

  void fill(std::int32_t length) {
    std::int64_t next_pin = 0, at = begin_;
    std::size_t next_reserved = 0;
    std::int32_t n_new = 0;
    bool open = true;  // whether more items of the pool may follow
    for (std::int32_t n = 1; n <= length; ++n) {
      std::int64_t entry = -1;
      bool from_pin = next_pin < n_pins_ && pinned_.places[first_pin_ + next_pin] <= n;
      if (!from_pin && open) {
        if (n_new < least_early_[n] && next_reserved < reserved_.size()) {
          entry = reserved_[next_reserved++];
        } else {
          entry = next_entry(at, next_reserved);
          if (entry >= 0 && n_new + is_new(pools_.rows[entry]) < least_[n]) entry = -1;
        }
        open = entry >= 0;
      }
      if (!from_pin && entry < 0) {
        from_pin = next_pin < n_pins_;
        if (!from_pin) return;
        if (n_new + is_new(pin(next_pin)) < least_[n]) return;
      }
      const std::int32_t row = from_pin ? pin(next_pin++) : pools_.rows[entry];
      n_new += is_new(row);
      places.push_back({row, entry});
    }
  }

  // The next item of the pool in its order that may be in the list; -1: none.
  std::int64_t next_entry(std::int64_t& at, std::size_t& next_reserved) {
    for (; at < end_; ++at) {
      if (next_reserved < reserved_.size() && reserved_[next_reserved] == at) {
        ++next_reserved;
        return at++;
      }
      if (std::binary_search(reserved_.begin(), reserved_.end(), at)) continue;  // moved up before
      const std::int32_t row = pools_.rows[at];
      if (is_pinned(row) || !has_room(row)) continue;
      count(row, 1);
      return at++;
    }
    return -1;
  }

  const ItemLists& pools_;
  const ItemGroups& groups_;
  const PinnedItems& pinned_;
  const NewItems& new_items_;
  std::vector<std::int32_t> counts_;   // of each group, of the items that are in the list or reserved
  std::vector<std::int32_t> touched_;  // groups that were counted
  std::vector<std::uint8_t> in_pool_;  // of each item, while a list is checked
  std::vector<std::int32_t> least_, least_early_;
  std::vector<std::uint8_t> can_be_new_;
  std::vector<std::int64_t> reserved_;
  std::int64_t begin_ = 0, end_ = 0, first_pin_ = 0, n_pins_ = 0;
};

}  // namespace

RuledLists apply_list_rules(const ItemLists& pools, std::span<const std::int32_t> lengths, const ItemGroups& groups,
                            const PinnedItems& pinned, const NewItems& new_items, int threads) {
  const std::int64_t n = pools.size();
  std::vector<std::int64_t> starts(n + 1, 0);  // as if no rule left an item out
  for (std::int64_t l = 0; l < n; ++l) {
    const std::int64_t available = pools.offsets[l + 1] - pools.offsets[l] + pinned.lists.offsets[l + 1] - pinned.lists.offsets[l];
    starts[l + 1] = starts[l] + std::min<std::int64_t>(lengths[l], available);
  }
  std::vector<ListBuilder::Place> found(starts.back());
  RuledLists out;
  out.offsets.assign(n + 1, 0);
  out.incomplete.assign(n, 0);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<ListBuilder> builder;
    errors.run([&] { builder.emplace(pools, groups, pinned, new_items); });
#pragma omp for schedule(static)
    for (std::int64_t l = 0; l < n; ++l)
      errors.run([&] {
        out.incomplete[l] = builder->build(l, lengths[l]);
        std::copy(builder->places.begin(), builder->places.end(), found.begin() + starts[l]);
        out.offsets[l + 1] = static_cast<std::int64_t>(builder->places.size());
      });
  }
  errors.rethrow();
  for (std::int64_t l = 0; l < n; ++l) out.offsets[l + 1] += out.offsets[l];
  out.rows.resize(out.offsets.back());
  out.entries.resize(out.offsets.back());
  for (std::int64_t l = 0; l < n; ++l) {
    for (std::int64_t i = out.offsets[l]; i < out.offsets[l + 1]; ++i) {
      const auto& place = found[starts[l] + i - out.offsets[l]];
      out.rows[i] = place.row;
      out.entries[i] = place.entry;
    }
  }
  return out;
}

}  // namespace tastespace
