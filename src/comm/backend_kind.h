// The registry of backends: how the ranks of a run are connected. A new backend is a folder with a descriptor and one
// line in backend_kind.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/rendezvous/process_place.h"

namespace trireme {

class FlightRecorder;

/// What a process that a launcher started needs in order to join the other ranks.
struct JoinOptions {
  const ProcessPlace& place;
  std::string interface = {};  ///< network interface; empty for a backend that finds_ranks
  std::string token = {};      ///< as WorldOptions::token
  std::shared_ptr<FlightRecorder> recorder;
};

struct BackendKind {
  const char* name;
  const char* help;                 ///< printed after the name in help texts
  const char* purpose;              ///< one line
  bool processes = false;           ///< true if workers are processes; false if they are threads of one process
  bool modelled_time = false;       ///< true if a run's times come from a model
  bool finds_ranks = false;         ///< true if ranks find each other without address, interface or token
  const char* start = "";           ///< the command that starts several processes
  const char* interface_why = "";   ///< with finds_ranks: why no interface can be chosen
  const char* interface_next = "";  ///< with finds_ranks: how to choose an interface; its name is appended
  bool (*available)() = nullptr;    ///< true if this build has the backend; null: every build has it
  /// Connects this process to the other ranks. Null: the processes of a run cannot use this backend.
  std::unique_ptr<Communicator> (*join)(const JoinOptions& options) = nullptr;

  bool is_available() const { return !available || available(); }
  /// True if a run may name this backend. Threads of one process are the default and need no name.
  bool can_be_chosen() const { return join || modelled_time; }
};

const std::vector<const BackendKind*>& backend_kinds();
/// Returns null for "" and for an unknown name.
const BackendKind* look_up_backend(std::string_view name);
/// Returns the backend of a run of processes that names none: the first one with join().
const BackendKind& usual_process_backend();
/// Returns the names of the backends for which can_be_chosen() is true.
std::vector<std::string> backend_choices();

// Each is defined in its own folder.
extern const BackendKind kLocalBackend, kGlooBackend, kMpiBackend, kNcclBackend, kVirtualBackend;

}  // namespace trireme
