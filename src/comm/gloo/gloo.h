// Backend `gloo`: workers are processes on one or several machines, connected by c10d's Gloo (TCP).
#pragma once

#include <memory>

#include "comm/process/world_options.h"
#include "trireme/communicator.h"

namespace trireme {

/// True if this build has the backend.
bool gloo_available();

/// Waits for the other ranks and connects to each of them. Run errors: ranks that did not arrive in time (named), an
/// unknown interface, a build without the backend. After a rank dies, operations of the other ranks end within about a
/// second with an error that names it. Calls that do not match end the same way, with both fingerprints, and every rank
/// logs its last operations. A frozen rank or a cut link is detected shortly after kSilenceSeconds
/// (comm/flight_recorder.h), unless the ranks use a store file. abort() reaches all ranks within a few tenths of a
/// second. If SIGPIPE has no handler, it is ignored from now on.
///
/// The destructor waits until all sent data have been received. On the rank that hosts the rendezvous it also waits
/// until the other ranks have left. After an abort it does not wait for messages. Destroy it before the process ends;
/// groups may be destroyed before or after it.
std::unique_ptr<Communicator> gloo_communicator(const WorldOptions& options);

}  // namespace trireme
