// Arguments of ranking and lists: objects of Python that hold arrays, and views of them for the kernels. Sizes are
// checked when an object is made; offsets and indices, which can be written to, when a kernel reads them.
#pragma once

#include <optional>
#include <string>

#include "arrays.hpp"
#include "rank/block_scores.hpp"
#include "rank/pair_scores.hpp"
#include "rank/user_lists.hpp"
#include "rank/user_ranking.hpp"

namespace tastespace::bindings {

// The vectors of users: user u owns the rows offsets[u] ... offsets[u + 1] - 1.
struct UserVectorArrays {
  Matrix<float> vectors;
  Array<std::int64_t> offsets;

  void require_users(std::span<const std::int32_t> users) const {
    require_rows("vector_offsets", view(offsets), vectors.shape(0), users);
  }
  // Vectors that these users own together.
  std::size_t n_vectors(std::span<const std::int32_t> users) const {
    std::size_t n = 0;
    for (const std::int32_t user : users) n += offsets.data()[user + 1] - offsets.data()[user];
    return n;
  }
  tastespace::UserVectors views() const { return {view(vectors), {}, view(offsets)}; }
};

// Users and items whose scores are computed.
struct ScoringArrays {
  UserVectorArrays users;
  Array<float> terms;
  nb::object packed;  // keeps `items` alive
  const tastespace::PackedItems* items;
  float scale;

  std::int64_t n_items() const { return items->n_items(); }
  void require(std::span<const std::int32_t> rows, int threads) const {
    require_least("threads", threads, 1);
    users.require_users(rows);
  }
  tastespace::ScoringVectors views() const {
    return {items, {view(users.vectors), view(terms), view(users.offsets)}, scale};
  }
};

// Items for scores from the differences themselves.
struct ExactItemArrays {
  Matrix<float> vectors;
  bool by_distance;
  Array<float> bias;

  std::int64_t n_items() const { return static_cast<std::int64_t>(vectors.shape(0)); }
  tastespace::Comparison comparison() const { return {by_distance, view(bias)}; }
  tastespace::ExactItems views(std::span<const std::int32_t> rows = {}) const {
    return {view(vectors), comparison(), rows};
  }
};

// A list of items for each user.
struct ItemListArrays {
  Array<std::int64_t> offsets;
  Array<std::int32_t> items;

  // `name` says which lists they are: "excluded", "test".
  void require(const std::string& name, std::span<const std::int32_t> users, std::int64_t n_items) const {
    require_lists((name + "_offsets").c_str(), (name + "_items").c_str(), view(offsets), view(items), users, n_items);
  }
  tastespace::Lists views() const { return {view(offsets), view(items)}; }
};

// 1 for each item that is a candidate; empty: all are.
using Mask = std::optional<Array<std::uint8_t>>;
inline std::span<const std::uint8_t> mask_view(const Mask& allowed, std::int64_t n_items) {
  if (!allowed) return {};
  require_size("allowed", allowed->size(), static_cast<std::size_t>(n_items), "one per item");
  return view(*allowed);
}

}  // namespace tastespace::bindings
