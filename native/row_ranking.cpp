#include "row_ranking.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace tastespace {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr int kScan = 64;  // scores compared with the threshold at once

constexpr std::size_t kSample = 256;  // scores from which a threshold is guessed,
constexpr std::size_t kLongList = 64;  // for lists of this length or longer

bool before(const TopBuffer::Entry& a, const TopBuffer::Entry& b) {
  return a.score != b.score ? a.score > b.score : a.item < b.item;
}

// A score that somewhat more than k scores exceed, by the order of every n / kSample-th one; -infinity where there are too
// few scores to guess.
float guess_threshold(std::span<const float> scores, std::size_t k) {
  const std::size_t n = scores.size(), stride = n / kSample;
  if (k < kLongList || stride < 2) return kExcluded;
  // 1.25 times the places that k would have in the sample, and a few more against chance.
  const std::size_t place = k * kSample * 5 / (n * 4) + 8;
  if (place >= kSample / 2) return kExcluded;
  std::array<float, kSample> sample;
  for (std::size_t i = 0; i < kSample; ++i) sample[i] = scores[i * stride];
  std::nth_element(sample.begin(), sample.begin() + place, sample.end(), std::greater<>());
  return sample[place];
}

// The best k of the entries with a score above the threshold, in no order.
void collect(std::span<const float> scores, std::size_t k, float threshold, std::vector<TopBuffer::Entry>& entries) {
  entries.clear();
  const auto shrink = [&] {
    std::nth_element(entries.begin(), entries.begin() + (k - 1), entries.end(), before);
    entries.resize(k);
    threshold = entries[k - 1].score;  // to exceed; of equal scores the smaller index, which came earlier, wins
  };
  const std::size_t capacity = std::max<std::size_t>(2 * k, 128);
  const std::size_t n = scores.size();
  for (std::size_t start = 0; start < n; start += kScan) {
    const std::size_t end = std::min(n, start + kScan);
    int any = 0;
#pragma omp simd reduction(| : any)
    for (std::size_t i = start; i < end; ++i) any |= scores[i] > threshold;
    if (!any) continue;
    for (std::size_t i = start; i < end; ++i)
      if (scores[i] > threshold) entries.push_back({scores[i], static_cast<std::int32_t>(i)});
    if (entries.size() >= capacity) shrink();
  }
  if (entries.size() > k) shrink();
}

}  // namespace

bool prepare_row(std::span<float> scores, std::int64_t n_items, std::span<const std::int32_t> excluded) {
  int nan = 0;
  constexpr float kWorst = std::numeric_limits<float>::lowest();
#pragma omp simd reduction(| : nan)
  for (std::int64_t i = 0; i < n_items; ++i) {
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
  auto& entries = buffer.entries;
  entries.clear();
  if (k == 0) return;
  const float guess = guess_threshold(scores, k);
  collect(scores, k, guess, entries);
  if (entries.size() < k && guess > kExcluded) collect(scores, k, kExcluded, entries);
  std::sort(entries.begin(), entries.end(), before);
  for (std::size_t i = 0; i < k; ++i) top[i] = i < entries.size() ? entries[i].item : -1;
}

}  // namespace tastespace
