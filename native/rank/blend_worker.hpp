// One thread's work on the scores of a blend: see blend_scores.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/aligned.hpp"
#include "core/simd.hpp"
#include "rank/blend_scores.hpp"
#include "rank/moments.hpp"

namespace tastespace::blend {

using simd::kLanes, simd::load, simd::store, simd::Vec;

inline constexpr std::int64_t kWidth = 2 * kLanes;  // rows are padded to whole panels, as of PackedItems
inline constexpr std::int64_t kRowsAtOnce = 8;      // rows of a matrix that are added together: memory has time to answer
inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

// A past item and its weight; those of one taste follow each other.
struct PastItem {
  std::int32_t item;
  std::int32_t at;  // among the interactions
};

// Rows of one user: what each taste says, the scores that are not split, and what is added.
struct UserRows {
  std::int64_t n_tastes = 0, stride = 0;
  AlignedVector<float> values;  // n_tastes x stride
  AlignedVector<float> added;   // stride, or nothing
  double constant = 0.0;        // added to all items; part of `added` where that is not empty
  std::vector<float> shares, lifts;

  const float* taste(std::int64_t x) const { return values.data() + x * stride; }
  float* taste(std::int64_t x) { return values.data() + x * stride; }
};

// Add rows of a matrix to `to`: kRowsAtOnce at a time, each sum in the order of the rows.
template <bool kWeighted>
void add_rows(float* to, const float* const* rows, const float* weights, std::int64_t n_rows, std::int64_t n) {
  const auto add = [&](std::int64_t first, auto count) {
    constexpr int kCount = decltype(count)::value;
    const float* from[kCount];
    float factors[kCount];
    for (int r = 0; r < kCount; ++r) from[r] = rows[first + r], factors[r] = kWeighted ? weights[first + r] : 1.0f;
    std::int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes) {
      Vec sum = load<Vec>(to + k);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const Vec row = load<Vec>(from[r] + k);
        sum += kWeighted ? row * factors[r] : row;
      }
      store(to + k, sum);
    }
    for (; k < n; ++k)
      for (int r = 0; r < kCount; ++r) to[k] += kWeighted ? from[r][k] * factors[r] : from[r][k];
  };
  std::int64_t r = 0;
  for (; r + kRowsAtOnce <= n_rows; r += kRowsAtOnce) add(r, std::integral_constant<int, kRowsAtOnce>());
  if (r + 4 <= n_rows) add(r, std::integral_constant<int, 4>()), r += 4;
  if (r + 2 <= n_rows) add(r, std::integral_constant<int, 2>()), r += 2;
  if (r < n_rows) add(r, std::integral_constant<int, 1>());
}

class Worker {
 public:
  Worker(const Blend& blend, const BlendCall& call, std::span<const std::int64_t> first)
      : blend_(blend), call_(call), first_(first), n_(blend.n_items), stride_((n_ + kWidth - 1) / kWidth * kWidth) {
    for (const BlendMember& member : blend.members) (member.of_past() ? splits_ : has_rest_) = true;
    rows_.stride = stride_;
  }

  static std::int64_t users_at_once(const Blend& blend) {
    constexpr std::int64_t kBytes = 1 << 18, kMost = 16;  // of scores of one member
    return std::clamp<std::int64_t>(kBytes / (4 * std::max<std::int64_t>(1, blend.n_items)), 1, kMost);
  }

  // Scores of the members that are not split, standardized and added up, of the users of a tile.
  void begin(std::int64_t begin, std::int64_t end) {
    tile_ = begin;
    const std::int64_t n_users = end - begin, n_members = static_cast<std::int64_t>(blend_.members.size());
    bad_.assign(n_users, -1);
    scales_.assign(n_users * n_members, 0.0);
    if (!has_rest_) return;
    rest_.assign(n_users * stride_, 0.0f);
    for (std::int64_t m = 0; m < n_members; ++m) {
      const BlendMember& member = blend_.members[m];
      if (member.of_past()) continue;
      const auto* vectors = std::get_if<VectorScores>(&member.scores);
      if (vectors != nullptr) {
        scores_.resize(n_users * stride_);
        gathered_.gather(vectors->space.users, call_.users.subspan(begin, n_users), vectors->space.items->dim());
        score_block(*vectors->space.items, gathered_.rows(), vectors->space.scale, n_users, scores_);
      }
      for (std::int64_t u = 0; u < n_users; ++u) {
        const float* from = vectors != nullptr ? scores_.data() + u * stride_ : call_.given[m].data() + (begin + u) * n_;
        if (vectors != nullptr && vectors->temperature > 0.0f)
          exponentials(scores_.data() + u * stride_, vectors->temperature);
        const Moments moments = moments_of(from, n_);
        const double scale = scale_of(u, m, moments);
        if (scale == 0.0) continue;
        float* to = rest_.data() + u * stride_;
        const double mean = moments.mean;
#pragma omp simd
        for (std::int64_t k = 0; k < n_; ++k) to[k] += static_cast<float>(scale * (from[k] - mean));
      }
    }
  }

  // The rows of a user of the tile: parts of the tastes, with all members in them.
  void find_rows(std::int64_t at) {
    const std::int32_t user = call_.users[at];
    const std::int64_t n_tastes = rows_.n_tastes = blend_.n_tastes(user);
    rows_.values.resize(n_tastes * stride_);
    rows_.constant = 0.0;
    rows_.added.clear();
    bool is_first = true;
    sort_past(user);
    find_lifts();
    const std::span<const std::int32_t> disliked = blend_.disliked.of(user);
    for (std::size_t m = 0; m < blend_.members.size(); ++m) {
      if (!blend_.members[m].of_past()) continue;
      const float* parts = parts_of(m, at, disliked);
      add_parts(m, at, parts, !disliked.empty(), is_first);
      is_first = false;
    }
    if (is_first) std::fill(rows_.values.begin(), rows_.values.end(), 0.0f);
    if (blend_.balance.factor != 0.0f) add_balance(user);
    if (!rows_.added.empty())
      for (std::int64_t k = 0; k < stride_; ++k) rows_.added[k] += static_cast<float>(rows_.constant);
  }

  const UserRows& rows() const { return rows_; }
  std::int64_t bad_member(std::int64_t at) const { return bad_[at - tile_]; }
  const double* scales(std::int64_t at) const { return scales_.data() + (at - tile_) * blend_.members.size(); }
  std::int64_t stride() const { return stride_; }

  // Calls use(k, x, part) for all vectors of items and all tastes, with what the taste says for the items when the rest is
  // spread and tastes are lifted; before(k) and after(k) around these.
  template <class Before, class Use, class After>
  void for_parts(std::int64_t at, const Before& before, const Use& use, const After& after) const {
    const std::int64_t n_tastes = rows_.n_tastes;
    const float* rest = has_rest_ ? rest_.data() + (at - tile_) * stride_ : nullptr;
    const std::int32_t* nearest = has_rest_ && !splits_ ? call_.nearest.data() + at * n_ : nullptr;
    const Vec zero{};
    for (std::int64_t k = 0; k < stride_; k += kLanes) {
      before(k);
      Vec raising{}, ratio{}, extra{};
      if (rest != nullptr) {
        extra = load<Vec>(rest + k);
        if (splits_) {
          for (std::int64_t x = 0; x < n_tastes; ++x) raising += larger(load<Vec>(rows_.taste(x) + k), zero);
          ratio = raising > zero ? extra / raising : zero;
        }
      }
      for (std::int64_t x = 0; x < n_tastes; ++x) {
        Vec part = load<Vec>(rows_.taste(x) + k);
        if (nearest != nullptr) {
          for (int i = 0; i < kLanes && k + i < n_; ++i) part[i] += nearest[k + i] == x ? extra[i] : 0.0f;
        } else if (rest != nullptr) {
          part += raising > zero ? larger(part, zero) * ratio : extra * rows_.shares[x];
        }
        if (!rows_.lifts.empty()) part *= rows_.lifts[x];
        use(k, x, part);
      }
      after(k);
    }
  }

  // The scores of a user and the taste that says most for each item; both have `stride` entries.
  void totals(std::int64_t at, float* scores, std::int32_t* strongest) const {
    const auto of_largest = static_cast<float>(blend_.focus), of_sum = static_cast<float>(1.0 - blend_.focus);
    const auto constant = static_cast<float>(rows_.constant);
    const double* factors = call_.factors.empty() ? nullptr : call_.factors.data() + first_[at];
    bool any = factors == nullptr;
    for (std::int64_t x = 0; !any && x < rows_.n_tastes; ++x) any = static_cast<float>(factors[x]) != 0.0f;
    typedef std::int32_t Ints __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
    Vec sum, largest;
    Ints number;
    for_parts(
        at,
        [&](std::int64_t) {
          sum = Vec{};
          largest = Vec{} + kLowest;
          number = Ints{};
        },
        [&](std::int64_t, std::int64_t x, Vec part) {
          if (factors != nullptr) {
            const auto factor = static_cast<float>(factors[x]);
            if (factor == 0.0f) return;
            part *= factor;
          }
          sum += part;
          const auto is_larger = part > largest;
          number = is_larger ? Ints{} + static_cast<std::int32_t>(x) : number;
          largest = is_larger ? part : largest;
        },
        [&](std::int64_t k) {
          if (any && of_largest != 0.0f) sum = of_sum * sum + of_largest * largest;
          store(scores + k, sum + (rows_.added.empty() ? Vec{} + constant : load<Vec>(rows_.added.data() + k)));
          std::memcpy(strongest + k, &number, sizeof number);
        });
  }

 private:
  // Weight / deviation of a member's scores for a user of the tile, which is kept; 0 where they are all the same.
  double scale_of(std::int64_t u, std::int64_t member, const Moments& moments) {
    const double weight = blend_.members[member].weight;
    if (!moments.is_finite()) {
      if (bad_[u] < 0 || member < bad_[u]) bad_[u] = member;
      return 0.0;
    }
    return scales_[u * blend_.members.size() + member] = moments.deviation == 0.0 ? 0.0 : weight / moments.deviation;
  }

  void exponentials(float* scores, float temperature) const {
    Vec most = Vec{} + kLowest;  // the padding is -infinity
    for (std::int64_t k = 0; k < stride_; k += kLanes) most = larger(load<Vec>(scores + k), most);
    float largest = kLowest;
    for (int i = 0; i < kLanes; ++i) largest = std::max(largest, most[i]);
    for (std::int64_t k = 0; k < stride_; k += kLanes)
      store(scores + k, simd::exp_of_nonpositive((load<Vec>(scores + k) - largest) / temperature));
  }

  // The user's past items, those of taste 0 first, each taste in the order of the history.
  void sort_past(std::int32_t user) {
    const std::int64_t from = blend_.past.offsets[user], to = blend_.past.offsets[user + 1];
    ends_.assign(rows_.n_tastes + 1, 0);
    for (std::int64_t i = from; i < to; ++i) ++ends_[blend_.taste_of_past[i] + 1];
    for (std::int64_t x = 0; x < rows_.n_tastes; ++x) ends_[x + 1] += ends_[x];
    past_.resize(to - from);
    places_.assign(ends_.begin(), ends_.end() - 1);
    for (std::int64_t i = from; i < to; ++i)
      past_[places_[blend_.taste_of_past[i]]++] = {blend_.past.items[i], static_cast<std::int32_t>(i - from)};
    history_ = from;
  }

  // Shares of the history, 1 without any, and the factors of `lift`: with the shares as weights their mean is 1.
  void find_lifts() {
    const auto n_past = static_cast<double>(past_.size());
    rows_.shares.resize(rows_.n_tastes);
    rows_.lifts.resize(blend_.lift == 0.0 ? 0 : rows_.n_tastes);
    double mean = 0.0;
    for (std::int64_t x = 0; x < rows_.n_tastes; ++x) {
      const double share = past_.empty() ? 1.0 : static_cast<double>(ends_[x + 1] - ends_[x]) / n_past;
      rows_.shares[x] = static_cast<float>(share);
      if (rows_.lifts.empty()) continue;
      const double factor = std::pow(std::max(share, 1e-9), -blend_.lift);
      mean += share * factor;
      rows_.lifts[x] = static_cast<float>(factor);
    }
    for (float& lift : rows_.lifts) lift = static_cast<float>(lift / mean);
  }

  // What each taste says by one member, and behind the tastes what disliked items say, not standardized.
  const float* parts_of(std::size_t m, std::int64_t at, std::span<const std::int32_t> disliked) {
    const BlendMember& member = blend_.members[m];
    const std::int64_t n_tastes = rows_.n_tastes, n_rows = n_tastes + (disliked.empty() ? 0 : 1);
    parts_.resize(n_rows * stride_);
    if (std::holds_alternative<GivenScores>(member.scores)) {
      const float* given = call_.given[m].data();
      for (std::int64_t x = 0; x < n_rows; ++x) {
        const std::int64_t row = x < n_tastes ? first_[at] + x : first_.back() + at;
        std::copy_n(given + row * n_, n_, parts_.data() + x * stride_);
      }
      return parts_.data();
    }
    const float* weights = member.past_weights.empty() ? nullptr : member.past_weights.data() + history_;
    if (const auto* vectors = std::get_if<PastVectors>(&member.scores)) return products(*vectors, weights, disliked);
    const auto* dense = std::get_if<DenseRows>(&member.scores);
    for (std::int64_t x = 0; x < n_rows; ++x) {
      items_.clear();
      weights_.clear();
      if (x < n_tastes)
        for (std::int64_t i = ends_[x]; i < ends_[x + 1]; ++i) {
          items_.push_back(past_[i].item);
          if (weights != nullptr) weights_.push_back(weights[past_[i].at]);
        }
      else
        items_.assign(disliked.begin(), disliked.end());
      float* to = parts_.data() + x * stride_;
      std::fill_n(to, stride_, 0.0f);
      if (dense != nullptr)
        add_dense(*dense, to);
      else
        add_sparse(std::get<SparseRows>(member.scores), to);
    }
    return parts_.data();
  }

  void add_dense(const DenseRows& matrix, float* to) {
    pointers_.clear();
    for (const std::int32_t item : items_) pointers_.push_back(matrix.values.data() + item * n_);
    const auto n_rows = static_cast<std::int64_t>(items_.size());
    if (weights_.empty())
      add_rows<false>(to, pointers_.data(), nullptr, n_rows, n_);
    else
      add_rows<true>(to, pointers_.data(), weights_.data(), n_rows, n_);
  }

  void add_sparse(const SparseRows& matrix, float* to) const {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const std::int64_t from = matrix.offsets[items_[i]], end = matrix.offsets[items_[i] + 1];
      const float weight = weights_.empty() ? 1.0f : weights_[i];
      for (std::int64_t k = from; k < end; ++k) to[matrix.columns[k]] += weight * matrix.values[k];
    }
  }

  const float* products(const PastVectors& matrix, const float* weights, std::span<const std::int32_t> disliked) {
    const std::int64_t n_tastes = rows_.n_tastes, dim = matrix.items->dim();
    const std::int64_t n_rows = n_tastes + (disliked.empty() ? 0 : 1);
    sums_.assign(n_rows * dim, 0.0f);
    terms_.assign(n_rows, 0.0f);
    owners_.resize(n_rows);
    const auto add = [&](std::int64_t x, std::int32_t item, float weight) {
      const auto factor = static_cast<float>(weight * matrix.factors[item]);
      const float* from = matrix.vectors.data() + item * dim;
      for (std::int64_t d = 0; d < dim; ++d) sums_[x * dim + d] += factor * from[d];
    };
    for (std::int64_t x = 0; x < n_tastes; ++x)
      for (std::int64_t i = ends_[x]; i < ends_[x + 1]; ++i)
        add(x, past_[i].item, weights == nullptr ? 1.0f : weights[past_[i].at]);
    for (const std::int32_t item : disliked) add(n_tastes, item, 1.0f);
    for (std::int64_t x = 0; x < n_rows; ++x) owners_[x] = static_cast<std::int32_t>(x);
    score_block(*matrix.items, {sums_, terms_, owners_}, 1.0f, n_rows, parts_);
    return parts_.data();
  }

  // Add a member's parts, standardized by the moments of their sum.
  void add_parts(std::int64_t member, std::int64_t at, const float* parts, bool has_dislikes, bool is_first) {
    const std::int64_t n_tastes = rows_.n_tastes;
    const float* total = parts;
    if (n_tastes > 1) {
      total_.resize(stride_);
      for (std::int64_t k = 0; k < stride_; k += kLanes) {
        Vec sum = load<Vec>(parts + k);
        for (std::int64_t x = 1; x < n_tastes; ++x) sum += load<Vec>(parts + x * stride_ + k);
        store(total_.data() + k, sum);
      }
      total = total_.data();
    }
    const Moments moments = moments_of(total, n_);
    const double scale = scale_of(at - tile_, member, moments);
    if (scale != 0.0) rows_.constant -= moments.mean * scale;
    const auto factor = static_cast<float>(scale);
    for (std::int64_t k = 0; k < n_tastes * stride_; k += kLanes) {
      const Vec part = load<Vec>(parts + k) * factor;
      store(rows_.values.data() + k, is_first ? part : load<Vec>(rows_.values.data() + k) + part);
    }
    if (!has_dislikes || scale == 0.0) return;
    if (rows_.added.empty()) rows_.added.assign(stride_, 0.0f);
    const float* against = parts + n_tastes * stride_;
    for (std::int64_t k = 0; k < stride_; ++k) rows_.added[k] -= factor * against[k];
  }

  // What the categories of the items add.
  void add_balance(std::int32_t user) {
    const CategoryBalance& balance = blend_.balance;
    logs_.assign(balance.n_categories, 0.0f);
    double with_category = 0.0;
    for (const std::int32_t item : blend_.past.of(user)) {
      const std::span<const std::int32_t> own = balance.sets.of(balance.set_of_item[item]);
      with_category += !own.empty();
      for (const std::int32_t category : own) logs_[category] += 1.0f;
    }
    for (float& value : logs_)
      if (value > 0.0f)
        value = static_cast<float>(-std::log(std::min(static_cast<double>(value) / std::max(with_category, 1.0), 1.0)));
    const auto n_sets = static_cast<std::int64_t>(balance.sets.offsets.size()) - 1;
    of_sets_.assign(n_sets, 0.0f);
    for (std::int64_t set = 0; set < n_sets; ++set) {
      const std::span<const std::int32_t> own = balance.sets.of(set);
      if (own.empty()) continue;
      for (const std::int32_t category : own) of_sets_[set] += logs_[category];
      of_sets_[set] *= balance.factor / static_cast<float>(own.size());
    }
    if (rows_.added.empty()) rows_.added.assign(stride_, 0.0f);
    const std::int32_t* sets = balance.set_of_item.data();
#pragma omp simd
    for (std::int64_t item = 0; item < n_; ++item) rows_.added[item] += of_sets_[sets[item]];
  }

  const Blend& blend_;
  const BlendCall& call_;
  std::span<const std::int64_t> first_;
  std::int64_t n_, stride_, tile_ = 0, history_ = 0;
  bool splits_ = false, has_rest_ = false;
  UserRows rows_;
  GatheredRows gathered_;
  AlignedVector<float> scores_, rest_, parts_, total_;
  std::vector<float> weights_, sums_, terms_, logs_, of_sets_;
  std::vector<double> scales_;
  std::vector<std::int64_t> bad_, ends_, places_;
  std::vector<PastItem> past_;
  std::vector<std::int32_t> items_, owners_;
  std::vector<const float*> pointers_;
};

}  // namespace tastespace::blend
