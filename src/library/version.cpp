#include "trireme/program.h"

#include "base/machine.h"
#include "comm/backend_list.h"
#include "library/build_facts.h"

namespace trireme {

Version version() {
  Version version{.number = kVersion, .commit = kCommit, .libtorch = inspect_machine(false).libtorch, .backends = {}};
  for (const BackendKind* backend : backend_kinds())
    if (backend->is_available()) version.backends.emplace_back(backend->name);
  return version;
}

}  // namespace trireme
