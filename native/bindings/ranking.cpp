// Rankings of all items for many users, by vectors or by scores.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "rank/interest_ranking.hpp"
#include "rank/row_ranking.hpp"
#include "ranking_arrays.hpp"

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

// Weights of interests, and how to mix.
void require_mix(const Array<double>& weights, const tastespace::MixSettings& settings, int threads) {
  require_numbers("weights", view(weights));
  require_numbers("diversity", std::span<const double>(&settings.diversity, 1));
  require_least("depth", settings.depth, 0);
  require_least("k", settings.k, 0);
  require_least("threads", threads, 1);
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

  nb::class_<UserVectorArrays>(m, "UserVectors")
      .def(
          "__init__",
          [](UserVectorArrays* self, Matrix<float> vectors, Array<std::int64_t> offsets) {
            new (self) UserVectorArrays{vectors, offsets};
          },
          "vectors"_a, "offsets"_a);

  nb::class_<ScoringArrays>(m, "ScoringVectors")
      .def(
          "__init__",
          [](ScoringArrays* self, const UserVectorArrays& users, Array<float> terms, nb::object items, float scale) {
            const auto& packed = nb::cast<const tastespace::PackedItems&>(items);
            require_size("user_vectors", users.vectors.shape(1), static_cast<std::size_t>(packed.dim()),
                         "coordinates of a vector, as of items");
            require_size("vector_terms", terms.size(), users.vectors.shape(0), "one per user vector");
            new (self) ScoringArrays{users, terms, items, &packed, scale};
          },
          "users"_a, "terms"_a, "items"_a, "scale"_a);

  nb::class_<ExactItemArrays>(m, "ExactItems")
      .def(
          "__init__",
          [](ExactItemArrays* self, Matrix<float> vectors, bool by_distance, Array<float> bias) {
            if (bias.size() > 0) require_size("item_bias", bias.size(), vectors.shape(0), "one per item");
            new (self) ExactItemArrays{vectors, by_distance, bias};
          },
          "vectors"_a, "by_distance"_a, "bias"_a);

  nb::class_<ItemListArrays>(m, "ItemLists")
      .def(
          "__init__",
          [](ItemListArrays* self, Array<std::int64_t> offsets, Array<std::int32_t> items) {
            new (self) ItemListArrays{offsets, items};
          },
          "offsets"_a, "items"_a);

  nb::class_<tastespace::MixSettings>(m, "MixSettings")
      .def(
          "__init__",
          [](tastespace::MixSettings* self, double diversity, std::int64_t depth, std::int64_t k) {
            new (self) tastespace::MixSettings{diversity, depth, k};
          },
          nb::kw_only(), "diversity"_a, "depth"_a, "k"_a);

  m.def(
      "rank_with_vectors",
      [](const ScoringArrays& space, Array<std::int32_t> users, const ItemListArrays& excluded,
         const ItemListArrays& test, std::int64_t k, int threads, Mask allowed) {
        space.require(view(users), threads);
        excluded.require("excluded", view(users), space.n_items());
        test.require("test", view(users), space.n_items());
        require_least("k", k, 0);
        const auto mask = mask_view(allowed, space.n_items());
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          out = tastespace::rank_with_vectors(space.views(), view(users), excluded.views(), test.views(), k, threads,
                                              mask);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "space"_a, "users"_a, "excluded"_a, "test"_a, nb::kw_only(), "k"_a, "threads"_a, "allowed"_a = nb::none());

  m.def(
      "rank_with_scores",
      [](Matrix<float> scores, Array<std::int32_t> users, const ItemListArrays& excluded, const ItemListArrays& test,
         std::int64_t k, int threads) {
        const auto n_items = static_cast<std::int64_t>(scores.shape(1));
        require_size("scores", scores.shape(0), users.size(), "a row per user");
        excluded.require("excluded", view(users), n_items);
        test.require("test", view(users), n_items);
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          out = tastespace::rank_with_scores(view(scores), n_items, view(users), excluded.views(), test.views(), k,
                                             threads);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "scores"_a, "users"_a, "excluded"_a, "test"_a, nb::kw_only(), "k"_a, "threads"_a);

  m.def(
      "mix_with_vectors",
      [](const ScoringArrays& space, Array<std::int32_t> users, Array<double> weights, const ItemListArrays& excluded,
         const tastespace::MixSettings& settings, int threads) {
        space.require(view(users), threads);
        excluded.require("excluded", view(users), space.n_items());
        require_size("weights", weights.size(), space.users.n_vectors(view(users)), "one per vector of the users");
        require_mix(weights, settings, threads);
        tastespace::MixedLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::mix_with_vectors(space.views(), view(users), view(weights), excluded.views(), settings,
                                             threads);
        }
        return give_mixed(std::move(out), users.size(), settings.k);
      },
      "space"_a, "users"_a, "weights"_a, "excluded"_a, "settings"_a, "threads"_a);

  m.def(
      "mix_with_scores",
      [](Matrix<float> scores, Matrix<std::int32_t> interests, Array<std::int32_t> users, Array<double> weights,
         Array<std::int64_t> first_weights, const ItemListArrays& excluded, const tastespace::MixSettings& settings,
         int threads) {
        const auto n_items = static_cast<std::int64_t>(scores.shape(1));
        require_size("scores", scores.shape(0), users.size(), "a row per user");
        require_size("interests", interests.shape(0), users.size(), "a row per user");
        require_size("interests", interests.shape(1), scores.shape(1), "a column per item");
        require_size("first_weights", first_weights.size(), users.size() + 1, "one per user and one more");
        require_offsets("first_weights", view(first_weights), weights.size());
        for (std::size_t at = 0; at < users.size(); ++at)
          require_indices("interests", view(interests).subspan(at * n_items, n_items),
                          first_weights.data()[at + 1] - first_weights.data()[at]);
        excluded.require("excluded", view(users), n_items);
        require_mix(weights, settings, threads);
        tastespace::MixedLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::mix_with_scores(view(scores), view(interests), view(users), view(weights),
                                            view(first_weights), excluded.views(), settings, threads);
        }
        return give_mixed(std::move(out), users.size(), settings.k);
      },
      "scores"_a, "interests"_a, "users"_a, "weights"_a, "first_weights"_a, "excluded"_a, "settings"_a, "threads"_a);

  m.def(
      "pair_scores",
      [](const UserVectorArrays& vectors, const ExactItemArrays& exact, Array<std::int32_t> users,
         Array<std::int32_t> items, int threads) {
        require_size("items", items.size(), users.size(), "one per user");
        require_size("user_vectors", vectors.vectors.shape(1), exact.vectors.shape(1),
                     "coordinates of a vector, as of items");
        vectors.require_users(view(users));
        require_indices("items", view(items), exact.n_items());
        require_least("threads", threads, 1);
        tastespace::PairScores out;
        {
          nb::gil_scoped_release free;
          out = tastespace::pair_scores(view(vectors.vectors), view(vectors.offsets), view(exact.vectors),
                                        static_cast<std::int64_t>(exact.vectors.shape(1)), exact.comparison(),
                                        view(users), view(items), threads);
        }
        return std::make_tuple(give(std::move(out.score)), give(std::move(out.interest)));
      },
      "vectors"_a, "exact"_a, "users"_a, "items"_a, "threads"_a);
}

}  // namespace tastespace::bindings
