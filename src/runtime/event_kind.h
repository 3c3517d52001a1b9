// What a worker does in an instruction, as timelines call it.
#pragma once

#include "program/program.h"
#include "runtime/timeline.h"

namespace trireme {

EventKind event_kind(OpCode code);

}  // namespace trireme
