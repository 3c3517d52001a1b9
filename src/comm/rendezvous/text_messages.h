// Texts between ranks, beside what training moves: who they are, what they agree on, what they measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/communicator.h"

namespace trireme {

/// Any bytes. As Communicator's send and receive.
void send_text(Communicator& communicator, const std::string& text, int to, int64_t tag);
std::string receive_text(Communicator& communicator, int from, int64_t tag);

/// All ranks together: rank 0 gets every rank's, by rank; the others get nothing and do not wait.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);
/// All ranks together: every rank gets rank 0's.
std::string broadcast_text(Communicator& communicator, const std::string& text);

}  // namespace trireme
