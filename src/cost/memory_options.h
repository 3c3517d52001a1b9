// Options that the memory of a program's workers depends on.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/message_buffers.h"
#include "runtime/optimizer.h"
#include "runtime/precision.h"

namespace trireme {

/// The assumption about the time at which another stage receives a message. Except with `at_once`, the tensor of an
/// exchange within a stage also stays in memory until the next exchange.
enum class Receivers {
  at_once,   ///< the least memory that a run can use
  one_late,  ///< when the next message is sent on the same redistribution, or before if the instruction lists allow no
             ///< other order: stages of equal speed
  latest,    ///< when the lists allow no other order: the most memory
};

/// A message that arrives before its receiver needs it. Between processes it then occupies the receiver's memory.
struct MessageArrival {
  int redistribution = -1;
  bool adjoint = false;
  int micro_batch = -1;
  int lag = 0;       ///< steps from the one in which the batch begins to the receiver's step at the arrival
  int position = 0;  ///< of the first instruction of the receiver's list that begins after the arrival
};

struct MemoryOptions {
  int64_t batch = 1;  ///< samples of a step over all workers
  Precision precision = Precision::fp32;
  OptimizerConfig optimizer = {};  ///< of a program that trains
  /// By model input: the data set's type. Empty: float32 for the first input, 64-bit indices for the others.
  std::vector<c10::ScalarType> input_types = {};
  Receivers receivers = Receivers::one_late;
  int64_t library_memory = 0;                   ///< bytes that libraries take on the device for each worker
  bool sums_beside = false;                     ///< gradients are reduced while the backward continues
  bool copies_ahead = false;                    ///< the next batch is on the device already (experiment/copies_ahead.h)
  std::optional<MessageBuffers> messages = {};  ///< of workers that are processes and compute on cores
  /// With `messages`: the early messages, by rank (Simulation::arrivals). Empty: a message arrives when it is needed.
  std::vector<std::vector<MessageArrival>> arrivals = {};
};

}  // namespace trireme
