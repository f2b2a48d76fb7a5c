// Lists put in another order, and by rules.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "lists/calibrated_lists.hpp"
#include "rank/list_distances.hpp"
#include "rank/list_order.hpp"
#include "lists/list_rules.hpp"
#include "ranking_arrays.hpp"

namespace tastespace::bindings {
namespace {

// Arguments of rules and of calibration as objects of Python; see native/lists for what they mean.
struct GroupArrays {
  Array<std::int64_t> offsets;
  Array<std::int32_t> members, most;
  Array<std::uint8_t> allowed;
};

struct PinArrays {
  ItemListArrays lists;
  Array<std::int32_t> places;
};

struct NewItemArrays {
  Array<std::uint8_t> is_new;
  double share;
};

struct CategorySetArrays {
  Array<std::int64_t> offsets;
  Array<std::int32_t> terms, categories;
  Array<double> shares;
};

struct PoolArrays {
  Array<std::int64_t> offsets;
  Array<double> relevance;
  Array<std::int32_t> sets;
};

}  // namespace

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

  nb::class_<GroupArrays>(m, "ItemGroups")
      .def(
          "__init__",
          [](GroupArrays* self, Array<std::int64_t> offsets, Array<std::int32_t> members, Array<std::int32_t> most,
             Array<std::uint8_t> allowed) {
            if (offsets.size() > 0)
              require_size("group_offsets", offsets.size(), allowed.size() + 1, "one per item and one more");
            new (self) GroupArrays{offsets, members, most, allowed};
          },
          nb::kw_only(), "offsets"_a, "members"_a, "most"_a, "allowed"_a);

  nb::class_<PinArrays>(m, "PinnedItems")
      .def(
          "__init__",
          [](PinArrays* self, const ItemListArrays& lists, Array<std::int32_t> places) {
            require_size("places", places.size(), lists.items.size(), "one per pinned item");
            new (self) PinArrays{lists, places};
          },
          "lists"_a, "places"_a);

  nb::class_<NewItemArrays>(m, "NewItems")
      .def(
          "__init__",
          [](NewItemArrays* self, Array<std::uint8_t> is_new, double share) {
            require_numbers("share", std::span<const double>(&share, 1));
            new (self) NewItemArrays{is_new, share};
          },
          "is_new"_a, "share"_a);

  m.def(
      "apply_list_rules",
      [](const ItemListArrays& pools, Array<std::int32_t> lengths, const GroupArrays& groups, const PinArrays& pinned,
         const NewItemArrays& new_items, int threads) {
        const auto n_lists = pools.offsets.size();
        require_size("lengths", lengths.size() + 1, n_lists, "one per list and one more");
        require_size("pin_offsets", pinned.lists.offsets.size(), n_lists, "one per list and one more");
        require_offsets("offsets", view(pools.offsets), pools.items.size());
        require_offsets("pin_offsets", view(pinned.lists.offsets), pinned.lists.items.size());
        for (const std::int32_t length : view(lengths)) require_least("lengths", length, 0);
        const auto n_items = static_cast<std::int64_t>(groups.allowed.size());
        require_indices("rows", view(pools.items), n_items);
        require_indices("pins", view(pinned.lists.items), n_items);
        if (new_items.is_new.size() > 0)
          require_size("is_new", new_items.is_new.size(), groups.allowed.size(), "one per item");
        if (groups.offsets.size() > 0) {
          require_offsets("group_offsets", view(groups.offsets), groups.members.size());
          require_indices("groups", view(groups.members), static_cast<std::int64_t>(groups.most.size()));
        }
        require_least("threads", threads, 1);
        tastespace::RuledLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::apply_list_rules(
              {view(pools.offsets), view(pools.items)}, view(lengths),
              {view(groups.offsets), view(groups.members), view(groups.most), view(groups.allowed)},
              {{view(pinned.lists.offsets), view(pinned.lists.items)}, view(pinned.places)},
              {view(new_items.is_new), new_items.share}, threads);
        }
        return std::make_tuple(give(std::move(out.offsets)), give(std::move(out.rows)), give(std::move(out.entries)),
                               give(std::move(out.incomplete)));
      },
      "pools"_a, "lengths"_a, "groups"_a, "pinned"_a, "new_items"_a, "threads"_a);

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

  nb::class_<CategorySetArrays>(m, "CategorySets")
      .def(
          "__init__",
          [](CategorySetArrays* self, Array<std::int64_t> offsets, Array<std::int32_t> terms,
             Array<std::int32_t> categories, Array<double> shares) {
            require_size("term_shares", shares.size(), categories.size(), "one per term");
            require_numbers("term_shares", view(shares));
            new (self) CategorySetArrays{offsets, terms, categories, shares};
          },
          nb::kw_only(), "offsets"_a, "terms"_a, "categories"_a, "shares"_a);

  nb::class_<PoolArrays>(m, "Pools")
      .def(
          "__init__",
          [](PoolArrays* self, Array<std::int64_t> offsets, Array<double> relevance, Array<std::int32_t> sets) {
            require_size("sets", sets.size(), relevance.size(), "one per entry");
            new (self) PoolArrays{offsets, relevance, sets};
          },
          nb::kw_only(), "offsets"_a, "relevance"_a, "sets"_a);

  nb::class_<tastespace::Calibration>(m, "Calibration")
      .def(
          "__init__",
          [](tastespace::Calibration* self, double weight, double smoothing, std::int64_t k) {
            for (const double value : {weight, smoothing}) require_numbers("settings", std::span<const double>(&value, 1));
            require_least("k", k, 0);
            new (self) tastespace::Calibration{weight, smoothing, k};
          },
          nb::kw_only(), "weight"_a, "smoothing"_a, "k"_a);

  m.def(
      "calibrated_lists",
      [](const PoolArrays& pools, const CategorySetArrays& sets, Matrix<double> target,
         const tastespace::Calibration& settings, int threads) {
        require_size("offsets", pools.offsets.size(), target.shape(0) + 1, "one per row of target and one more");
        require_offsets("offsets", view(pools.offsets), pools.relevance.size());
        require_offsets("set_offsets", view(sets.offsets), sets.terms.size());
        require_indices("sets", view(pools.sets), static_cast<std::int64_t>(sets.offsets.size()) - 1);
        require_indices("set_terms", view(sets.terms), static_cast<std::int64_t>(sets.categories.size()));
        require_indices("term_categories", view(sets.categories), static_cast<std::int64_t>(target.shape(1)));
        require_numbers("target", view(target));
        require_least("threads", threads, 1);
        std::vector<std::int64_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::calibrated_lists(
              {view(pools.offsets), view(pools.relevance), view(pools.sets)},
              {view(sets.offsets), view(sets.terms), view(sets.categories), view(sets.shares)}, view(target),
              static_cast<std::int64_t>(target.shape(1)), settings, threads);
        }
        return give(std::move(out));
      },
      "pools"_a, "sets"_a, "target"_a, "settings"_a, "threads"_a);
}

}  // namespace tastespace::bindings
