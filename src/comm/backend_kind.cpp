#include "comm/backend_kind.h"

#include <algorithm>

namespace trireme {

const std::vector<const BackendKind*>& backend_kinds() {
  static const std::vector<const BackendKind*> kinds{&kLocalBackend, &kGlooBackend, &kMpiBackend, &kNcclBackend,
                                                     &kVirtualBackend};
  return kinds;
}

const BackendKind* look_up_backend(std::string_view name) {
  for (const BackendKind* kind : backend_kinds())
    if (name == kind->name) return kind;
  return nullptr;
}

const BackendKind& usual_process_backend() {
  return **std::find_if(backend_kinds().begin(), backend_kinds().end(),
                        [](const BackendKind* kind) { return kind->join != nullptr; });
}

std::vector<std::string> backend_choices() {
  std::vector<std::string> names;
  for (const BackendKind* kind : backend_kinds())
    if (kind->can_be_chosen()) names.emplace_back(kind->name);
  return names;
}

}  // namespace trireme
