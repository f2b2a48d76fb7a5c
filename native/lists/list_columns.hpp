// The list of one user as the columns of a frame, in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/arrow_columns.hpp"
#include "rank/user_lists.hpp"

namespace tastespace {

// Ids by their index: numbers of any type, or text.
struct IdColumn {
  const char* format = nullptr;  // letter of Arrow
  std::span<const std::byte> numbers;
  std::size_t width = 0;  // bytes of a number
  std::span<const std::int64_t> offsets;  // of text
  std::span<const char> text;

  std::string_view text_at(std::int64_t row) const {
    return {text.data() + offsets[row], static_cast<std::size_t>(offsets[row + 1] - offsets[row])};
  }
};

// Ids and options of all lists of a request.
struct ListSource {
  IdColumn user_ids, item_ids;
  bool with_distances, with_interests;
};

// The list of one user as columns user, item, rank, score and, where the source says so, distance and interest; nothing
// for a user with a NaN score. `user_text` is the user's id where ids are text.
std::optional<ArrowColumns> list_columns(const ListSource& source, const UserLists& found, std::int32_t user,
                                         std::string_view user_text);

}  // namespace tastespace
