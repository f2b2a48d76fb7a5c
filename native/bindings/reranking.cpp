// Lists put in another order, and by rules.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "lists/calibrated_lists.hpp"
#include "rank/list_distances.hpp"
#include "rank/list_order.hpp"
#include "lists/list_rules.hpp"

namespace tastespace::bindings {

void bind_reranking(nb::module_& m) {
  m.def(
      "list_pair_distances",
      [](Matrix<std::int32_t> top, Matrix<float> vectors, Array<std::int64_t> cuts, int threads) {
        require_least("threads", threads, 1);
        for (const std::int32_t item : view(top))  // below 0: no item
          if (item >= static_cast<std::int64_t>(vectors.shape(0))) require_indices("top", {&item, 1}, vectors.shape(0));
        std::vector<double> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_pair_distances(view(top), static_cast<std::int64_t>(top.shape(1)), view(vectors),
                                                static_cast<std::int64_t>(vectors.shape(1)), view(cuts), threads);
        }
        return give_matrix<double>(std::move(out), top.shape(0), cuts.size());
      },
      "top"_a, "vectors"_a, "cuts"_a, "threads"_a);

  m.def(
      "list_order",
      [](Array<std::int64_t> offsets, Array<float> scores, Array<std::int32_t> rows, int threads) {
        require_offsets("offsets", view(offsets), scores.size());
        require_size("rows", rows.size(), scores.size(), "one per score");
        require_numbers("scores", view(scores), true);
        require_least("threads", threads, 1);
        std::vector<std::int64_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_order(view(offsets), view(scores), view(rows), threads);
        }
        return give(std::move(out));
      },
      "offsets"_a, "scores"_a, "rows"_a, "threads"_a);

  m.def(
      "apply_list_rules",
      [](Array<std::int64_t> offsets, Array<std::int32_t> rows, Array<std::int32_t> lengths,
         Array<std::int64_t> group_offsets, Array<std::int32_t> groups, Array<std::int32_t> most,
         Array<std::uint8_t> allowed, Array<std::int64_t> pin_offsets, Array<std::int32_t> pins, Array<std::int32_t> places,
         Array<std::uint8_t> is_new, double share, int threads) {
        require_size("lengths", lengths.size() + 1, offsets.size(), "one per list and one more");
        require_size("pin_offsets", pin_offsets.size(), offsets.size(), "one per list and one more");
        require_offsets("offsets", view(offsets), rows.size());
        require_offsets("pin_offsets", view(pin_offsets), pins.size());
        require_size("places", places.size(), pins.size(), "one per pinned item");
        for (const std::int32_t length : view(lengths)) require_least("lengths", length, 0);
        const auto n_items = static_cast<std::int64_t>(allowed.size());
        require_indices("rows", view(rows), n_items);
        require_indices("pins", view(pins), n_items);
        if (is_new.size() > 0) require_size("is_new", is_new.size(), allowed.size(), "one per item");
        if (group_offsets.size() > 0) {
          require_size("group_offsets", group_offsets.size(), allowed.size() + 1, "one per item and one more");
          require_offsets("group_offsets", view(group_offsets), groups.size());
          require_indices("groups", view(groups), static_cast<std::int64_t>(most.size()));
        }
        require_numbers("share", std::span<const double>(&share, 1));
        require_least("threads", threads, 1);
        tastespace::RuledLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::apply_list_rules({view(offsets), view(rows)}, view(lengths),
                                             {view(group_offsets), view(groups), view(most), view(allowed)},
                                             {{view(pin_offsets), view(pins)}, view(places)}, {view(is_new), share},
                                             threads);
        }
        return std::make_tuple(give(std::move(out.offsets)), give(std::move(out.rows)), give(std::move(out.entries)),
                               give(std::move(out.incomplete)));
      },
      nb::kw_only(), "offsets"_a, "rows"_a, "lengths"_a, "group_offsets"_a, "groups"_a, "most"_a, "allowed"_a,
      "pin_offsets"_a, "pins"_a, "places"_a, "is_new"_a, "share"_a, "threads"_a);

  m.def(
      "pool_relevance",
      [](Array<std::int64_t> offsets, Array<double> scores, int threads) {
        require_offsets("offsets", view(offsets), scores.size());
        require_least("threads", threads, 1);
        std::vector<double> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::pool_relevance(view(offsets), view(scores), threads);
        }
        return give(std::move(out));
      },
      "offsets"_a, "scores"_a, "threads"_a);

  m.def(
      "calibrated_lists",
      [](Array<std::int64_t> offsets, Array<double> relevance, Array<std::int32_t> sets,
         Array<std::int64_t> set_offsets, Array<std::int32_t> set_terms, Array<std::int32_t> term_categories,
         Array<double> term_shares, Matrix<double> target, double weight, double smoothing, std::int64_t k,
         int threads) {
        require_size("offsets", offsets.size(), target.shape(0) + 1, "one per row of target and one more");
        require_offsets("offsets", view(offsets), relevance.size());
        require_size("sets", sets.size(), relevance.size(), "one per entry");
        require_offsets("set_offsets", view(set_offsets), set_terms.size());
        require_indices("sets", view(sets), static_cast<std::int64_t>(set_offsets.size()) - 1);
        require_size("term_shares", term_shares.size(), term_categories.size(), "one per term");
        require_indices("set_terms", view(set_terms), static_cast<std::int64_t>(term_categories.size()));
        require_indices("term_categories", view(term_categories), static_cast<std::int64_t>(target.shape(1)));
        require_numbers("term_shares", view(term_shares));
        require_numbers("target", view(target));
        for (const double value : {weight, smoothing}) require_numbers("settings", std::span<const double>(&value, 1));
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        std::vector<std::int64_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::calibrated_lists(
              {view(offsets), view(relevance), view(sets)},
              {view(set_offsets), view(set_terms), view(term_categories), view(term_shares)}, view(target),
              static_cast<std::int64_t>(target.shape(1)), {weight, smoothing, k}, threads);
        }
        return give(std::move(out));
      },
      nb::kw_only(), "offsets"_a, "relevance"_a, "sets"_a, "set_offsets"_a, "set_terms"_a, "term_categories"_a,
      "term_shares"_a, "target"_a, "weight"_a, "smoothing"_a, "k"_a, "threads"_a);
}

}  // namespace tastespace::bindings
