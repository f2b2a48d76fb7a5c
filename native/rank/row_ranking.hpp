// One user: from the scores of all items to the ranks of the test items and the top k.
//
// Order: larger score first, equal scores by ascending item index. -infinity marks items that are not candidates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Rank of a test item. A negative is a candidate that is not a test item.
struct TestRank {
  std::int32_t rank;             // 1 is the top, among all candidates
  std::int32_t negatives_above;  // with a strictly larger score
  std::int32_t negatives_tied;   // with exactly the same score
};

// Prepare a row: the worst possible finite score replaces -infinity, then the excluded items and the padding
// behind n_items become -infinity. Returns false if a score is NaN.
bool prepare_row(std::span<float> scores, std::int64_t n_items, std::span<const std::int32_t> excluded);

// Items whose value in `allowed` is 0 become -infinity; an empty `allowed` allows all.
void exclude_others(std::span<float> scores, std::span<const std::uint8_t> allowed);

// Ranks of the test items, none of which is excluded; `test_ranks` follows the order of `test`.
void rank_items(std::span<const float> scores, std::span<const std::int32_t> test, std::span<TestRank> test_ranks);

// Reusable memory for `top_k`.
struct TopBuffer {
  std::vector<std::uint64_t> keys;  // of score and item: a larger key comes first
  std::vector<float> maxima;
};

// The best k candidates in order; the rest of `top` is filled with -1 where there are fewer.
void top_k(std::span<const float> scores, std::span<std::int32_t> top, TopBuffer& buffer);

}  // namespace tastespace
