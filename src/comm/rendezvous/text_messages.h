// Texts between ranks, beside the data of training: identities, agreements, measurements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/communicator.h"

namespace trireme {

/// Sends or receives any bytes, like Communicator's send and receive.
void send_text(Communicator& communicator, const std::string& text, int to, int64_t tag);
std::string receive_text(Communicator& communicator, int from, int64_t tag);

/// Collective. Rank 0 gets the texts of all ranks, by rank. The other ranks get nothing and do not wait.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);
/// Collective. Every rank gets rank 0's text.
std::string broadcast_text(Communicator& communicator, const std::string& text);

}  // namespace trireme
