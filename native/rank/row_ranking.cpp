#include "rank/row_ranking.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "core/simd.hpp"

namespace tastespace {
namespace {

using simd::kLanes, simd::Vec;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr float kWorst = std::numeric_limits<float>::lowest();
constexpr std::size_t kFewKeys = 192;  // ordered by counting: no branches that depend on the scores

// Score and item as one number: larger for larger scores, of equal scores for the smaller item.
std::uint64_t key_of(float score, std::uint32_t item) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // + 0: there is one zero
  const std::uint32_t ordered = bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
  return std::uint64_t{ordered} << 32 | (0xFFFFFFFFu - item);
}

std::int32_t item_of(std::uint64_t key) {
  return static_cast<std::int32_t>(0xFFFFFFFFu - static_cast<std::uint32_t>(key));
}

float score_of(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>(ordered ^ (ordered >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}

// A score that at least k scores reach, and not many more: the scores are shared out among 2.5 k groups, and k of the
// groups have a best score that large. -infinity where that many groups would be too small.
float least_score(std::span<const float> scores, std::size_t k, std::vector<float>& maxima) {
  const std::size_t n_vectors = scores.size() / kLanes, n_blocks = (5 * k / 2 + kLanes - 1) / kLanes;
  const std::size_t in_block = n_vectors / n_blocks;
  if (in_block < 2) return kExcluded;
  maxima.resize(n_blocks * kLanes);
  for (std::size_t b = 0; b < n_blocks; ++b) {  // a group is a lane of the registers of a block
    const std::size_t last = b + 1 < n_blocks ? (b + 1) * in_block : n_vectors;
    Vec best = simd::load<Vec>(scores.data() + b * in_block * kLanes);
    for (std::size_t v = b * in_block + 1; v < last; ++v) {
      const Vec next = simd::load<Vec>(scores.data() + v * kLanes);
      best = next > best ? next : best;
    }
    simd::store<Vec>(maxima.data() + b * kLanes, best);
  }
  std::nth_element(maxima.begin(), maxima.begin() + (k - 1), maxima.end(), std::greater<>());
  return maxima[k - 1];
}

// A bit for each of kLanes scores that exceeds the threshold.
std::uint32_t exceeding(const float* scores, float threshold) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(_mm512_loadu_ps(scores), _mm512_set1_ps(threshold), _CMP_GT_OQ);
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(scores), _mm256_set1_ps(threshold), _CMP_GT_OQ));
#else
  std::uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= std::uint32_t{scores[i] > threshold} << i;
  return bits;
#endif
}

// Keys of the scores above the threshold; where these are many, of the best k among them and perhaps of others.
void collect(std::span<const float> scores, std::size_t k, float threshold, std::vector<std::uint64_t>& keys) {
  const std::size_t most = std::max<std::size_t>(2 * k, 128) + kLanes, n = scores.size();
  keys.resize(most);
  std::size_t found = 0, i = 0;
  const auto shrink = [&] {
    std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.begin() + found, std::greater<>());
    found = k;
    threshold = score_of(keys[k - 1]);  // to exceed; of equal scores the smaller index, which came earlier, wins
  };
  for (; i + kLanes <= n; i += kLanes) {
    for (std::uint32_t bits = exceeding(scores.data() + i, threshold); bits != 0; bits &= bits - 1) {
      const auto at = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(bits));
      keys[found++] = key_of(scores[at], at);
    }
    if (found + kLanes > most) shrink();
  }
  for (; i < n; ++i)
    if (scores[i] > threshold) keys[found++] = key_of(scores[i], static_cast<std::uint32_t>(i));
  keys.resize(found);
}

// The k largest keys, or all, in descending order; they are all different.
void put_in_order(std::vector<std::uint64_t>& keys, std::span<std::int32_t> top) {
  const std::size_t n = keys.size(), k = top.size();
  if (n <= kFewKeys) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t key = keys[i];
      std::uint64_t before = 0;
#pragma omp simd reduction(+ : before)
      for (std::size_t j = 0; j < n; ++j) before += keys[j] > key;
      if (before < k) top[before] = item_of(key);
    }
  } else {
    if (n > k) std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.end(), std::greater<>());
    std::sort(keys.begin(), keys.begin() + std::min(n, k), std::greater<>());
    for (std::size_t i = 0; i < std::min(n, k); ++i) top[i] = item_of(keys[i]);
  }
  for (std::size_t i = n; i < k; ++i) top[i] = -1;
}

}  // namespace

bool prepare_row(std::span<float> scores, std::int64_t n_items, std::span<const std::int32_t> excluded) {
  int unusual = 0, nan = 0;  // rows are seldom written to: hardly any has a score of -infinity
#pragma omp simd reduction(| : unusual)
  for (std::int64_t i = 0; i < n_items; ++i) unusual |= !(scores[i] >= kWorst);
  for (std::int64_t i = 0; unusual && i < n_items; ++i) {
    nan |= scores[i] != scores[i];
    scores[i] = scores[i] < kWorst ? kWorst : scores[i];
  }
  for (const std::int32_t item : excluded) scores[item] = kExcluded;
  std::fill(scores.begin() + n_items, scores.end(), kExcluded);
  return nan == 0;
}

void exclude_others(std::span<float> scores, std::span<const std::uint8_t> allowed) {
  const auto n = static_cast<std::int64_t>(allowed.size());
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) scores[i] = allowed[i] ? scores[i] : kExcluded;
}

void rank_items(std::span<const float> scores, std::span<const std::int32_t> test, std::span<TestRank> test_ranks) {
  const auto n = static_cast<std::int64_t>(scores.size());
  for (std::size_t t = 0; t < test.size(); ++t) {
    const float score = scores[test[t]];
    std::int32_t above = 0, tied = 0;
#pragma omp simd reduction(+ : above, tied)
    for (std::int64_t i = 0; i < n; ++i) {
      above += scores[i] > score;
      tied += scores[i] == score;
    }
    // Ties are rare; only then are the earlier tied items counted.
    std::int32_t tied_before = 0;
    if (tied > 1)
      for (std::int32_t i = 0; i < test[t]; ++i) tied_before += scores[i] == score;
    test_ranks[t] = {above + tied_before + 1, above, tied};
  }
  // So far the user's other test items are among those above and tied; the negatives are the rest.
  for (std::size_t t = 0; t < test.size(); ++t)
    for (const std::int32_t other : test) {
      test_ranks[t].negatives_above -= scores[other] > scores[test[t]];
      test_ranks[t].negatives_tied -= scores[other] == scores[test[t]];
    }
}

void top_k(std::span<const float> scores, std::span<std::int32_t> top, TopBuffer& buffer) {
  const std::size_t k = top.size();
  if (k == 0) return;
  const float least = least_score(scores, k, buffer.maxima);
  // Numbers next to 0 are not told apart where a library has switched them off in the processor.
  constexpr float kSmallest = std::numeric_limits<float>::min();
  collect(scores, k, std::abs(least) < kSmallest ? -kSmallest : std::nextafter(least, kExcluded), buffer.keys);
  put_in_order(buffer.keys, top);
}

}  // namespace tastespace
