// Backend `gloo`: workers are processes on one or several machines, connected by c10d's Gloo (TCP).
#pragma once

#include <memory>
#include <string>

#include "base/memory.h"
#include "comm/communicator.h"

namespace trireme {

class FlightRecorder;

struct GlooOptions {
  int rank = 0;
  int size = 1;

  /// Where the ranks find each other: rank 0 listens at address:port, or, when `store_file` is set, all of them use that file
  /// (on a file system that all see; not there yet, or empty).
  std::string address = "127.0.0.1";
  int port = 29500;
  std::string store_file = "";

  /// The ranks meet behind it (comm/rendezvous/token.h), all with the same one: who has not got it learns nothing there and cannot join. Empty only where
  /// `address` is this machine's loopback (else a user error): then everybody on this machine could join.
  std::string token = "";

  /// Somebody else listens at address:port already (torchrun): rank 0 is a client too. Keys begin with `store_prefix`.
  bool store_is_kept = false;
  std::string store_prefix = "";

  /// Network interface that the tensors travel through. Empty: the one of this machine's host name.
  std::string interface = "lo";

  /// How long a rank waits for all others to start and connect.
  double meeting_seconds = 300;

  /// How long a rank waits later for a rank that is alive, does nothing and does not answer, while no step has been measured. A little
  /// longer if that rank is known to be waiting itself.
  double timeout_seconds = 300;
  /// Once one has been (flight recorder): twenty times the longest step, but not less than this.
  double least_timeout_seconds = 120;

  /// The device whose memory messages that have arrived and were not asked for yet count as (base/memory.h).
  int device = kNoDevice;

  /// Where operations are written down. Null: in memory of the communicator's own.
  std::shared_ptr<FlightRecorder> recorder = {};
};

/// Whether this build has the backend.
bool gloo_available();

/// Meets the other ranks and connects to each of them. Run errors: ranks that did not come in time (named), no such interface,
/// a backend that is missing from this build. A dead rank ends the others' operations within about a second with an error that
/// names it; so do calls that do not match, with both fingerprints, after which every rank logs its last operations. A frozen rank or a
/// cut link does within kSilenceSeconds (comm/flight_recorder.h) and a moment, unless the ranks meet in a file. abort() reaches all ranks
/// within a few tenths of a second. SIGPIPE is ignored from here on if it had no handler.
///
/// The destructor waits until what was sent has been received, and on the rank that hosts the meeting place until the others
/// have gone too; after an abort it does not wait for messages. Destroy it before the process ends, groups before or after.
std::unique_ptr<Communicator> gloo_communicator(const GlooOptions& options);

}  // namespace trireme
