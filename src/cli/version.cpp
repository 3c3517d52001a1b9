#include "cli/version.h"

namespace trireme {

std::string_view program_version() { return TRIREME_VERSION; }

}  // namespace trireme
