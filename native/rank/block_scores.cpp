#include "rank/block_scores.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "core/simd.hpp"

namespace tastespace {
namespace {

using simd::kLanes, simd::Vec;

// User vectors scored against a panel at once: as many as the registers can accumulate.
#if defined(__AVX512F__)
constexpr int kRows = 12;  // 24 of 32 registers
#else
constexpr int kRows = 6;  // 12 of 16
#endif
constexpr int kWidth = 2 * kLanes;  // items per panel

typedef std::int32_t Ints __attribute__((vector_size(kLanes * sizeof(std::int32_t))));

Vec load(const float* from) { return simd::load<Vec>(from); }

void fold(float* best, Vec value) {
  const Vec old = load(best);
  simd::store<Vec>(best, value > old ? value : old);
}

// The same, and keeps which vector the value came from: of equal values the first, because rows come in order.
void fold(float* best, Vec value, std::int32_t* interest, std::int32_t number) {
  const Vec old = load(best);
  const auto larger = value > old;
  simd::store<Vec>(best, larger ? value : old);
  Ints known;
  std::memcpy(&known, interest, sizeof(Ints));
  const Ints now = larger ? Ints{} + number : known;
  std::memcpy(interest, &now, sizeof(Ints));
}

// The scores of a panel to which a group of rows of vectors adds its own.
struct PanelTarget {
  const std::int32_t* owner;
  float* scores;
  std::int64_t stride;
  const std::int32_t* numbers;  // with the interests
  std::int32_t* interests;
};

// Panels scored together where there are few rows: each row then has several sums at once, and no sum waits for itself.
constexpr int panels_for(int rows) {
  constexpr int kSums = kRows;  // of registers; half of all that accumulate
  return rows * 4 <= kSums ? 4 : rows * 2 <= kSums ? 2 : 1;
}

// R rows of vectors against P panels of items that follow each other.
template <int R, int P, bool kInterests>
void panel_scores(const float* panel, const float* item_terms, const float* rows, const float* row_terms,
                  std::int64_t dim, float scale, const PanelTarget& to) {
  Vec low[P][R] = {}, high[P][R] = {};
  for (std::int64_t k = 0; k < dim; ++k)
    for (int p = 0; p < P; ++p) {
      const float* from = panel + (p * dim + k) * kWidth;
      const Vec a = load(from), b = load(from + kLanes);
      for (int r = 0; r < R; ++r) {
        const float x = rows[r * dim + k];
        low[p][r] += a * x;
        high[p][r] += b * x;
      }
    }
  for (int p = 0; p < P; ++p) {
    const Vec term_low = load(item_terms + p * kWidth), term_high = load(item_terms + p * kWidth + kLanes);
    for (int r = 0; r < R; ++r) {
      const std::int64_t at = to.owner[r] * to.stride + p * kWidth;
      const Vec first = low[p][r] * scale + (term_low + row_terms[r]);
      const Vec second = high[p][r] * scale + (term_high + row_terms[r]);
      if constexpr (kInterests) {
        fold(to.scores + at, first, to.interests + at, to.numbers[r]);
        fold(to.scores + at + kLanes, second, to.interests + at + kLanes, to.numbers[r]);
      } else {
        fold(to.scores + at, first);
        fold(to.scores + at + kLanes, second);
      }
    }
  }
}

using PanelScores = decltype(&panel_scores<1, 1, false>);

template <bool kInterests, bool kTogether, int... R>
constexpr auto make_table(std::integer_sequence<int, R...>) {
  return std::array<PanelScores, sizeof...(R)>{&panel_scores<R + 1, kTogether ? panels_for(R + 1) : 1, kInterests>...};
}

template <bool kInterests>
void add_scores(const PackedItems& items, const VectorRows& rows, float scale, std::int64_t n_owners,
                std::span<float> scores, std::span<const std::int32_t> numbers, std::span<std::int32_t> interests) {
  constexpr auto kOne = make_table<kInterests, false>(std::make_integer_sequence<int, kRows>{});
  constexpr auto kTogether = make_table<kInterests, true>(std::make_integer_sequence<int, kRows>{});
  const std::int64_t stride = items.padded_items(), dim = items.dim();
  const auto n_rows = static_cast<std::int64_t>(rows.owner.size());
  std::fill_n(scores.begin(), n_owners * stride, -std::numeric_limits<float>::infinity());
  const std::int64_t step = n_rows < kRows ? panels_for(static_cast<int>(std::max<std::int64_t>(1, n_rows))) : 1;
  // Panels outside, rows inside: a panel stays in the first-level cache while all rows are scored against it.
  for (std::int64_t p = 0, n_panels; p < items.n_panels(); p += n_panels) {
    n_panels = p + step <= items.n_panels() ? step : 1;
    for (std::int64_t r = 0; r < n_rows; r += kRows) {
      const auto n = static_cast<std::size_t>(std::min<std::int64_t>(kRows, n_rows - r));
      PanelTarget to{rows.owner.data() + r, scores.data() + p * kWidth, stride, nullptr, nullptr};
      if constexpr (kInterests) {
        to.numbers = numbers.data() + r;
        to.interests = interests.data() + p * kWidth;
      }
      const PanelScores add = n_panels > 1 ? kTogether[n - 1] : kOne[n - 1];
      add(items.panel(p), items.terms(p), rows.vectors.data() + r * dim, rows.terms.data() + r, dim, scale, to);
    }
  }
}

}  // namespace

PackedItems::PackedItems(std::span<const float> vectors, std::span<const float> terms, std::int64_t n_items,
                         std::int64_t dim)
    : n_items_(n_items), dim_(dim), n_panels_((n_items + kWidth - 1) / kWidth) {
  packed_.assign(static_cast<std::size_t>(n_panels_ * dim * kWidth), 0.0f);
  // The padding's term makes its score -infinity: it never enters a list or a rank.
  terms_.assign(static_cast<std::size_t>(n_panels_ * kWidth), -std::numeric_limits<float>::infinity());
  for (std::int64_t item = 0; item < n_items; ++item) {
    float* panel = packed_.data() + item / kWidth * dim * kWidth + item % kWidth;
    for (std::int64_t k = 0; k < dim; ++k) panel[k * kWidth] = vectors[item * dim + k];
    terms_[item] = terms[item];
  }
}

std::int64_t PackedItems::padded_items() const { return n_panels_ * kWidth; }
const float* PackedItems::panel(std::int64_t p) const { return packed_.data() + p * dim_ * kWidth; }
const float* PackedItems::terms(std::int64_t p) const { return terms_.data() + p * kWidth; }

void GatheredRows::gather(const UserVectors& model, std::span<const std::int32_t> users, std::int64_t dim) {
  vectors_.clear();
  terms_.clear();
  owner_.clear();
  numbers_.clear();
  for (std::size_t u = 0; u < users.size(); ++u) {
    const std::int64_t from = model.offsets[users[u]], to = model.offsets[users[u] + 1];
    vectors_.insert(vectors_.end(), model.vectors.begin() + from * dim, model.vectors.begin() + to * dim);
    terms_.insert(terms_.end(), model.terms.begin() + from, model.terms.begin() + to);
    owner_.insert(owner_.end(), to - from, static_cast<std::int32_t>(u));
    for (std::int64_t x = from; x < to; ++x) numbers_.push_back(static_cast<std::int32_t>(x - from));
  }
}

void score_block(const PackedItems& items, const VectorRows& rows, float scale, std::int64_t n_owners,
                 std::span<float> scores) {
  add_scores<false>(items, rows, scale, n_owners, scores, {}, {});
}

void score_block(const PackedItems& items, const GatheredRows& gathered, float scale, std::int64_t n_owners,
                 std::span<float> scores, std::span<std::int32_t> interests) {
  std::fill_n(interests.begin(), n_owners * items.padded_items(), 0);
  add_scores<true>(items, gathered.rows(), scale, n_owners, scores, gathered.numbers(), interests);
}

}  // namespace tastespace
