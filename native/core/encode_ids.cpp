#include "core/encode_ids.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/random.hpp"

namespace tastespace {
namespace {

constexpr std::int32_t kAbsent = -1;

// Open addressing, linear probing, codes in order of first appearance.
class IdTable {
 public:
  IdTable() : slots_(1 << 10, kAbsent) {}

  std::int32_t code_of(std::int64_t id) {
    std::size_t at = home(id);
    while (slots_[at] != kAbsent) {
      if (ids_[slots_[at]] == id) return slots_[at];
      at = (at + 1) & (slots_.size() - 1);
    }
    if (ids_.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw std::length_error("more than 2^31 - 1 distinct ids");
    const auto code = static_cast<std::int32_t>(ids_.size());
    ids_.push_back(id);
    slots_[at] = code;
    if (ids_.size() * 2 > slots_.size()) grow();
    return code;
  }

  std::vector<std::int64_t> take_ids() { return std::move(ids_); }

 private:
  std::size_t home(std::int64_t id) const {
    return mix64(static_cast<std::uint64_t>(id)) & (slots_.size() - 1);
  }

  void grow() {
    slots_.assign(slots_.size() * 2, kAbsent);
    for (std::size_t code = 0; code < ids_.size(); ++code) {
      std::size_t at = home(ids_[code]);
      while (slots_[at] != kAbsent) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = static_cast<std::int32_t>(code);
    }
  }

  std::vector<std::int64_t> ids_;
  std::vector<std::int32_t> slots_;
};

EncodedIds by_table(std::span<const std::int64_t> values, std::int64_t low, std::size_t width) {
  std::vector<std::int32_t> code_at(width, kAbsent);
  for (const std::int64_t v : values) code_at[v - low] = 0;
  EncodedIds out;
  for (std::size_t at = 0; at < width; ++at) {
    if (code_at[at] == kAbsent) continue;
    code_at[at] = static_cast<std::int32_t>(out.ids.size());
    out.ids.push_back(low + static_cast<std::int64_t>(at));
  }
  out.codes.resize(values.size());
  for (std::size_t p = 0; p < values.size(); ++p) out.codes[p] = code_at[values[p] - low];
  return out;
}

EncodedIds by_hash(std::span<const std::int64_t> values) {
  IdTable table;
  EncodedIds out;
  out.codes.resize(values.size());
  for (std::size_t p = 0; p < values.size(); ++p) out.codes[p] = table.code_of(values[p]);

  const std::vector<std::int64_t> found = table.take_ids();
  std::vector<std::int32_t> order(found.size()), rank(found.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return found[a] < found[b]; });
  out.ids.resize(found.size());
  for (std::size_t r = 0; r < order.size(); ++r) {
    out.ids[r] = found[order[r]];
    rank[order[r]] = static_cast<std::int32_t>(r);
  }
  for (auto& code : out.codes) code = rank[code];
  return out;
}

}  // namespace

EncodedIds encode_ids(std::span<const std::int64_t> values) {
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  // Unsigned, because the range of extreme ids does not fit into a signed number.
  const std::uint64_t spread = static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(*low);
  const bool compact = spread < std::max<std::uint64_t>(values.size(), 1 << 16);
  return compact ? by_table(values, *low, static_cast<std::size_t>(spread) + 1) : by_hash(values);
}

}  // namespace tastespace
