// A backend connects the ranks of a run that are processes. A backend of your own brings a Transport
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

/// What a process that a launcher started needs in order to join the other ranks.
struct JoinOptions {
  const ProcessPlace& place;
  std::string interface = {};                ///< network interface; empty for a backend that finds_ranks
  std::string token = {};                    ///< secret of the run, the same on all ranks; may be empty on one machine
  std::shared_ptr<FlightRecorder> recorder;  ///< passed on by communicator_over; null: none
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

/// Returns null for "" and for an unknown name.
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
