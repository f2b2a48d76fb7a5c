// Scores of a blend of models, from the members to lists, for a few users at a time.
//
// A user's past items are grouped into tastes. Members whose scores are sums over past items are added up taste by taste;
// what the others say of an item goes to the tastes in proportion to what raises its score. Every member's scores are
// standardized for each user. No scores of all users are ever in memory: a thread works on some users, whose rows stay
// in the second-level cache, and keeps what is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "rank/block_scores.hpp"
#include "rank/user_lists.hpp"
#include "rank/user_ranking.hpp"

namespace tastespace {

// What a past item adds to the scores of all items: a row of a matrix.
struct DenseRows {
  std::span<const float> values;  // n_items x n_items
};
struct SparseRows {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> columns;
  std::span<const float> values;
};
// The same as the inner product of its vector, times its factor, with the vectors of all items.
struct PastVectors {
  std::span<const float> vectors;
  std::span<const double> factors;
  const PackedItems* items;
};
// Scores that are not sums over past items: from vectors and, with a temperature above 0, exp((score - largest) /
// temperature).
struct VectorScores {
  ScoringVectors space;
  float temperature = 0.0f;
};
// Scores that are computed elsewhere for the users of a call: a row for each of their tastes and, behind all of these, for
// each of the users what disliked items say (`of_past`); or a row for each user.
struct GivenScores {
  bool of_past = false;
};

struct BlendMember {
  std::variant<DenseRows, SparseRows, PastVectors, VectorScores, GivenScores> scores;
  double weight = 0.0;
  std::span<const float> past_weights;  // of the interactions; empty: all are 1

  bool of_past() const {
    if (const auto* given = std::get_if<GivenScores>(&scores)) return given->of_past;
    return !std::holds_alternative<VectorScores>(scores);
  }
};

// Minus the logarithm of the share of the user's history that an item's categories hold, times `factor`.
struct CategoryBalance {
  float factor = 0.0f;
  std::int64_t n_categories = 0;
  Lists sets;                                 // of categories: many items have the same ones
  std::span<const std::int32_t> set_of_item;
};

struct Blend {
  std::vector<BlendMember> members;
  std::int64_t n_items = 0;
  Lists past, disliked;                        // of all users
  std::span<const std::int32_t> taste_of_past;  // of each interaction, from 0 for each user
  std::span<const std::int64_t> taste_offsets;  // user u has the tastes taste_offsets[u] ... taste_offsets[u + 1] - 1
  double focus = 0.0, lift = 0.0;
  CategoryBalance balance;

  std::int64_t n_tastes(std::int32_t user) const { return taste_offsets[user + 1] - taste_offsets[user]; }
};

// Users of a call, and what depends on them.
struct BlendCall {
  std::span<const std::int32_t> users;
  std::vector<std::span<const float>> given;  // of each member: see `GivenScores`; empty for all others
  std::span<const std::int32_t> nearest;      // n_users x n_items, the taste that is nearest to each item: needed where no
                                              // member is a sum over past items
  std::span<const double> factors;            // of each of the users' tastes in turn; empty: all are 1
  int threads = 1;
};

// The first user with a member whose scores are not finite; -1: there is none.
struct BadScores {
  std::int64_t user = -1, member = -1;
};

struct BlendParts {
  std::vector<float> values;  // a row for each taste of the users
  std::vector<float> added;   // n_users x 1, or x n_items where it is not the same for all items
  std::vector<double> scales;  // n_users x n_members: weight / standard deviation of the member's scores, or 0
  BadScores bad;
};
BlendParts blend_parts(const Blend& blend, const BlendCall& call);

struct BlendTotals {
  std::vector<float> scores;            // n_users x n_items
  std::vector<std::int32_t> strongest;  // the taste that says most for the item, likewise
  BadScores bad;
};
BlendTotals blend_totals(const Blend& blend, const BlendCall& call);

struct BlendLists : UserLists {
  std::vector<double> scales;  // as of BlendParts
  BadScores bad;
};
// The k best items of each user; excluded items are by user of the model.
BlendLists blend_lists(const Blend& blend, const BlendCall& call, const Lists& excluded, std::int64_t k,
                       std::span<const std::uint8_t> allowed);

}  // namespace tastespace
