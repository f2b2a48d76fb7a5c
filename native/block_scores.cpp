#include "block_scores.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "simd.hpp"

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

Vec load(const float* from) { return simd::load<Vec>(from); }

void fold(float* best, Vec value) {
  const Vec old = load(best);
  simd::store<Vec>(best, value > old ? value : old);
}

// R rows of vectors against one panel of items.
template <int R>
void panel_scores(const float* panel, const float* item_terms, const float* rows, const float* row_terms,
                  const std::int32_t* owner, std::int64_t dim, float scale, float* scores,
                  std::int64_t stride) {
  Vec low[R] = {}, high[R] = {};
  for (std::int64_t k = 0; k < dim; ++k) {
    const Vec a = load(panel + k * kWidth), b = load(panel + k * kWidth + kLanes);
    for (int r = 0; r < R; ++r) {
      const float x = rows[r * dim + k];
      low[r] += a * x;
      high[r] += b * x;
    }
  }
  const Vec term_low = load(item_terms), term_high = load(item_terms + kLanes);
  for (int r = 0; r < R; ++r) {
    float* best = scores + owner[r] * stride;
    fold(best, low[r] * scale + (term_low + row_terms[r]));
    fold(best + kLanes, high[r] * scale + (term_high + row_terms[r]));
  }
}

using PanelScores = decltype(&panel_scores<1>);

template <int... R>
constexpr auto make_table(std::integer_sequence<int, R...>) {
  return std::array<PanelScores, sizeof...(R)>{&panel_scores<R + 1>...};
}
constexpr auto kPanelScores = make_table(std::make_integer_sequence<int, kRows>{});

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

void score_block(const PackedItems& items, const VectorRows& rows, float scale, std::int64_t n_owners,
                std::span<float> scores) {
  const std::int64_t stride = items.padded_items(), dim = items.dim();
  const auto n_rows = static_cast<std::int64_t>(rows.owner.size());
  std::fill_n(scores.begin(), n_owners * stride, -std::numeric_limits<float>::infinity());
  // Panels outside, rows inside: a panel stays in the first-level cache while all rows are scored against it.
  for (std::int64_t p = 0; p < items.n_panels(); ++p) {
    for (std::int64_t r = 0; r < n_rows; r += kRows) {
      const auto n = static_cast<std::size_t>(std::min<std::int64_t>(kRows, n_rows - r));
      kPanelScores[n - 1](items.panel(p), items.terms(p), rows.vectors.data() + r * dim, rows.terms.data() + r,
                          rows.owner.data() + r, dim, scale, scores.data() + p * kWidth, stride);
    }
  }
}

}  // namespace tastespace
