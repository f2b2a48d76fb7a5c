// What the processor under us can do.
#pragma once

namespace tastespace {

// Name of the best twin this processor can run: "v4" (AVX-512), "v3" (AVX2 + FMA) or "generic".
const char* best_twin() noexcept;

}  // namespace tastespace
