// How fast bfloat16 is on this machine's processor.
#pragma once

#include <filesystem>

namespace trireme {

/// Returns how many times as fast as float32 a matrix product is in bfloat16. Measures for about half a second, and
/// keeps the result in a file of `cache`, by processor and libtorch; a file that cannot be read or written is ignored.
double bf16_speed(const std::filesystem::path& cache);

}  // namespace trireme
