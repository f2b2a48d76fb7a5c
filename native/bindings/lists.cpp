// Lists as users get them: columns of frames, reasons, texts.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <string_view>
#include <tuple>

#include "arrays.hpp"
#include "core/arrow_columns.hpp"
#include "bindings.hpp"
#include "rank/block_scores.hpp"
#include "lists/found_lists.hpp"
#include "lists/list_columns.hpp"
#include "lists/list_texts.hpp"
#include "lists/past_reasons.hpp"
#include "rank/user_lists.hpp"

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

// Arrays of a request for lists, which are held for as long as lists may be asked for.
struct OneUserLists {
  using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  Matrix<float> user_vectors;
  Array<float> vector_terms;
  Array<std::int64_t> vector_offsets;
  nb::object packed;
  Matrix<float> item_vectors;
  Array<float> item_bias;
  Array<std::int64_t> excluded_offsets;
  Array<std::int32_t> excluded_items;
  std::optional<Array<std::uint8_t>> allowed;
  std::optional<AnyArray> user_ids, item_ids;
  std::optional<Array<std::int64_t>> text_offsets;
  std::optional<Array<std::uint8_t>> text;
  tastespace::ListSource source;

  static tastespace::IdColumn numbers(const AnyArray& ids) {
    return {arrow_format(ids.dtype()),
            {static_cast<const std::byte*>(ids.data()), ids.nbytes()},
            static_cast<std::size_t>(ids.itemsize()), {}, {}};
  }

  nb::object columns(std::int32_t user, std::optional<std::string_view> user_text) const {
    const std::span<const std::int32_t> users(&user, 1);
    require_rows("vector_offsets", view(vector_offsets), user_vectors.shape(0), users);
    require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), users,
                  source.items->n_items());
    if (user_ids.has_value() == user_text.has_value())
      throw std::invalid_argument("user_text: expected the id of the user where ids are text, and only there.");
    std::optional<tastespace::ArrowColumns> found;
    {
      nb::gil_scoped_release free;
      found = tastespace::list_columns(source, user, user_text.value_or(std::string_view()));
    }
    return found ? nb::cast(std::move(*found)) : nb::none();
  }
};

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
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, std::optional<Array<std::int32_t>> item_rows, Array<std::int32_t> users,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items, std::int64_t k, int threads,
         std::optional<Array<std::uint8_t>> allowed) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_least("k", k, 0);
        require_size("item_vectors", item_vectors.shape(1), static_cast<std::size_t>(items.dim()),
                     "coordinates of a vector, as of users");
        if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), item_vectors.shape(0), "one per item");
        std::span<const std::uint8_t> mask;
        if (allowed) {
          require_size("allowed", allowed->size(), static_cast<std::size_t>(items.n_items()), "one per item");
          mask = view(*allowed);
        }
        std::span<const std::int32_t> rows;
        if (item_rows) {
          require_size("item_rows", item_rows->size(), static_cast<std::size_t>(items.n_items()), "one per item");
          require_indices("item_rows", view(*item_rows), static_cast<std::int64_t>(item_vectors.shape(0)));
          rows = view(*item_rows);
        } else {
          require_size("item_vectors", item_vectors.shape(0), static_cast<std::size_t>(items.n_items()), "rows, as items");
        }
        tastespace::UserLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale,
              {view(item_vectors), {by_distance, view(item_bias)}, rows}, view(users),
              {view(excluded_offsets), view(excluded_items)}, k, threads, mask);
        }
        return std::make_tuple(give_matrix<std::int32_t>(std::move(out.top), users.size(), k),
                               give_matrix<float>(std::move(out.scores), users.size(), k),
                               give_matrix<std::int32_t>(std::move(out.interests), users.size(), k), out.n_found,
                               out.nan_user);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a, "item_vectors"_a, "by_distance"_a,
      "item_bias"_a, "item_rows"_a.none(), "users"_a, "excluded_offsets"_a, "excluded_items"_a, "k"_a, "threads"_a,
      "allowed"_a = nb::none());

  m.def(
      "list_found",
      [](Matrix<float> user_vectors, Array<std::int64_t> vector_offsets, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, Array<std::int32_t> users, Matrix<std::int64_t> found,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items, std::int64_t k, int threads) {
        const auto n_items = static_cast<std::int64_t>(item_vectors.shape(0));
        require_size("item_vectors", item_vectors.shape(1), user_vectors.shape(1), "coordinates, as of users");
        require_rows("vector_offsets", view(vector_offsets), user_vectors.shape(0), view(users));
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      n_items);
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), item_vectors.shape(0), "one per item");
        std::size_t n_vectors = 0;
        for (const std::int32_t user : view(users)) n_vectors += view(vector_offsets)[user + 1] - view(vector_offsets)[user];
        require_size("found", found.shape(0), n_vectors, "a row per vector of the users");
        tastespace::UserLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_found(view(user_vectors), view(vector_offsets),
                                       static_cast<std::int64_t>(user_vectors.shape(1)),
                                       {view(item_vectors), {by_distance, view(item_bias)}, {}}, n_items, view(users),
                                       view(found), static_cast<std::int64_t>(found.shape(1)),
                                       {view(excluded_offsets), view(excluded_items)}, k, threads);
        }
        return std::make_tuple(give_matrix<std::int32_t>(std::move(out.top), users.size(), k),
                               give_matrix<float>(std::move(out.scores), users.size(), k),
                               give_matrix<std::int32_t>(std::move(out.interests), users.size(), k), out.nan_user);
      },
      "user_vectors"_a, "vector_offsets"_a, "item_vectors"_a, "by_distance"_a, "item_bias"_a, "users"_a, "found"_a,
      "excluded_offsets"_a, "excluded_items"_a, "k"_a, "threads"_a);

  nb::class_<OneUserLists>(m, "OneUserLists")
      .def(
          "__init__",
          [](OneUserLists* self, Matrix<float> user_vectors, Array<float> vector_terms,
             Array<std::int64_t> vector_offsets, nb::object items, float scale, Matrix<float> item_vectors,
             bool by_distance, Array<float> item_bias, Array<std::int64_t> excluded_offsets,
             Array<std::int32_t> excluded_items, std::int64_t k, std::optional<Array<std::uint8_t>> allowed,
             std::optional<OneUserLists::AnyArray> user_ids, std::optional<OneUserLists::AnyArray> item_ids,
             std::optional<Array<std::int64_t>> text_offsets, std::optional<Array<std::uint8_t>> text,
             bool with_interests) {
            const auto& packed = nb::cast<const tastespace::PackedItems&>(items);
            const auto n_items = static_cast<std::size_t>(packed.n_items()), n_users = excluded_offsets.size() - 1;
            const auto dim = static_cast<std::size_t>(packed.dim());
            require_least("k", k, 0);
            require_size("user_vectors", user_vectors.shape(1), dim, "coordinates of a vector, as of items");
            require_size("vector_terms", vector_terms.size(), user_vectors.shape(0), "one per user vector");
            require_size("vector_offsets", vector_offsets.size(), excluded_offsets.size(), "as of excluded items");
            require_size("item_vectors", item_vectors.shape(0), n_items, "rows, as items");
            require_size("item_vectors", item_vectors.shape(1), dim, "coordinates of a vector, as of users");
            if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), n_items, "one per item");
            if (allowed) require_size("allowed", allowed->size(), n_items, "one per item");
            if (user_ids) require_size("user_ids", user_ids->size(), n_users, "one per user");
            if (item_ids) require_size("item_ids", item_ids->size(), n_items, "one per item");
            if (item_ids.has_value() == (text_offsets && text))
              throw std::invalid_argument("expected item_ids, or text_offsets and text.");
            tastespace::ListSource source{&packed,
                                          {view(user_vectors), view(vector_terms), view(vector_offsets)},
                                          scale,
                                          {view(item_vectors), {by_distance, view(item_bias)}, {}},
                                          {view(excluded_offsets), view(excluded_items)},
                                          k,
                                          {},
                                          {},
                                          {},
                                          by_distance,
                                          with_interests};
            if (allowed) source.allowed = view(*allowed);
            if (user_ids) source.user_ids = OneUserLists::numbers(*user_ids);
            if (item_ids) {
              source.item_ids = OneUserLists::numbers(*item_ids);
            } else {
              require_size("text_offsets", text_offsets->size(), n_items + 1, "one per item and one more");
              require_offsets("text_offsets", view(*text_offsets), text->size());
              source.item_ids.offsets = view(*text_offsets);
              source.item_ids.text = {reinterpret_cast<const char*>(text->data()), text->size()};
            }
            new (self) OneUserLists{user_vectors, vector_terms, vector_offsets, items, item_vectors, item_bias,
                                    excluded_offsets, excluded_items, allowed, user_ids, item_ids, text_offsets, text,
                                    source};
          },
          "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a, "item_vectors"_a,
          "by_distance"_a, "item_bias"_a, "excluded_offsets"_a, "excluded_items"_a, "k"_a, "allowed"_a.none(),
          "user_ids"_a.none(), "item_ids"_a.none(), "text_offsets"_a.none(), "text"_a.none(), "with_interests"_a)
      .def("columns", &OneUserLists::columns, "user"_a, "user_text"_a.none() = nb::none());

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
      "list_texts",
      [](nb::bytes item_texts, Array<std::int64_t> text_offsets, Array<std::int64_t> text_cuts, Array<std::int64_t> ends,
         Array<std::int32_t> rows, Array<std::int32_t> ranks, Array<float> scores,
         std::optional<Array<std::int32_t>> interests, std::optional<Array<float>> distances,
         std::optional<Matrix<std::int32_t>> reasons, std::optional<Matrix<double>> weights) {
        const std::size_t n = rows.size();
        require_size("ranks", ranks.size(), n, "one per entry");
        require_size("scores", scores.size(), n, "one per entry");
        if (interests) require_size("interests", interests->size(), n, "one per entry");
        if (distances) require_size("distances", distances->size(), n, "one per entry");
        require_offsets("ends", view(ends), n);
        require_size("text_offsets", text_offsets.size(), text_cuts.size() + 1, "one per item and one more");
        const auto n_items = static_cast<std::int64_t>(text_cuts.size());
        require_indices("rows", view(rows), n_items);
        require_rows("text_offsets", view(text_offsets), item_texts.size(), view(rows));  // not of all items each time
        const auto require_cut = [&](std::int32_t item) {
          if (text_cuts.data()[item] < text_offsets.data()[item] || text_cuts.data()[item] > text_offsets.data()[item + 1])
            throw nb::value_error("text_cuts: expected a place within the text of each item.");
        };
        tastespace::ListEntries entries{view(rows), view(ranks), view(scores), {}, {}, {}, {}, 0};
        if (interests) entries.interests = view(*interests);
        if (distances) entries.distances = view(*distances);
        if (reasons.has_value() != weights.has_value())
          throw nb::value_error("reasons and weights: expected both or neither.");
        if (reasons) {
          require_size("reasons", reasons->shape(0), n, "one row per entry");
          require_size("weights", weights->size(), reasons->size(), "one per reason");
          for (const std::int32_t item : view(*reasons)) {
            if (item >= n_items) require_indices("reasons", {&item, 1}, n_items);
            if (item < 0) continue;
            require_rows("text_offsets", view(text_offsets), item_texts.size(), {&item, 1});
            require_cut(item);
          }
          entries.reasons = view(*reasons);
          entries.weights = view(*weights);
          entries.n_reasons = static_cast<std::int64_t>(reasons->shape(1));
        }
        const tastespace::ItemTexts items{{item_texts.c_str(), item_texts.size()}, view(text_offsets), view(text_cuts)};
        const tastespace::ListTexts found = tastespace::list_texts(items, entries, view(ends));
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
      "item_texts"_a, "text_offsets"_a, "text_cuts"_a, "ends"_a, "rows"_a, "ranks"_a, "scores"_a,
      "interests"_a.none(), "distances"_a.none(), "reasons"_a.none(), "weights"_a.none());
}

}  // namespace tastespace::bindings
