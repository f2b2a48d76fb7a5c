// CRC-32 as in zlib, fast enough to check a model file whenever it is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tastespace {

// The checksum of the bytes, continued from `before`, the checksum of those that precede them.
std::uint32_t crc32(std::span<const std::uint8_t> bytes, std::uint32_t before);

}  // namespace tastespace
