// A backend: through what workers that are processes reach each other. One of your own brings a Transport
// (trireme/transport.h) and a BackendKind.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/process_place.h"
#include "trireme/transport.h"

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

/// Null: unknown, or "".
const BackendKind* look_up_backend(std::string_view name);

/// Adds a backend of your own, which outlives the program's use of Trireme, to those that --backend takes. By static
/// initialisation or at the start of main. Returns true. Errors (user): the backends have been listed already; when
/// they are listed, also a name that exists.
bool register_backend(const BackendKind& backend);

/// The communicator of this rank over connections of your own: collectives, messages, groups, aborts and signs of life
/// are made from the transport's transfers and the shared keys. For BackendKind::join; `backend` names it in errors.
std::unique_ptr<Communicator> communicator_over(const JoinOptions& options, Connections connections,
                                                const char* backend);

}  // namespace trireme
