// Columns of numbers and text that are handed over to a data frame by the Arrow C data interface: no copy, no conversion.
// https://arrow.apache.org/docs/format/CDataInterface.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tastespace {

// The two structures of the interface, as it defines them.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

// Columns of the same length. Format: the letter of the type, such as "i" for 32-bit and "l" for 64-bit whole numbers.
class ArrowColumns {
 public:
  explicit ArrowColumns(std::int64_t length) : length_(length) {}
  ArrowColumns(ArrowColumns&&) = default;
  ArrowColumns& operator=(ArrowColumns&&) = default;
  ArrowColumns(const ArrowColumns&) = delete;

  // Memory for a column, which the caller fills.
  std::byte* add(std::string name, const char* format, std::size_t n_bytes);

  // A column of text, which is copied.
  void add_text(std::string name, std::span<const std::string_view> values);

  std::size_t n_columns() const { return columns_.size(); }

  // A structure with a field for each column; the columns belong to whoever releases the array, from any thread.
  void move_to(ArrowSchema* schema, ArrowArray* array);

 private:
  struct Column {
    std::string name;
    const char* format;
    std::unique_ptr<std::byte[]> values;
    std::unique_ptr<char[]> text;  // where the values are offsets into it
  };
  std::int64_t length_;
  std::vector<Column> columns_;
};

}  // namespace tastespace
