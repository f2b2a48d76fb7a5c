// Rankings of all items for many users, by vectors or by scores.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "rank/block_scores.hpp"
#include "rank/interest_ranking.hpp"
#include "rank/pair_scores.hpp"
#include "rank/row_ranking.hpp"
#include "rank/user_ranking.hpp"

namespace tastespace::bindings {
namespace {

auto give_ranked(tastespace::Ranked&& ranked, std::size_t n_users, std::int64_t k) {
  static_assert(sizeof(tastespace::TestRank) == 3 * sizeof(std::int32_t));
  const std::size_t n_test_items = ranked.test_ranks.size();
  return std::make_tuple(give_matrix<std::int32_t>(std::move(ranked.test_ranks), n_test_items, 3),
                         give_matrix<std::int32_t>(std::move(ranked.top), n_users, k), ranked.nan_user);
}

auto give_mixed(tastespace::MixedLists&& lists, std::size_t n_users, std::int64_t k) {
  return std::make_tuple(give_matrix<std::int32_t>(std::move(lists.top), n_users, k),
                         give_matrix<std::int32_t>(std::move(lists.interests), n_users, k), lists.nan_user);
}

// What a mix of interests needs besides vectors: a weight for each vector of the users, and how to mix.
void require_mix(const Array<double>& weights, const Array<std::int64_t>& vector_offsets,
                 const Array<std::int32_t>& users, double diversity, std::int64_t depth, std::int64_t k) {
  std::size_t n = 0;
  for (const std::int32_t user : view(users)) n += view(vector_offsets)[user + 1] - view(vector_offsets)[user];
  require_size("weights", weights.size(), n, "one per vector of the users");
  require_numbers("weights", view(weights));
  require_numbers("diversity", std::span<const double>(&diversity, 1));
  require_least("depth", depth, 0);
  require_least("k", k, 0);
}

}  // namespace

void bind_ranking(nb::module_& m) {
  nb::class_<tastespace::PackedItems>(m, "PackedItems")
      .def(
          "__init__",
          [](tastespace::PackedItems* self, Matrix<float> vectors, Array<float> terms) {
            require_size("terms", terms.size(), vectors.shape(0), "one per item");
            nb::gil_scoped_release free;
            new (self) tastespace::PackedItems(view(vectors), view(terms), static_cast<std::int64_t>(vectors.shape(0)),
                                               static_cast<std::int64_t>(vectors.shape(1)));
          },
          "vectors"_a, "terms"_a)
      .def_prop_ro("n_items", &tastespace::PackedItems::n_items)
      .def_prop_ro("dim", &tastespace::PackedItems::dim);

  m.def(
      "rank_with_vectors",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Array<std::int32_t> users,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items,
         Array<std::int64_t> test_offsets, Array<std::int32_t> test_items, std::int64_t k, int threads,
         std::optional<Array<std::uint8_t>> allowed) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_lists("test_offsets", "test_items", view(test_offsets), view(test_items), view(users), items.n_items());
        require_least("k", k, 0);
        std::span<const std::uint8_t> mask;
        if (allowed) {
          require_size("allowed", allowed->size(), static_cast<std::size_t>(items.n_items()), "one per item");
          mask = view(*allowed);
        }
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          out = tastespace::rank_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(users),
              {view(excluded_offsets), view(excluded_items)}, {view(test_offsets), view(test_items)}, k, threads, mask);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
      "users"_a, "excluded_offsets"_a, "excluded_items"_a, "test_offsets"_a, "test_items"_a, "k"_a,
      "threads"_a, "allowed"_a = nb::none());

  m.def(
      "rank_with_scores",
      [](Matrix<float> scores, Array<std::int32_t> users, Array<std::int64_t> excluded_offsets,
         Array<std::int32_t> excluded_items, Array<std::int64_t> test_offsets,
         Array<std::int32_t> test_items, std::int64_t k, int threads) {
        const auto n_items = static_cast<std::int64_t>(scores.shape(1));
        require_size("scores", scores.shape(0), users.size(), "a row per user");
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      n_items);
        require_lists("test_offsets", "test_items", view(test_offsets), view(test_items), view(users), n_items);
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          out = tastespace::rank_with_scores(view(scores), static_cast<std::int64_t>(scores.shape(1)),
                                             view(users), {view(excluded_offsets), view(excluded_items)},
                                             {view(test_offsets), view(test_items)}, k, threads);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "scores"_a, "users"_a, "excluded_offsets"_a, "excluded_items"_a, "test_offsets"_a, "test_items"_a,
      "k"_a, "threads"_a);

  m.def(
      "mix_with_vectors",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Array<std::int32_t> users,
         Array<double> weights, Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items,
         double diversity, std::int64_t depth, std::int64_t k, int threads) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_mix(weights, vector_offsets, users, diversity, depth, k);
        tastespace::MixedLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::mix_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(users),
              view(weights), {view(excluded_offsets), view(excluded_items)}, {diversity, depth, k}, threads);
        }
        return give_mixed(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
      "users"_a, "weights"_a, "excluded_offsets"_a, "excluded_items"_a, "diversity"_a, "depth"_a, "k"_a,
      "threads"_a);

  m.def(
      "mix_with_scores",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Matrix<float> scores,
         Array<std::int32_t> users, Array<double> weights, Array<std::int64_t> excluded_offsets,
         Array<std::int32_t> excluded_items, double diversity, std::int64_t depth, std::int64_t k, int threads) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_size("scores", scores.shape(0), users.size(), "a row per user");
        require_size("scores", scores.shape(1), static_cast<std::size_t>(items.n_items()), "a column per item");
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_mix(weights, vector_offsets, users, diversity, depth, k);
        tastespace::MixedLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::mix_with_scores(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(scores),
              view(users), view(weights), {view(excluded_offsets), view(excluded_items)}, {diversity, depth, k},
              threads);
        }
        return give_mixed(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
      "scores"_a, "users"_a, "weights"_a, "excluded_offsets"_a, "excluded_items"_a, "diversity"_a, "depth"_a,
      "k"_a, "threads"_a);

  m.def(
      "pair_scores",
      [](Matrix<float> user_vectors, Array<std::int64_t> offsets, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, Array<std::int32_t> users, Array<std::int32_t> items, int threads) {
        require_size("items", items.size(), users.size(), "one per user");
        require_size("user_vectors", user_vectors.shape(1), item_vectors.shape(1), "coordinates of a vector, as of items");
        require_rows("offsets", view(offsets), user_vectors.shape(0), view(users));
        require_indices("items", view(items), static_cast<std::int64_t>(item_vectors.shape(0)));
        if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), item_vectors.shape(0), "one per item");
        require_least("threads", threads, 1);
        tastespace::PairScores out;
        {
          nb::gil_scoped_release free;
          out = tastespace::pair_scores(view(user_vectors), view(offsets), view(item_vectors),
                                        static_cast<std::int64_t>(item_vectors.shape(1)),
                                        {by_distance, view(item_bias)}, view(users), view(items), threads);
        }
        return std::make_tuple(give(std::move(out.score)), give(std::move(out.interest)));
      },
      "user_vectors"_a, "offsets"_a, "item_vectors"_a, "by_distance"_a, "item_bias"_a, "users"_a, "items"_a,
      "threads"_a);
}

}  // namespace tastespace::bindings
