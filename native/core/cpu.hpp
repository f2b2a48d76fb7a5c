// The SIMD variant for this processor.
#pragma once

namespace tastespace {

// Name of the widest SIMD variant that this processor runs: "v4" (AVX-512), "v3" (AVX2 + FMA) or "generic".
const char* best_simd_variant() noexcept;

}  // namespace tastespace
