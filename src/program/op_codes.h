// The op codes, each described in one place: what its index names, what it keeps busy, with which ranks it meets, what
// it does to weights and memory, how it is shown. A new instruction is one row of the table in op_codes.cpp and one
// case in Worker::State::execute.
#pragma once

#include <optional>

namespace trireme {

struct Instruction;
class RendezvousWriter;

enum class OpCode {
  load_batch,       ///< this worker's share of the inputs of a micro-batch that stage `index` reads
  forward,          ///< segment `index`
  recompute,        ///< forward of segment `index` once more, for the backward that follows
  backward,         ///< segment `index`
  backward_input,   ///< segment `index`: gradients of the inputs, and of the parameters of layers that cannot split
  backward_weight,  ///< segment `index`: gradients of the remaining parameters
  redistribute,     ///< move `index` within a stage; `adjoint`: of the gradient
  send,             ///< this worker's part of move `index` to another stage
  receive,
  prefetch_weights,  ///< bucket `index` (zero3): this worker's slice is on its way to the others; waits for nobody
  gather_weights,    ///< bucket `index` (zero3): all slices are here
  release_weights,   ///< bucket `index` (zero3): back to this worker's slice
  reduce_gradients,  ///< bucket `index`: this worker's gradient is complete (of the batch; under zero2 and zero3 of the
                     ///< micro-batch). Shared replicas: others may read it. Private ones: all holders reduce it
                     ///< together
  clip_gradients,  ///< all buckets reduced; norms taken: of the full gradient for clipping, of every parameter and its
                   ///< step for layer-wise optimizers
  optimizer_step,  ///< bucket `index`: update. Shared replicas: sum (unless clipped) and update this worker's slice in
                   ///< one pass. Private ones: under zero1 and zero2 the holders gather each other's slices
  synchronize_buffers,  ///< evaluation under local batch norm: running statistics of the data axis' first worker
  agree,  ///< the replica's part in the plan's agreement (trireme/policy.h): `index` 0 before the step, 1 after it. All
          ///< ranks of the replica together; the first one exchanges with the other replicas for all
};
constexpr int kBeforeStep = 0, kAfterStep = 1;  ///< Instruction::index of `agree`

/// What an instruction's index names.
enum class Operand { nothing, stage, segment, move, bucket, op, end_of_step };

/// What an instruction keeps busy.
enum class Resource {
  device,   ///< where ranks join, each computes its own part for its own time
  network,  ///< where ranks join, they do one thing together
  both,     ///< an update, then the gathering of divided weights
  memory,
};

/// Where an instruction goes on when links overlap computing: in the worker's list, or beside it in the order in which
/// it was handed over.
enum class Lane { main, exchange, mail };

/// What a worker does in an instruction, as timelines call it.
enum class EventKind {
  load,
  forward,
  recompute,
  backward,
  redistribute,
  gather,
  send,
  receive,
  reduce,
  update,
  wait,
  other
};

/// Which pass of its segment's layers an instruction is.
enum class SegmentPass { none, forward, backward, backward_input, backward_weight };

/// A worker's part in a move.
enum class MoveRole { none, exchange, send, receive };

/// What an instruction does with the weights of its segment or bucket, and with their gradients.
enum class WeightUse {
  nothing,
  read,        ///< in the version that a layer asks for
  read_again,  ///< as forward has
  give_slice,  ///< to the other holders
  gather_slices,
  add_gradients,
  sum_gradients,  ///< an exchange, which may go on beside the list
  measure_sums,   ///< of all buckets, when they are there
  update,         ///< when the bucket's sum is there
};

/// What an instruction takes and leaves in its worker's memory.
enum class MemoryEffect {
  nothing,
  load_inputs,
  keep_activations,     ///< outputs, and what backward reads; values that are read for the last time go
  restore_activations,  ///< likewise for a segment that forward has not kept
  free_activations,     ///< gradients come, what forward has kept goes
  free_deferred,        ///< what a first part of backward has left goes
  move_value,
  gather_weights,
  release_weights,
  sum_gradients,
  free_sum,
};

/// An instruction whose part is to take: from those that have posted with this code.
struct Taking {
  OpCode from;
  bool only_shared_replicas = false;  ///< private ones do as `meets` says
};

/// On the nominal clock, where stages are equal and communication is free (clock.h, draw.h). Without units it is not
/// drawn.
struct Drawing {
  const char* kind = "";    ///< in the report
  const char* letter = "";  ///< in front of the micro-batch
  double units = 0;         ///< 1: as a forward of the same layers
};

struct OpCodeDescription {
  OpCode code;
  const char* name;
  Operand operand = Operand::nothing;
  Resource resource = Resource::memory;
  EventKind event = EventKind::other;
  Lane lane = Lane::main;
  SegmentPass pass = SegmentPass::none;
  MoveRole role = MoveRole::none;
  WeightUse weights = WeightUse::nothing;
  MemoryEffect memory = MemoryEffect::nothing;
  void (*meets)(RendezvousWriter&, const Instruction&) = nullptr;  ///< one of rendezvous_rules.h; null: it meets nobody
  std::optional<Taking> takes = std::nullopt;
  Drawing drawing = {};
};
const OpCodeDescription& description_of(OpCode code);

inline const char* name_of(OpCode code) { return description_of(code).name; }

}  // namespace trireme
