// Options of a world of processes, for all backends.
#pragma once

#include <memory>
#include <string>

#include "base/memory.h"

namespace trireme {

class FlightRecorder;
struct JoinOptions;

/// A rank that joins over MPI ignores address, token and interface; these are for the other backends.
struct WorldOptions {
  int rank = 0;
  int size = 1;

  /// Where the ranks find each other: rank 0 listens at address:port. If `store_file` is set, all ranks use that file
  /// instead (on a file system that all of them see; it must not exist yet, or be empty).
  std::string address = "127.0.0.1";
  int port = 29500;
  std::string store_file = "";

  /// Protects the rendezvous (comm/rendezvous/token.h); the same on all ranks. A process without it learns nothing
  /// there and cannot join. It may be empty only if `address` is this machine's loopback (otherwise a user error); then
  /// every process on this machine could join.
  std::string token = "";

  /// True if another process already listens at address:port (torchrun): then rank 0 is a client too, and keys begin
  /// with `store_prefix`.
  bool store_is_kept = false;
  std::string store_prefix = "";

  /// Network interface for the tensors. Empty: the interface of this machine's host name.
  std::string interface = "lo";

  /// Seconds that a rank waits for all other ranks to start and connect.
  double rendezvous_seconds = 300;

  /// Seconds that a rank waits later for another rank that is alive, makes no progress and does not answer, before any
  /// step has been measured. A little longer if that rank is known to be waiting itself.
  double timeout_seconds = 300;
  /// Lower bound of that time, in seconds, once a step has been measured: then it is 20 times the longest step, but at
  /// least this.
  double least_timeout_seconds = 120;

  /// The device to which messages are attributed that have arrived before a receive (base/memory.h).
  int device = kNoDevice;

  /// Where operations are recorded. Null: in a recorder of the communicator's own.
  std::shared_ptr<FlightRecorder> recorder = {};
};

/// Of a process that a launcher started.
WorldOptions world_options(const JoinOptions& options);

}  // namespace trireme
