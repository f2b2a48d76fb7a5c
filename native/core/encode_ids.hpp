// External integer ids -> dense codes 0 ... n_ids - 1 in ascending order of id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct EncodedIds {
  std::vector<std::int64_t> ids;    // ascending, distinct
  std::vector<std::int32_t> codes;  // ids[codes[p]] == values[p]
};

// Compact ranges go through a direct table, scattered ones through a hash table; the answer is the same.
EncodedIds encode_ids(std::span<const std::int64_t> values);

}  // namespace tastespace
