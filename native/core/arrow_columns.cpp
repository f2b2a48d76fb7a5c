#include "core/arrow_columns.hpp"

#include <algorithm>

namespace tastespace {
namespace {

// What a schema or array points to; its children are released one by one, as the interface demands.
struct SchemaMemory {
  std::vector<std::string> names;
  std::vector<ArrowSchema> fields;
  std::vector<ArrowSchema*> children;
};

struct ColumnMemory {
  std::unique_ptr<std::byte[]> values;
  std::unique_ptr<char[]> text;
  const void* buffers[3];
};

struct ArrayMemory {
  std::vector<ArrowArray> columns;
  std::vector<ArrowArray*> children;
  const void* buffers[1] = {nullptr};
};

void release_field(ArrowSchema* field) { field->release = nullptr; }

void release_column(ArrowArray* column) {
  delete static_cast<ColumnMemory*>(column->private_data);
  column->release = nullptr;
}

template <class Memory, class Node>
void release_node(Node* node) {
  for (std::int64_t i = 0; i < node->n_children; ++i)
    if (node->children[i]->release) node->children[i]->release(node->children[i]);
  delete static_cast<Memory*>(node->private_data);
  node->release = nullptr;
}

}  // namespace

std::byte* ArrowColumns::add(std::string name, const char* format, std::size_t n_bytes) {
  columns_.push_back({std::move(name), format, std::unique_ptr<std::byte[]>(new std::byte[n_bytes]), nullptr});
  return columns_.back().values.get();
}

void ArrowColumns::add_text(std::string name, std::span<const std::string_view> values) {
  std::size_t n_bytes = 0;
  for (const std::string_view value : values) n_bytes += value.size();
  auto* offsets = reinterpret_cast<std::int64_t*>(add(std::move(name), "U", (values.size() + 1) * sizeof(std::int64_t)));
  auto text = std::unique_ptr<char[]>(new char[n_bytes]);
  char* to = text.get();
  *offsets = 0;
  for (const std::string_view value : values) {
    to = std::copy(value.begin(), value.end(), to);
    *++offsets = to - text.get();
  }
  columns_.back().text = std::move(text);
}

void ArrowColumns::move_to(ArrowSchema* schema, ArrowArray* array) {
  const auto n = static_cast<std::int64_t>(columns_.size());
  auto names = std::make_unique<SchemaMemory>();
  auto values = std::make_unique<ArrayMemory>();
  names->fields.resize(n);
  values->columns.resize(n);
  for (std::int64_t i = 0; i < n; ++i) names->names.push_back(std::move(columns_[i].name));
  for (std::int64_t i = 0; i < n; ++i) {
    names->fields[i] = {columns_[i].format, names->names[i].c_str(), nullptr, 0, 0, nullptr, nullptr, release_field, nullptr};
    names->children.push_back(&names->fields[i]);
    auto* memory = new ColumnMemory{std::move(columns_[i].values), std::move(columns_[i].text), {}};
    memory->buffers[1] = memory->values.get();
    memory->buffers[2] = memory->text.get();
    values->columns[i] = {length_, 0, 0, memory->text ? 3 : 2, 0, memory->buffers, nullptr, nullptr, release_column, memory};
    values->children.push_back(&values->columns[i]);
  }
  columns_.clear();
  *schema = {"+s", "", nullptr, 0, n, names->children.data(), nullptr, release_node<SchemaMemory, ArrowSchema>, names.get()};
  *array = {length_, 0, 0, 1, n, values->buffers, values->children.data(), nullptr, release_node<ArrayMemory, ArrowArray>,
            values.get()};
  names.release();
  values.release();
}

}  // namespace tastespace
