// Models that are computed rather than trained by steps: ALS, ridge regression, sums of scores.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "train/als.hpp"
#include "arrays.hpp"
#include "bindings.hpp"
#include "ranking_arrays.hpp"
#include "core/interrupt.hpp"
#include "train/item_regression.hpp"
#include "rank/score_matrix.hpp"
#include "rank/taste_scores.hpp"

namespace tastespace::bindings {

void bind_models(nb::module_& m) {
  m.def(
      "als_half_step",
      [](Array<std::int64_t> offsets, Array<std::int32_t> columns, Array<float> extra, Matrix<float> fixed,
         Matrix<float> gram, Array<float> regularization, int n_steps,
         nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> vectors, int threads) {
        require_size("extra", extra.size(), columns.size(), "one per column");
        require_size("offsets", offsets.size(), vectors.shape(0) + 1, "one per row of vectors and one more");
        require_offsets("offsets", view(offsets), columns.size());
        require_indices("columns", view(columns), static_cast<std::int64_t>(fixed.shape(0)));
        require_size("regularization", regularization.size(), vectors.shape(0), "one per row of vectors");
        require_size("fixed", fixed.shape(1), vectors.shape(1), "coordinates of a vector");
        require_size("gram", gram.shape(0), vectors.shape(1), "a row per coordinate");
        require_size("gram", gram.shape(1), vectors.shape(1), "a column per coordinate");
        require_least("threads", threads, 1);
        run_interruptibly([&](tastespace::Interrupt& interrupt) {
          tastespace::als_half_step({view(offsets), view(columns), view(extra)}, view(fixed), view(gram),
                                    view(regularization), static_cast<std::int64_t>(vectors.shape(1)), n_steps,
                                    {vectors.data(), vectors.size()}, threads, interrupt);
        });
      },
      nb::kw_only(), "offsets"_a, "columns"_a, "extra"_a, "fixed"_a, "gram"_a, "regularization"_a, "n_steps"_a,
      "vectors"_a.noconvert(), "threads"_a);

  m.def(
      "add_standardized",
      [](nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> total, Matrix<float> scores, float weight,
         int threads) {
        require_size("total", total.shape(0), scores.shape(0), "rows, as in scores");
        require_size("total", total.shape(1), scores.shape(1), "columns, as in scores");
        require_least("threads", threads, 1);
        nb::gil_scoped_release free;
        return tastespace::add_standardized({total.data(), total.size()}, view(scores),
                                            static_cast<std::int64_t>(scores.shape(1)), weight, threads);
      },
      "total"_a.noconvert(), "scores"_a, "weight"_a, "threads"_a);

  const auto require_tastes = [](const char* name, std::size_t n_rows, const Array<std::int64_t>& first, int threads) {
    if (first.size() == 0) throw nb::value_error("first: expected one number or more.");
    require_offsets("first", view(first), n_rows);
    require_size(name, n_rows, static_cast<std::size_t>(first.data()[first.size() - 1]), "a row per taste");
    require_least("threads", threads, 1);
  };
  m.def(
      "taste_totals",
      [require_tastes](Matrix<float> values, Array<std::int64_t> first, std::optional<Array<double>> factors,
                       double focus, int threads) {
        require_tastes("values", values.shape(0), first, threads);
        if (factors) require_size("factors", factors->size(), values.shape(0), "one per row of values");
        tastespace::TasteTotals out;
        {
          nb::gil_scoped_release free;
          out = tastespace::taste_totals(view(values), view(first), factors ? view(*factors) : std::span<const double>(),
                                         focus, static_cast<std::int64_t>(values.shape(1)), threads);
        }
        return std::make_tuple(give_matrix<float>(std::move(out.scores), first.size() - 1, values.shape(1)),
                               give_matrix<std::int32_t>(std::move(out.strongest), first.size() - 1, values.shape(1)));
      },
      "values"_a, "first"_a, "factors"_a.none(), "focus"_a, "threads"_a);

  const auto score_matrix = [&m](const char* name, auto kernel) {
    m.def(
        name,
        [kernel](const ScoringArrays& space, Array<std::int32_t> users, int threads) {
          space.require(view(users), threads);
          decltype(kernel(space.views(), view(users), 0)) out;
          {
            nb::gil_scoped_release free;
            out = kernel(space.views(), view(users), threads);
          }
          using Value = typename decltype(out)::value_type;
          return give_matrix<Value>(std::move(out), users.size(), static_cast<std::size_t>(space.n_items()));
        },
        "space"_a, "users"_a, "threads"_a);
  };
  score_matrix("score_users", &tastespace::score_users);
  score_matrix("nearest_interests", &tastespace::nearest_interests);

  m.def(
      "fit_item_regression",
      [](Array<std::int64_t> user_offsets, Array<std::int32_t> items, Array<float> user_values,
         Array<std::int64_t> item_offsets, Array<std::int32_t> users, Array<float> item_values,
         std::int64_t n_neighbors, std::int64_t row_length, double regularization, double self_weight, int threads) {
        require_size("user_values", user_values.size(), items.size(), "one per item of a user");
        require_size("item_values", item_values.size(), users.size(), "one per user of an item");
        require_size("users", users.size(), items.size(), "as many as items");
        require_offsets("user_offsets", view(user_offsets), items.size());
        require_offsets("item_offsets", view(item_offsets), users.size());
        require_indices("items", view(items), static_cast<std::int64_t>(item_offsets.size()) - 1);
        require_indices("users", view(users), static_cast<std::int64_t>(user_offsets.size()) - 1);
        require_numbers("user_values", view(user_values));
        require_numbers("item_values", view(item_values));
        require_least("n_neighbors", n_neighbors, 0);
        require_least("row_length", row_length, 0);
        require_least("threads", threads, 1);
        auto out = run_interruptibly([&](tastespace::Interrupt& interrupt) {
          return tastespace::fit_item_regression({view(user_offsets), view(items), view(user_values),
                                                  view(item_offsets), view(users), view(item_values)},
                                                 {n_neighbors, row_length, regularization, self_weight}, threads,
                                                 interrupt);
        });
        return std::make_tuple(give(std::move(out.offsets)), give(std::move(out.sources)),
                               give(std::move(out.coefficients)));
      },
      nb::kw_only(), "user_offsets"_a, "items"_a, "user_values"_a, "item_offsets"_a, "users"_a, "item_values"_a,
      "n_neighbors"_a, "row_length"_a, "regularization"_a, "self_weight"_a, "threads"_a);
}

}  // namespace tastespace::bindings
