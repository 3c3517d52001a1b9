// A backend connects the ranks of a run that are processes. A backend of your own brings a Transport, a
// KeyStore and a BackendKind.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/communicator.h"

namespace trireme {

class FlightRecorder;

// -- what a backend of processes provides: bytes between ranks and a few shared keys

/// A send or receive in progress. Keeps its tensor alive.
class Transfer {
 public:
  virtual ~Transfer() = default;

  /// Returns true when done, false when cancelled. Throws std::exception if the connection failed or `limit` has
  /// passed; the latter closes this rank's connections.
  virtual bool wait(std::chrono::milliseconds limit) = 0;

  /// Makes one wait return false: the current one, or else the next one. Thread-safe.
  virtual void cancel() = 0;
};

/// Thread-safe. Sends and receives of one pair and tag match in order. A receive must have room for what was sent.
/// A send may wait until the receiver has called. Every function may throw std::exception.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<Transfer> send(const at::Tensor& contiguous, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(const at::Tensor& contiguous, int from, int tag) = 0;
  /// True if a payload is sent only after its receive was begun, by a thread of the transport.
  virtual bool waits_for_receivers() const { return false; }
  /// Called a few times per second, by one thread, for what the transport must watch.
  virtual void look() {}
};

/// Keys that all ranks see. Thread-safe. A call may block as long as the rank that hosts the keys does not answer, and
/// may throw std::exception.
class KeyStore {
 public:
  virtual ~KeyStore() = default;
  virtual void publish(const std::string& key, const std::string& value) = 0;  ///< the first value remains
  virtual void replace(const std::string& key, const std::string& value) = 0;  ///< the last value remains
  virtual std::optional<std::string> look_up(const std::string& key) = 0;
};

/// What the ranks communicate through.
struct Connections {
  std::shared_ptr<KeyStore> keys;
  std::unique_ptr<Transport> transport;
  /// True if all ranks can read and write the keys at any time over separate connections. Ranks then show signs of life
  /// through them.
  bool keys_show_life = false;
  /// True if a rank notices when another rank closes its connections. If false, and with keys_show_life, a rank that
  /// leaves publishes this through the keys. These must then stay readable until the last rank has left.
  bool ends_are_seen = true;
};

// -- how a process joins

/// This process's rank and the number of ranks, as its launcher gives them in the environment.
struct ProcessPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;        ///< rank among the ranks of its machine
  std::string address = "";  ///< host or address where rank 0 listens, reachable by all ranks
  int port = 0;
  /// True if the launcher hosts the store at address:port itself (torchrun's static rendezvous); then rank 0 must not
  /// listen there.
  bool store_is_kept = false;
  /// prefix of keys in such a store; a restarted run must not find the earlier run's keys
  std::string store_prefix = "";
  std::string launcher = "";  ///< "torchrun's variables", for messages
};

/// What a process that a launcher started needs in order to join the other ranks.
struct JoinOptions {
  /// Must live until BackendKind::join has returned. `join` copies what the communicator needs later.
  const ProcessPlace& place;
  std::string interface = {};  ///< network interface; empty for a backend that finds_ranks
  std::string token = {};      ///< secret of the run, the same on all ranks; may be empty on one machine
  /// Records what the rank does, for messages about failures (FlightRecorder is not public). communicator_over takes it
  /// from here. Null: the communicator has one of its own.
  std::shared_ptr<FlightRecorder> recorder;
};

/// Description of a backend. All texts outlive the program's use of Trireme.
struct BackendKind {
  const char* name;
  const char* help;                ///< printed after the name in help texts
  const char* purpose;             ///< one line
  bool processes = false;          ///< true if workers are processes; false if they are threads of one process
  bool modelled_time = false;      ///< true if a run's times come from a model
  bool finds_ranks = false;        ///< true if ranks find each other without address, interface or token
  const char* start = "";          ///< the command that starts several processes
  const char* interface_why = "";  ///< with finds_ranks, for errors: why Trireme cannot choose the network interface
  /// With finds_ranks, for the same errors: the user's command or setting that chooses the interface. It ends where the
  /// interface's name follows: "mpirun --mca btl_tcp_if_include ".
  const char* interface_next = "";
  bool (*available)() = nullptr;  ///< true if this build has the backend; null: every build has it
  /// Connects this process to the other ranks. Null: the processes of a run cannot use this backend.
  std::unique_ptr<Communicator> (*join)(const JoinOptions& options) = nullptr;
  /// For a backend that moves tensors from GPU to GPU: returns a communicator with the ranks of `control`, a
  /// communicator that `join` has returned. `gpu` is the GPU of this process; no other process uses it. Null: tensors
  /// travel through memory of the host.
  std::unique_ptr<Communicator> (*between_gpus)(std::unique_ptr<Communicator> control, c10::Device gpu) = nullptr;

  bool is_available() const { return !available || available(); }
  /// True if a run may name this backend. Threads of one process are the default and need no name.
  bool can_be_chosen() const { return join || modelled_time; }
};

/// Returns null for "" and for an unknown name.
const BackendKind* look_up_backend(std::string_view name);

/// Adds a backend of your own to those that --backend takes. `backend` must outlive the program's use of Trireme. Call
/// it by static initialisation or at the start of main; not thread-safe. Returns true. Errors (user): the list of
/// backends has been read already. A name that exists is reported when the list is read.
bool register_backend(const BackendKind& backend);

/// The communicator of this rank over connections of your own: collectives, messages, groups, aborts and signs of life
/// are made from the transport's transfers and the shared keys. For BackendKind::join; `backend` names it in errors.
std::unique_ptr<Communicator> communicator_over(const JoinOptions& options, Connections connections,
                                                const char* backend);

}  // namespace trireme
