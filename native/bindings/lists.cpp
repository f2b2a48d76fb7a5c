// Lists as users get them: columns of frames, reasons, texts.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <string_view>
#include <tuple>

#include "arrays.hpp"
#include "blend_arrays.hpp"
#include "core/arrow_columns.hpp"
#include "bindings.hpp"
#include "lists/found_lists.hpp"
#include "lists/list_columns.hpp"
#include "lists/list_texts.hpp"
#include "lists/past_reasons.hpp"
#include "lists/taste_groups.hpp"
#include "ranking_arrays.hpp"

namespace tastespace::bindings {
namespace {

// The letter of Arrow for a type of NumPy.
const char* arrow_format(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  const bool is_signed = type.code == static_cast<std::uint8_t>(Code::Int);
  if (is_signed || type.code == static_cast<std::uint8_t>(Code::UInt)) switch (type.bits) {
      case 8: return is_signed ? "c" : "C";
      case 16: return is_signed ? "s" : "S";
      case 32: return is_signed ? "i" : "I";
      case 64: return is_signed ? "l" : "L";
    }
  if (type.code == static_cast<std::uint8_t>(Code::Float) && type.bits == 32) return "f";
  if (type.code == static_cast<std::uint8_t>(Code::Float) && type.bits == 64) return "g";
  throw nb::type_error("columns: expected arrays of whole numbers, float32 or float64.");
}

tastespace::ArrowColumns arrow_columns(const nb::dict& columns) {
  using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  constexpr std::size_t kLarge = 1 << 20;  // bytes that are copied without the GIL
  std::optional<tastespace::ArrowColumns> out;
  std::size_t length = 0;
  for (const auto [name, value] : columns) {
    const auto array = nb::cast<AnyArray>(value);
    if (!out) out.emplace(static_cast<std::int64_t>(length = array.size()));
    require_size("columns", array.size(), length, "as long as the first column");
    std::byte* to = out->add(nb::cast<std::string>(name), arrow_format(array.dtype()), array.nbytes());
    std::optional<nb::gil_scoped_release> free;
    if (array.nbytes() >= kLarge) free.emplace();
    if (array.nbytes() > 0) std::memcpy(to, array.data(), array.nbytes());
  }
  if (!out) throw nb::value_error("columns: expected one or more.");
  return std::move(*out);
}

// The ids of users or of items: numbers of any type, or text as UTF-8 with offsets.
struct IdArrays {
  using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  std::optional<AnyArray> numbers;
  std::optional<Array<std::int64_t>> offsets;
  std::optional<Array<std::uint8_t>> text;

  std::size_t size() const { return numbers ? numbers->size() : offsets->size() - 1; }
  tastespace::IdColumn views() const {
    if (numbers)
      return {arrow_format(numbers->dtype()),
              {static_cast<const std::byte*>(numbers->data()), numbers->nbytes()},
              static_cast<std::size_t>(numbers->itemsize()), {}, {}};
    tastespace::IdColumn found;
    found.offsets = view(*offsets);
    found.text = {reinterpret_cast<const char*>(text->data()), text->size()};
    return found;
  }
};

// Ids and options of a request, which are held for as long as lists may be asked for.
struct ListColumnArrays {
  ItemListArrays excluded;
  std::int64_t k;
  Mask allowed;
  std::optional<IdArrays> user_ids;
  IdArrays item_ids;
  bool with_distances, with_interests;

  void require(std::int64_t n_items, std::size_t n_offsets) const {
    require_least("k", k, 0);
    require_size("offsets", n_offsets, excluded.offsets.size(), "as of excluded items");
    require_size("item_ids", item_ids.size(), static_cast<std::size_t>(n_items), "one per item");
    if (user_ids) require_size("user_ids", user_ids->size(), excluded.offsets.size() - 1, "one per user");
    mask_view(allowed, n_items);
  }
  std::span<const std::uint8_t> mask() const { return allowed ? view(*allowed) : std::span<const std::uint8_t>(); }

  // The columns of the list that `find` returns for this user.
  template <class Find>
  nb::object columns(std::int32_t user, std::optional<std::string_view> user_text, std::int64_t n_items,
                     const Find& find) const {
    excluded.require("excluded", std::span<const std::int32_t>(&user, 1), n_items);
    if (user_ids.has_value() == user_text.has_value())
      throw std::invalid_argument("user_text: expected the id of the user where ids are text, and only there.");
    tastespace::ListSource source{{}, item_ids.views(), with_distances, with_interests};
    if (user_ids) source.user_ids = user_ids->views();
    std::optional<tastespace::ArrowColumns> found;
    {
      nb::gil_scoped_release free;
      found = tastespace::list_columns(source, find(), user, user_text.value_or(std::string_view()));
    }
    return found ? nb::cast(std::move(*found)) : nb::none();
  }
};

struct OneUserLists {
  ScoringArrays space;
  ExactItemArrays exact;
  ListColumnArrays lists;

  nb::object columns(std::int32_t user, std::optional<std::string_view> user_text) const {
    const std::span<const std::int32_t> users(&user, 1);
    space.users.require_users(users);
    return lists.columns(user, user_text, space.n_items(), [&] {
      return tastespace::list_with_vectors(space.views(), exact.views(), users, lists.excluded.views(), lists.k, 1,
                                           lists.mask());
    });
  }
};

struct OneUserBlendLists {
  nb::object held;  // keeps the program alive
  const BlendArrays* program;
  ListColumnArrays lists;

  nb::object columns(std::int32_t user, std::optional<std::string_view> user_text) const {
    const std::span<const std::int32_t> users(&user, 1);
    program->require(users, 1);
    const tastespace::BlendCall call{users, std::vector<std::span<const float>>(program->blend.members.size()), {}, {}, 1};
    return lists.columns(user, user_text, program->blend.n_items, [&]() -> tastespace::UserLists {
      tastespace::BlendLists found =
          tastespace::blend_lists(program->blend, call, lists.excluded.views(), lists.k, lists.mask());
      if (found.bad.user >= 0) found.nan_user = found.bad.user;
      return found;
    });
  }
};

auto give_lists(tastespace::UserLists&& lists, std::size_t n_users, std::int64_t k) {
  return std::make_tuple(give_matrix<std::int32_t>(std::move(lists.top), n_users, k),
                         give_matrix<float>(std::move(lists.scores), n_users, k),
                         give_matrix<std::int32_t>(std::move(lists.interests), n_users, k), lists.n_found,
                         lists.nan_user);
}

// A structure of Arrow in a capsule that releases it unless somebody has taken it over.
template <class Structure>
nb::object arrow_capsule(std::unique_ptr<Structure> structure, const char* name) {
  PyObject* capsule = PyCapsule_New(structure.get(), name, [](PyObject* self) {
    auto* held = static_cast<Structure*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (held->release) held->release(held);
    delete held;
  });
  if (!capsule) throw nb::python_error();
  structure.release();
  return nb::steal(capsule);
}

// The texts of the items, encoded before.
struct ItemTextArrays {
  nb::bytes text;
  Array<std::int64_t> offsets, cuts;

  std::int64_t n_items() const { return static_cast<std::int64_t>(cuts.size()); }
  void require_texts(std::span<const std::int32_t> rows) const {  // not of all items each time
    require_rows("text_offsets", view(offsets), text.size(), rows);
  }
  void require_cut(std::int32_t item) const {
    if (cuts.data()[item] < offsets.data()[item] || cuts.data()[item] > offsets.data()[item + 1])
      throw nb::value_error("text_cuts: expected a place within the text of each item.");
  }
  tastespace::ItemTexts views() const { return {{text.c_str(), text.size()}, view(offsets), view(cuts)}; }
};

struct ListEntryArrays {
  Array<std::int32_t> rows, ranks;
  Array<float> scores;
  std::optional<Array<std::int32_t>> interests;
  std::optional<Array<float>> distances;
  std::optional<Matrix<std::int32_t>> reasons;
  std::optional<Matrix<double>> weights;

  tastespace::ListEntries views() const {
    tastespace::ListEntries found{view(rows), view(ranks), view(scores), {}, {}, {}, {}, 0};
    if (interests) found.interests = view(*interests);
    if (distances) found.distances = view(*distances);
    if (reasons) {
      found.reasons = view(*reasons);
      found.weights = view(*weights);
      found.n_reasons = static_cast<std::int64_t>(reasons->shape(1));
    }
    return found;
  }
};

}  // namespace

void bind_lists(nb::module_& m) {
  nb::class_<tastespace::ArrowColumns>(m, "ArrowColumns")
      .def(
          "__init__",
          [](tastespace::ArrowColumns* self, const nb::dict& columns) {
            new (self) tastespace::ArrowColumns(arrow_columns(columns));
          },
          "columns"_a)
      .def(
          "__arrow_c_array__",
          [](tastespace::ArrowColumns& self, nb::object) {
            if (self.n_columns() == 0) throw nb::value_error("the columns were handed over before.");
            auto schema = std::make_unique<tastespace::ArrowSchema>();
            auto array = std::make_unique<tastespace::ArrowArray>();
            self.move_to(schema.get(), array.get());
            nb::object first = arrow_capsule(std::move(schema), "arrow_schema");
            return nb::make_tuple(first, arrow_capsule(std::move(array), "arrow_array"));
          },
          "requested_schema"_a = nb::none());

  m.def(
      "list_with_vectors",
      [](const ScoringArrays& space, const ExactItemArrays& exact, Array<std::int32_t> users,
         const ItemListArrays& excluded, std::int64_t k, int threads, Mask allowed,
         std::optional<Array<std::int32_t>> item_rows) {
        const auto n_items = static_cast<std::size_t>(space.n_items());
        space.require(view(users), threads);
        excluded.require("excluded", view(users), space.n_items());
        require_least("k", k, 0);
        require_size("item_vectors", exact.vectors.shape(1), static_cast<std::size_t>(space.items->dim()),
                     "coordinates of a vector, as of users");
        const auto mask = mask_view(allowed, space.n_items());
        std::span<const std::int32_t> rows;
        if (item_rows) {
          require_size("item_rows", item_rows->size(), n_items, "one per item");
          require_indices("item_rows", view(*item_rows), exact.n_items());
          rows = view(*item_rows);
        } else {
          require_size("item_vectors", exact.vectors.shape(0), n_items, "rows, as items");
        }
        tastespace::UserLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_with_vectors(space.views(), exact.views(rows), view(users), excluded.views(), k, threads,
                                              mask);
        }
        return give_lists(std::move(out), users.size(), k);
      },
      "space"_a, "exact"_a, "users"_a, "excluded"_a, nb::kw_only(), "k"_a, "threads"_a, "allowed"_a = nb::none(),
      "item_rows"_a = nb::none());

  m.def(
      "list_found",
      [](const UserVectorArrays& vectors, const ExactItemArrays& exact, Array<std::int32_t> users,
         Matrix<std::int64_t> found, const ItemListArrays& excluded, std::int64_t k, int threads) {
        require_size("item_vectors", exact.vectors.shape(1), vectors.vectors.shape(1), "coordinates, as of users");
        vectors.require_users(view(users));
        excluded.require("excluded", view(users), exact.n_items());
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        require_size("found", found.shape(0), vectors.n_vectors(view(users)), "a row per vector of the users");
        tastespace::UserLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_found(vectors.views(), static_cast<std::int64_t>(vectors.vectors.shape(1)),
                                       exact.views(), view(users), view(found),
                                       static_cast<std::int64_t>(found.shape(1)), excluded.views(), k, threads);
        }
        return give_lists(std::move(out), users.size(), k);
      },
      "vectors"_a, "exact"_a, "users"_a, "found"_a, "excluded"_a, nb::kw_only(), "k"_a, "threads"_a);

  nb::class_<IdArrays>(m, "IdColumn")
      .def(
          "__init__",
          [](IdArrays* self, std::optional<IdArrays::AnyArray> numbers, std::optional<Array<std::int64_t>> offsets,
             std::optional<Array<std::uint8_t>> text) {
            if (numbers.has_value() == (offsets && text))
              throw std::invalid_argument("expected numbers, or offsets and text.");
            if (!numbers) require_offsets("offsets", view(*offsets), text->size());
            new (self) IdArrays{numbers, offsets, text};
          },
          nb::kw_only(), "numbers"_a.none() = nb::none(), "offsets"_a.none() = nb::none(),
          "text"_a.none() = nb::none());

  nb::class_<OneUserLists>(m, "OneUserLists")
      .def(
          "__init__",
          [](OneUserLists* self, const ScoringArrays& space, const ExactItemArrays& exact,
             const ItemListArrays& excluded, std::int64_t k, Mask allowed, std::optional<IdArrays> user_ids,
             const IdArrays& item_ids, bool with_interests) {
            const auto dim = static_cast<std::size_t>(space.items->dim());
            require_size("item_vectors", exact.vectors.shape(0), static_cast<std::size_t>(space.n_items()), "rows, as items");
            require_size("item_vectors", exact.vectors.shape(1), dim, "coordinates of a vector, as of users");
            const ListColumnArrays lists{excluded, k, allowed, user_ids, item_ids, exact.by_distance, with_interests};
            lists.require(space.n_items(), space.users.offsets.size());
            new (self) OneUserLists{space, exact, lists};
          },
          "space"_a, "exact"_a, "excluded"_a, nb::kw_only(), "k"_a, "allowed"_a.none(), "user_ids"_a.none(),
          "item_ids"_a, "with_interests"_a)
      .def("columns", &OneUserLists::columns, "user"_a, "user_text"_a.none() = nb::none());

  nb::class_<OneUserBlendLists>(m, "OneUserBlendLists")
      .def(
          "__init__",
          [](OneUserBlendLists* self, nb::object program, const ItemListArrays& excluded, std::int64_t k, Mask allowed,
             std::optional<IdArrays> user_ids, const IdArrays& item_ids) {
            const auto& blend = nb::cast<const BlendArrays&>(program);
            if (blend.has_given() || !blend.splits())
              throw nb::value_error("program: expected one that computes the scores of all its members.");
            const ListColumnArrays lists{excluded, k, allowed, user_ids, item_ids, false, true};
            lists.require(blend.blend.n_items, blend.past.offsets.size());
            new (self) OneUserBlendLists{program, &blend, lists};
          },
          "program"_a, "excluded"_a, nb::kw_only(), "k"_a, "allowed"_a.none(), "user_ids"_a.none(), "item_ids"_a)
      .def("columns", &OneUserBlendLists::columns, "user"_a, "user_text"_a.none() = nb::none());

  m.def(
      "past_reasons",
      [](Matrix<float> vectors, bool by_distance, Array<std::int64_t> offsets, Array<std::int32_t> past,
         Array<std::int32_t> users, Array<std::int32_t> listed, std::int64_t k) {
        const auto n_items = static_cast<std::int64_t>(vectors.shape(0));
        require_size("listed", listed.size(), users.size(), "one per user");
        require_least("k", k, 1);
        require_rows("offsets", view(offsets), past.size(), view(users));
        require_indices("listed", view(listed), n_items);
        std::int32_t last = -1;  // entries of one list follow each other: its user's past is checked once
        for (const std::int32_t user : view(users)) {
          if (user != last)
            require_indices(
                "past", view(past).subspan(offsets.data()[user], offsets.data()[user + 1] - offsets.data()[user]), n_items);
          last = user;
        }
        tastespace::PastReasons out;
        {
          nb::gil_scoped_release free;
          out = tastespace::past_reasons(view(vectors), static_cast<std::int64_t>(vectors.shape(1)), by_distance,
                                         view(offsets), view(past), view(users), view(listed), k);
        }
        return std::make_tuple(give_matrix<std::int32_t>(std::move(out.items), listed.size(), k),
                               give_matrix<float>(std::move(out.closeness), listed.size(), k));
      },
      "vectors"_a, "by_distance"_a, "offsets"_a, "past"_a, "users"_a, "listed"_a, "k"_a);

  m.def(
      "taste_groups",
      [](Matrix<float> vectors, Array<std::int64_t> offsets, Array<std::int32_t> past, std::int64_t most,
         std::int64_t items_per_taste, double least_gain, int threads) {
        require_offsets("offsets", view(offsets), past.size());
        require_indices("past", view(past), static_cast<std::int64_t>(vectors.shape(0)));
        require_least("most", most, 1);
        require_least("items_per_taste", items_per_taste, 1);
        require_numbers("least_gain", std::span<const double>(&least_gain, 1));
        require_least("threads", threads, 1);
        std::vector<std::int32_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::taste_groups(view(vectors), static_cast<std::int64_t>(vectors.shape(1)), view(offsets),
                                         view(past), {most, items_per_taste, least_gain}, threads);
        }
        return give(std::move(out));
      },
      "vectors"_a, "offsets"_a, "past"_a, "most"_a, "items_per_taste"_a, "least_gain"_a, "threads"_a);

  nb::class_<ItemTextArrays>(m, "ItemTexts")
      .def(
          "__init__",
          [](ItemTextArrays* self, nb::bytes text, Array<std::int64_t> offsets, Array<std::int64_t> cuts) {
            require_size("text_offsets", offsets.size(), cuts.size() + 1, "one per item and one more");
            new (self) ItemTextArrays{text, offsets, cuts};
          },
          nb::kw_only(), "text"_a, "offsets"_a, "cuts"_a);

  nb::class_<ListEntryArrays>(m, "ListEntries")
      .def(
          "__init__",
          [](ListEntryArrays* self, Array<std::int32_t> rows, Array<std::int32_t> ranks, Array<float> scores,
             std::optional<Array<std::int32_t>> interests, std::optional<Array<float>> distances,
             std::optional<Matrix<std::int32_t>> reasons, std::optional<Matrix<double>> weights) {
            const std::size_t n = rows.size();
            require_size("ranks", ranks.size(), n, "one per entry");
            require_size("scores", scores.size(), n, "one per entry");
            if (interests) require_size("interests", interests->size(), n, "one per entry");
            if (distances) require_size("distances", distances->size(), n, "one per entry");
            if (reasons.has_value() != weights.has_value())
              throw nb::value_error("reasons and weights: expected both or neither.");
            if (reasons) {
              require_size("reasons", reasons->shape(0), n, "one row per entry");
              require_size("weights", weights->size(), reasons->size(), "one per reason");
            }
            new (self) ListEntryArrays{rows, ranks, scores, interests, distances, reasons, weights};
          },
          nb::kw_only(), "rows"_a, "ranks"_a, "scores"_a, "interests"_a.none(), "distances"_a.none(),
          "reasons"_a.none(), "weights"_a.none());

  m.def(
      "list_texts",
      [](const ItemTextArrays& items, const ListEntryArrays& entries, Array<std::int64_t> ends) {
        require_offsets("ends", view(ends), entries.rows.size());
        require_indices("rows", view(entries.rows), items.n_items());
        items.require_texts(view(entries.rows));
        if (entries.reasons)
          for (const std::int32_t item : view(*entries.reasons)) {
            if (item < 0) continue;
            require_indices("reasons", {&item, 1}, items.n_items());
            items.require_texts({&item, 1});
            items.require_cut(item);
          }
        const tastespace::ListTexts found = tastespace::list_texts(items.views(), entries.views(), view(ends));
        nb::list out;
        std::int64_t start = 0;
        for (std::size_t list = 0; list < found.ends.size(); ++list) {
          if (found.is_finite[list])
            out.append(nb::bytes(found.text.data() + start, static_cast<std::size_t>(found.ends[list] - start)));
          else
            out.append(nb::none());
          start = found.ends[list];
        }
        return out;
      },
      "items"_a, "entries"_a, "ends"_a);
}

}  // namespace tastespace::bindings
