#include "lists/list_texts.hpp"

#include <charconv>
#include <cmath>

namespace tastespace {

namespace {

constexpr std::size_t kMostDigits = 32;  // of a number in the shortest form that gives it back

void add_whole(std::string& out, std::int32_t value) {
  char digits[kMostDigits];
  out.append(digits, std::to_chars(digits, digits + kMostDigits, value).ptr);
}

// A number that stays a fraction when it is read: 1 is written 1.0.
void add_number(std::string& out, double value) {
  char digits[kMostDigits];
  const auto end = std::to_chars(digits, digits + kMostDigits, value).ptr;
  const std::string_view written(digits, static_cast<std::size_t>(end - digits));
  out += written;
  if (written.find_first_of(".en") == std::string_view::npos) out += ".0";
}

std::string_view part(const ItemTexts& items, std::int64_t first, std::int64_t end) {
  return items.text.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
}

bool add_reasons(std::string& out, const ItemTexts& items, const ListEntries& entries, std::size_t entry) {
  const auto k = static_cast<std::size_t>(entries.n_reasons);
  bool is_finite = true, is_first = true;
  for (std::size_t i = entry * k; i < (entry + 1) * k; ++i) {
    const std::int32_t item = (*entries.reasons)[i];
    if (item < 0) continue;
    if (!is_first) out += ',';
    is_first = false;
    out += part(items, items.offsets[item], items.cuts[item]);
    out += ",\"weight\":";
    add_number(out, entries.weights[i]);
    out += '}';
    is_finite = is_finite && std::isfinite(entries.weights[i]);
  }
  return is_finite;
}

bool add_entry(std::string& out, const ItemTexts& items, const ListEntries& entries, std::size_t at) {
  const std::int32_t item = entries.rows[at];
  bool is_finite = std::isfinite(entries.scores[at]);
  out += part(items, items.offsets[item], items.offsets[item + 1]);
  out += ",\"rank\":";
  add_whole(out, entries.ranks[at]);
  out += ",\"score\":";
  add_number(out, entries.scores[at]);
  out += ",\"interest\":";
  if (entries.interests)
    add_whole(out, (*entries.interests)[at]);
  else
    out += "null";
  out += ",\"distance\":";
  if (entries.distances) {
    add_number(out, (*entries.distances)[at]);
    is_finite = is_finite && std::isfinite((*entries.distances)[at]);
  } else {
    out += "null";
  }
  out += ",\"because\":";
  if (entries.reasons) {
    out += '[';
    is_finite = add_reasons(out, items, entries, at) && is_finite;
    out += "]}";
  } else {
    out += "null}";
  }
  return is_finite;
}

}  // namespace

ListTexts list_texts(const ItemTexts& items, const ListEntries& entries, std::span<const std::int64_t> ends) {
  ListTexts found;
  found.text.reserve(entries.rows.size() * 400);
  for (std::size_t list = 0; list + 1 < ends.size(); ++list) {
    bool is_finite = true;
    for (std::int64_t at = ends[list]; at < ends[list + 1]; ++at) {
      if (at > ends[list]) found.text += ',';
      is_finite = add_entry(found.text, items, entries, static_cast<std::size_t>(at)) && is_finite;
    }
    found.ends.push_back(static_cast<std::int64_t>(found.text.size()));
    found.is_finite.push_back(is_finite);
  }
  return found;
}

}  // namespace tastespace
