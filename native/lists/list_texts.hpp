// Lists of users as JSON, written from arrays and from texts of the items that were encoded before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tastespace {

// The text of each item wherever it is listed: text[offsets[i]] ... text[offsets[i + 1] - 1], an object without its
// closing brace. A past item is written with the part before cuts[i] alone.
struct ItemTexts {
  std::string_view text;
  std::span<const std::int64_t> offsets;
  std::span<const std::int64_t> cuts;
};

// The entries of lists; all but rows, ranks and scores may be missing.
struct ListEntries {
  std::span<const std::int32_t> rows;
  std::span<const std::int32_t> ranks;
  std::span<const float> scores;
  std::optional<std::span<const std::int32_t>> interests;
  std::optional<std::span<const float>> distances;
  std::optional<std::span<const std::int32_t>> reasons;  // n_reasons past items for each entry, below 0: no more
  std::span<const double> weights;                       // of the reasons
  std::int64_t n_reasons = 0;
};

struct ListTexts {
  std::string text;
  std::vector<std::int64_t> ends;  // where each list ends, and the next begins
  std::vector<bool> is_finite;     // whether all numbers of a list are finite: JSON has no word for others
};

// The entries ends[i] ... ends[i + 1] - 1 as objects of JSON with commas between them.
ListTexts list_texts(const ItemTexts& items, const ListEntries& entries, std::span<const std::int64_t> ends);

}  // namespace tastespace
