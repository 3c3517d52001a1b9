// The registry of backends: through what workers reach each other. A folder with a descriptor, and a line in
// backend_kind.cpp, add one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/rendezvous/process_place.h"

namespace trireme {

class FlightRecorder;

/// What a process that a launcher started gives to join the others.
struct JoinOptions {
  const ProcessPlace& place;
  std::string interface = {};  ///< network interface; empty where the backend finds_ranks
  std::string token = {};      ///< as WorldOptions'
  std::shared_ptr<FlightRecorder> recorder;
};

struct BackendKind {
  const char* name;
  const char* help;            ///< follows the name in help texts
  const char* purpose;         ///< one line
  bool processes = false;      ///< workers are processes; else threads of one
  bool modelled_time = false;  ///< a run's times are a model's
  bool finds_ranks = false;    ///< ranks find each other by their launcher: no address, interface or token is needed
  const char* start = "";      ///< what starts several processes
  const char* interface_why = "";   ///< where finds_ranks: why no interface can be chosen ...
  const char* interface_next = "";  ///< ... and how one is, followed by its name
  bool (*available)() = nullptr;    ///< in this build; null: in every one
  std::unique_ptr<Communicator> (*join)(const JoinOptions& options) =
      nullptr;  ///< of backends that a run of processes can have

  bool is_available() const { return !available || available(); }
  /// Whether a run may be asked to use it; threads are what it has without being asked.
  bool can_be_chosen() const { return join || modelled_time; }
};

const std::vector<const BackendKind*>& backend_kinds();
/// Null: unknown, or "".
const BackendKind* look_up_backend(std::string_view name);
/// Of a run of processes that names none: the first that it can have.
const BackendKind& usual_process_backend();
/// That can_be_chosen.
std::vector<std::string> backend_choices();

// One folder each.
extern const BackendKind kLocalBackend, kGlooBackend, kMpiBackend, kNcclBackend, kVirtualBackend;

}  // namespace trireme
