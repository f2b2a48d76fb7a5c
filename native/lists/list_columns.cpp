#include "lists/list_columns.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace tastespace {
namespace {

template <class T>
T* numbers(ArrowColumns& columns, const char* name, const char* format, std::size_t n) {
  return reinterpret_cast<T*>(columns.add(name, format, n * sizeof(T)));
}

void add_ids(ArrowColumns& columns, const char* name, const IdColumn& ids, std::span<const std::int32_t> rows) {
  if (ids.width == 0) {
    std::vector<std::string_view> values;
    for (const std::int32_t row : rows) values.push_back(ids.text_at(row));
    return columns.add_text(name, values);
  }
  std::byte* to = columns.add(name, ids.format, rows.size() * ids.width);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(to + i * ids.width, ids.numbers.data() + rows[i] * ids.width, ids.width);
}

}  // namespace

std::optional<ArrowColumns> list_columns(const ListSource& source, const UserLists& found, std::int32_t user,
                                         std::string_view user_text) {
  if (found.nan_user >= 0) return std::nullopt;
  const auto n = static_cast<std::size_t>(found.n_found);
  ArrowColumns columns(found.n_found);
  if (source.user_ids.width == 0)
    columns.add_text("user", std::vector<std::string_view>(n, user_text));
  else
    add_ids(columns, "user", source.user_ids, std::vector<std::int32_t>(n, user));
  add_ids(columns, "item", source.item_ids, std::span(found.top).first(n));
  auto* rank = numbers<std::int32_t>(columns, "rank", "i", n);
  std::iota(rank, rank + n, 1);
  std::copy_n(found.scores.begin(), n, numbers<float>(columns, "score", "f", n));
  if (source.with_distances) {
    auto* distance = numbers<float>(columns, "distance", "f", n);
    for (std::size_t i = 0; i < n; ++i) distance[i] = -found.scores[i];
  }
  if (source.with_interests) std::copy_n(found.interests.begin(), n, numbers<std::int32_t>(columns, "interest", "i", n));
  return columns;
}

}  // namespace tastespace
