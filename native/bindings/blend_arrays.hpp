// Arguments of a blend's scores: objects of Python that hold the arrays of its members, and views of them for the kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "rank/blend_scores.hpp"
#include "ranking_arrays.hpp"

namespace tastespace::bindings {

// What past items add, as a matrix: dense, sparse, or products of vectors. Columns of a sparse one are checked once.
struct PastRowsArrays {
  std::optional<Matrix<float>> dense;
  std::optional<Array<std::int64_t>> offsets;
  std::optional<Array<std::int32_t>> columns;
  std::optional<Array<float>> values;
  std::optional<Matrix<float>> vectors;
  std::optional<Array<double>> factors;
  nb::object packed;  // keeps the items alive
  std::int64_t n_items = 0;

  void put_into(tastespace::BlendMember& member) const {
    if (dense)
      member.scores = tastespace::DenseRows{view(*dense)};
    else if (offsets)
      member.scores = tastespace::SparseRows{view(*offsets), view(*columns), view(*values)};
    else
      member.scores =
          tastespace::PastVectors{view(*vectors), view(*factors), &nb::cast<const tastespace::PackedItems&>(packed)};
  }
};

// A blend, with the objects that keep its arrays alive.
struct BlendArrays {
  tastespace::Blend blend;
  std::vector<nb::object> held;
  std::vector<const ScoringArrays*> spaces;
  ItemListArrays past, disliked;
  Array<std::int32_t> taste_of_past;
  Array<std::int64_t> taste_offsets;
  std::optional<ItemListArrays> sets;  // of categories, which many items share
  std::optional<Array<std::int32_t>> set_of_item;

  bool has_given() const {
    for (const auto& member : blend.members)
      if (std::holds_alternative<tastespace::GivenScores>(member.scores)) return true;
    return false;
  }
  bool splits() const {
    for (const auto& member : blend.members)
      if (member.of_past()) return true;
    return false;
  }
  bool has_rest() const {
    for (const auto& member : blend.members)
      if (!member.of_past()) return true;
    return false;
  }

  // What can have been written to since the object was made, of these users.
  void require(std::span<const std::int32_t> users, int threads) const {
    require_least("threads", threads, 1);
    past.require("past", users, blend.n_items);
    disliked.require("disliked", users, blend.n_items);
    for (const ScoringArrays* space : spaces) space->require(users, threads);
    for (const std::int32_t user : users) {
      const std::int64_t n_tastes = blend.n_tastes(user), from = blend.past.offsets[user];
      require_least("tastes of a user", n_tastes, 1);
      require_indices("taste_of_past", blend.taste_of_past.subspan(from, blend.past.offsets[user + 1] - from), n_tastes);
    }
  }
};

}  // namespace tastespace::bindings
