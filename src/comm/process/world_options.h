// What a world of processes is told, whichever backend connects them.
#pragma once

#include <memory>
#include <string>

#include "base/memory.h"

namespace trireme {

class FlightRecorder;

/// As those of GlooOptions (comm/gloo/gloo.h).
struct WorldOptions {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";
  int port = 29500;
  std::string store_file = "";
  bool store_is_kept = false;
  double timeout_seconds = 300;
  double least_timeout_seconds = 120;
  int device = kNoDevice;
  std::shared_ptr<FlightRecorder> recorder = {};
};

}  // namespace trireme
