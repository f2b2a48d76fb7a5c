// Scores of blends: their members as one program.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "blend_arrays.hpp"
#include "rank/past_evidence.hpp"

namespace tastespace::bindings {
namespace {

using Given = std::vector<std::optional<Matrix<float>>>;  // of each member
using Nearest = std::optional<Matrix<std::int32_t>>;
using Factors = std::optional<Array<double>>;

// A member as Python gives it: what its scores come from, its weight, weights of the interactions, and a temperature.
using Member = std::tuple<nb::object, double, std::optional<Array<float>>, float>;

void add_member(BlendArrays& self, const Member& given, std::size_t n_past) {
  const auto& [source, weight, past_weights, temperature] = given;
  tastespace::BlendMember member;
  member.weight = weight;
  if (nb::isinstance<PastRowsArrays>(source)) {
    const auto& rows = nb::cast<const PastRowsArrays&>(source);
    require_size("members", static_cast<std::size_t>(rows.n_items), static_cast<std::size_t>(self.blend.n_items), "items");
    rows.put_into(member);
  } else if (nb::isinstance<ScoringArrays>(source)) {
    const auto& space = nb::cast<const ScoringArrays&>(source);
    require_size("members", static_cast<std::size_t>(space.n_items()), static_cast<std::size_t>(self.blend.n_items), "items");
    self.spaces.push_back(&space);
    member.scores = tastespace::VectorScores{space.views(), temperature};
  } else {
    member.scores = tastespace::GivenScores{nb::cast<bool>(source)};
  }
  if (past_weights) {
    require_size("past_weights", past_weights->size(), n_past, "one per interaction");
    member.past_weights = view(*past_weights);
    self.held.push_back(nb::cast(*past_weights));
  }
  self.held.push_back(source);
  self.blend.members.push_back(member);
}

// The users of a call, checked.
tastespace::BlendCall call_of(const BlendArrays& self, const Array<std::int32_t>& users, const Given& given,
                              const Nearest& nearest, const Factors& factors, int threads) {
  self.require(view(users), threads);
  const tastespace::Blend& blend = self.blend;
  tastespace::BlendCall call{view(users), {}, {}, {}, threads};
  const auto n_items = static_cast<std::size_t>(blend.n_items);
  std::size_t n_tastes = 0;
  bool has_dislikes = false;
  for (const std::int32_t user : view(users)) {
    n_tastes += blend.n_tastes(user);
    has_dislikes |= !blend.disliked.of(user).empty();
  }
  require_size("given", given.size(), blend.members.size(), "one per member");
  for (std::size_t m = 0; m < given.size(); ++m) {
    const auto* expected = std::get_if<tastespace::GivenScores>(&blend.members[m].scores);
    if ((expected != nullptr) != given[m].has_value())
      throw nb::value_error("given: expected scores of the members that the program does not compute, and of these only.");
    call.given.push_back(given[m] ? view(*given[m]) : std::span<const float>());
    if (expected == nullptr) continue;
    const std::size_t rows = expected->of_past ? n_tastes + (has_dislikes ? users.size() : 0) : users.size();
    require_size("given", given[m]->shape(0), rows, "rows");
    require_size("given", given[m]->shape(1), n_items, "columns, one per item");
  }
  if (nearest) {
    require_size("nearest", nearest->shape(0), users.size(), "a row per user");
    require_size("nearest", nearest->shape(1), n_items, "a column per item");
    call.nearest = view(*nearest);
  } else if (!self.splits() && self.has_rest()) {
    throw nb::value_error("nearest: expected the nearest taste of each item where no member is a sum over past items.");
  }
  if (factors) {
    require_size("factors", factors->size(), n_tastes, "one per taste of the users");
    call.factors = view(*factors);
  }
  return call;
}

auto bad_of(const tastespace::BadScores& bad) { return std::make_tuple(bad.user, bad.member); }

}  // namespace

void bind_blend(nb::module_& m) {
  nb::class_<PastRowsArrays>(m, "PastRows")
      .def(
          "__init__",
          [](PastRowsArrays* self, std::optional<Matrix<float>> dense, std::optional<Array<std::int64_t>> offsets,
             std::optional<Array<std::int32_t>> columns, std::optional<Array<float>> values,
             std::optional<Matrix<float>> vectors, std::optional<Array<double>> factors, nb::object items) {
            PastRowsArrays made{dense, offsets, columns, values, vectors, factors, items, 0};
            if (dense) {
              require_size("dense", dense->shape(1), dense->shape(0), "columns, as many as rows");
              made.n_items = static_cast<std::int64_t>(dense->shape(0));
            } else if (offsets && columns && values) {
              require_offsets("offsets", view(*offsets), columns->size());
              require_size("values", values->size(), columns->size(), "one per column");
              made.n_items = static_cast<std::int64_t>(offsets->size()) - 1;
              require_indices("columns", view(*columns), made.n_items);
            } else if (vectors && factors && nb::isinstance<tastespace::PackedItems>(items)) {
              const auto& packed = nb::cast<const tastespace::PackedItems&>(items);
              made.n_items = packed.n_items();
              require_size("vectors", vectors->shape(0), static_cast<std::size_t>(made.n_items), "one per item");
              require_size("vectors", vectors->shape(1), static_cast<std::size_t>(packed.dim()), "coordinates");
              require_size("factors", factors->size(), static_cast<std::size_t>(made.n_items), "one per item");
            } else {
              throw nb::value_error("expected dense, or offsets, columns and values, or vectors, factors and items.");
            }
            new (self) PastRowsArrays(made);
          },
          nb::kw_only(), "dense"_a.none() = nb::none(), "offsets"_a.none() = nb::none(), "columns"_a.none() = nb::none(),
          "values"_a.none() = nb::none(), "vectors"_a.none() = nb::none(), "factors"_a.none() = nb::none(),
          "items"_a.none() = nb::none())
      .def_prop_ro("n_items", [](const PastRowsArrays& self) { return self.n_items; })
      .def(
          "entries",
          [](const PastRowsArrays& self, Array<std::int32_t> past, std::optional<Array<float>> weights,
             Array<std::int32_t> items) {
            require_indices("past", view(past), self.n_items);
            require_indices("items", view(items), self.n_items);
            if (weights) require_size("weights", weights->size(), past.size(), "one per past item");
            if (!self.dense && !self.offsets) throw nb::value_error("entries: expected a matrix, given vectors.");
            const auto of_past = weights ? view(*weights) : std::span<const float>();
            std::vector<float> out;
            {
              nb::gil_scoped_release free;
              out = self.dense ? tastespace::dense_entries(view(*self.dense), self.n_items, view(past), of_past, view(items))
                               : tastespace::sparse_entries(view(*self.offsets), view(*self.columns), view(*self.values),
                                                            view(past), of_past, view(items));
            }
            return give_matrix<float>(std::move(out), past.size(), items.size());
          },
          "past"_a, "weights"_a.none(), "items"_a);

  m.def(
      "shared_scores",
      [](Matrix<float> vectors, Array<std::int32_t> past, Array<std::int32_t> items, Array<float> scores) {
        require_indices("past", view(past), static_cast<std::int64_t>(vectors.shape(0)));
        require_indices("items", view(items), static_cast<std::int64_t>(vectors.shape(0)));
        require_size("scores", scores.size(), items.size(), "one per item");
        std::vector<float> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::shared_scores(view(vectors), static_cast<std::int64_t>(vectors.shape(1)), view(past), view(items),
                                          view(scores));
        }
        return give_matrix<float>(std::move(out), past.size(), items.size());
      },
      "vectors"_a, "past"_a, "items"_a, "scores"_a);

  m.def(
      "least_squares_evidence",
      [](Matrix<float> vectors, Matrix<double> gram, double ridge, Array<std::int32_t> past, Array<double> extra,
         Array<std::int32_t> items) {
        require_indices("past", view(past), static_cast<std::int64_t>(vectors.shape(0)));
        require_indices("items", view(items), static_cast<std::int64_t>(vectors.shape(0)));
        require_size("extra", extra.size(), past.size(), "one per past item");
        require_size("gram", gram.shape(0), vectors.shape(1), "a row per coordinate");
        require_size("gram", gram.shape(1), vectors.shape(1), "a column per coordinate");
        std::vector<float> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::least_squares_evidence(view(vectors), static_cast<std::int64_t>(vectors.shape(1)), view(gram),
                                                   ridge, view(past), view(extra), view(items));
        }
        if (out.size() < past.size() * items.size()) throw nb::value_error("gram: expected a positive definite matrix.");
        return give_matrix<float>(std::move(out), past.size(), items.size());
      },
      "vectors"_a, "gram"_a, "ridge"_a, "past"_a, "extra"_a, "items"_a);

  nb::class_<BlendArrays>(m, "BlendProgram")
      .def(
          "__init__",
          [](BlendArrays* self, const std::vector<Member>& members, std::int64_t n_items, const ItemListArrays& past,
             const ItemListArrays& disliked, Array<std::int32_t> taste_of_past, Array<std::int64_t> taste_offsets,
             double focus, double lift, float balance, std::int64_t n_categories,
             std::optional<ItemListArrays> sets, std::optional<Array<std::int32_t>> set_of_item) {
            require_least("n_items", n_items, 1);
            require_size("taste_of_past", taste_of_past.size(), past.items.size(), "one per interaction");
            require_size("taste_offsets", taste_offsets.size(), past.offsets.size(), "as of past items");
            require_offsets("taste_offsets", view(taste_offsets),
                            static_cast<std::size_t>(taste_offsets.data()[taste_offsets.size() - 1]));
            BlendArrays made{{}, {}, {}, past, disliked, taste_of_past, taste_offsets, {}, {}};
            made.blend.n_items = n_items;
            made.blend.past = past.views();
            made.blend.disliked = disliked.views();
            made.blend.taste_of_past = view(taste_of_past);
            made.blend.taste_offsets = view(taste_offsets);
            made.blend.focus = focus;
            made.blend.lift = lift;
            for (const Member& member : members) add_member(made, member, past.items.size());
            if (balance != 0.0f) {
              if (!sets || !set_of_item) throw nb::value_error("balance: expected the categories of the items.");
              require_offsets("sets_offsets", view(sets->offsets), sets->items.size());
              require_indices("sets_items", view(sets->items), n_categories);
              require_size("set_of_item", set_of_item->size(), static_cast<std::size_t>(n_items), "one per item");
              require_indices("set_of_item", view(*set_of_item), static_cast<std::int64_t>(sets->offsets.size()) - 1);
              made.blend.balance = {balance, n_categories, sets->views(), view(*set_of_item)};
              made.sets = sets;
              made.set_of_item = set_of_item;
            }
            new (self) BlendArrays(std::move(made));
          },
          nb::kw_only(), "members"_a, "n_items"_a, "past"_a, "disliked"_a, "taste_of_past"_a, "taste_offsets"_a, "focus"_a,
          "lift"_a, "balance"_a = 0.0f, "n_categories"_a = 0, "sets"_a.none() = nb::none(),
          "set_of_item"_a.none() = nb::none())
      .def_prop_ro("is_whole", [](const BlendArrays& self) { return !self.has_given() && self.splits(); })
      .def(
          "parts",
          [](const BlendArrays& self, Array<std::int32_t> users, const Given& given, const Nearest& nearest, int threads) {
            const auto call = call_of(self, users, given, nearest, {}, threads);
            tastespace::BlendParts out;
            {
              nb::gil_scoped_release free;
              out = tastespace::blend_parts(self.blend, call);
            }
            const std::size_t n_items = self.blend.n_items, n_rows = out.values.size() / n_items;
            const std::size_t width = users.size() == 0 ? 1 : out.added.size() / users.size();
            return std::make_tuple(give_matrix<float>(std::move(out.values), n_rows, n_items),
                                   give_matrix<float>(std::move(out.added), users.size(), width),
                                   give_matrix<double>(std::move(out.scales), users.size(), self.blend.members.size()),
                                   bad_of(out.bad));
          },
          "users"_a, "given"_a, "nearest"_a.none(), "threads"_a)
      .def(
          "totals",
          [](const BlendArrays& self, Array<std::int32_t> users, const Given& given, const Nearest& nearest,
             const Factors& factors, int threads) {
            const auto call = call_of(self, users, given, nearest, factors, threads);
            tastespace::BlendTotals out;
            {
              nb::gil_scoped_release free;
              out = tastespace::blend_totals(self.blend, call);
            }
            const std::size_t n_items = self.blend.n_items;
            return std::make_tuple(give_matrix<float>(std::move(out.scores), users.size(), n_items),
                                   give_matrix<std::int32_t>(std::move(out.strongest), users.size(), n_items),
                                   bad_of(out.bad));
          },
          "users"_a, "given"_a, "nearest"_a.none(), "factors"_a.none(), "threads"_a)
      .def(
          "lists",
          [](const BlendArrays& self, Array<std::int32_t> users, const Given& given, const Nearest& nearest,
             const Factors& factors, const ItemListArrays& excluded, std::int64_t k, int threads, Mask allowed) {
            const auto call = call_of(self, users, given, nearest, factors, threads);
            excluded.require("excluded", view(users), self.blend.n_items);
            require_least("k", k, 0);
            const auto mask = mask_view(allowed, self.blend.n_items);
            tastespace::BlendLists out;
            {
              nb::gil_scoped_release free;
              out = tastespace::blend_lists(self.blend, call, excluded.views(), k, mask);
            }
            return std::make_tuple(give_matrix<std::int32_t>(std::move(out.top), users.size(), k),
                                   give_matrix<float>(std::move(out.scores), users.size(), k),
                                   give_matrix<std::int32_t>(std::move(out.interests), users.size(), k), out.n_found,
                                   out.nan_user,
                                   give_matrix<double>(std::move(out.scales), users.size(), self.blend.members.size()),
                                   bad_of(out.bad));
          },
          "users"_a, "given"_a, "nearest"_a.none(), "factors"_a.none(), "excluded"_a, nb::kw_only(), "k"_a, "threads"_a,
          "allowed"_a = nb::none());
}

}  // namespace tastespace::bindings
