// Backend `gloo`: workers are processes on one or several machines, connected by c10d's Gloo (TCP).
#pragma once

#include <memory>

#include "comm/process/world_options.h"
#include "trireme/communicator.h"

namespace trireme {

/// Whether this build has the backend.
bool gloo_available();

/// Meets the other ranks and connects to each of them. Run errors: ranks that did not come in time (named), no such
/// interface, a backend that is missing from this build. A dead rank ends the others' operations within about a second
/// with an error that names it; so do calls that do not match, with both fingerprints, after which every rank logs its
/// last operations. A frozen rank or a cut link does within kSilenceSeconds (comm/flight_recorder.h) and a moment,
/// unless the ranks meet in a file. abort() reaches all ranks within a few tenths of a second. SIGPIPE is ignored from
/// here on if it had no handler.
///
/// The destructor waits until what was sent has been received, and on the rank that hosts the meeting place until the
/// others have gone too; after an abort it does not wait for messages. Destroy it before the process ends, groups
/// before or after.
std::unique_ptr<Communicator> gloo_communicator(const WorldOptions& options);

}  // namespace trireme
