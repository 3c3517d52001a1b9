// The program's version, as CMakeLists.txt gives it to project().
#pragma once

#include <string_view>

namespace trireme {

/// "0.1.0"
std::string_view program_version();

}  // namespace trireme
