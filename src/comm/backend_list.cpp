#include "comm/backend_list.h"

#include <algorithm>

#include "base/additions.h"
#include "comm/process/process_communicator.h"

namespace trireme {
namespace {

Additions<const BackendKind*>& additions() {
  static Additions<const BackendKind*> backends("backend");
  return backends;
}

}  // namespace

const std::vector<const BackendKind*>& backend_kinds() {
  static const std::vector<const BackendKind*> kinds = [] {
    std::vector<const BackendKind*> all{&kLocalBackend, &kGlooBackend, &kMpiBackend, &kNcclBackend, &kVirtualBackend};
    additions().take(all);
    return all;
  }();
  return kinds;
}

bool register_backend(const BackendKind& backend) { return additions().add(&backend); }

std::unique_ptr<Communicator> communicator_over(const JoinOptions& options, Connections connections,
                                                const char* backend) {
  const WorldOptions world = world_options(options);
  check_rank(world, backend);
  return communicator_of(std::make_shared<ProcessWorld>(world, std::move(connections)));
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
