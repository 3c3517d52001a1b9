// What a world of processes is told, whichever backend connects them.
#pragma once

#include <memory>
#include <string>

#include "base/memory.h"

namespace trireme {

class FlightRecorder;
struct JoinOptions;

/// Ranks that meet over MPI have no use for an address, a token or an interface: those are of the others.
struct WorldOptions {
  int rank = 0;
  int size = 1;

  /// Where the ranks find each other: rank 0 listens at address:port, or, when `store_file` is set, all of them use
  /// that file (on a file system that all see; not there yet, or empty).
  std::string address = "127.0.0.1";
  int port = 29500;
  std::string store_file = "";

  /// The ranks meet behind it (comm/rendezvous/token.h), all with the same one: a process without it learns nothing
  /// there and cannot join. Empty only where `address` is this machine's loopback (else a user error): then every
  /// process on this machine could join.
  std::string token = "";

  /// Another process listens at address:port already (torchrun): rank 0 is a client too. Keys begin with
  /// `store_prefix`.
  bool store_is_kept = false;
  std::string store_prefix = "";

  /// Network interface that the tensors travel through. Empty: the one of this machine's host name.
  std::string interface = "lo";

  /// How long a rank waits for all others to start and connect.
  double meeting_seconds = 300;

  /// How long a rank waits later for a rank that is alive, does nothing and does not answer, while no step has been
  /// measured. A little longer if that rank is known to be waiting itself.
  double timeout_seconds = 300;
  /// Once one has been (flight recorder): twenty times the longest step, but not less than this.
  double least_timeout_seconds = 120;

  /// The device whose memory messages that have arrived and were not asked for yet count as (base/memory.h).
  int device = kNoDevice;

  /// Where operations are written down. Null: in memory of the communicator's own.
  std::shared_ptr<FlightRecorder> recorder = {};
};

/// Of a process that a launcher started.
WorldOptions world_options(const JoinOptions& options);

}  // namespace trireme
