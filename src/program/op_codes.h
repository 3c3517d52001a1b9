// The op codes. Each is described in one place: what its index refers to, which resource it uses, the ranks of its
// rendezvous, its effect on weights and memory, its drawing. To add an instruction, add one row to the table in
// op_codes.cpp and one case to Worker::State::execute.
#pragma once

#include <optional>

namespace trireme {

struct Instruction;
class RendezvousWriter;

enum class OpCode {
  load_batch,  ///< loads this worker's share of the model inputs that stage `index` reads, for one micro-batch
  forward,     ///< segment `index`
  recompute,   ///< forward of segment `index` again, for the backward that follows. A layer whose output nothing in the
               ///< recomputed run reads is only restored (Layer::restores)
  backward,    ///< segment `index`
  backward_input,      ///< segment `index`: gradients of the inputs, and of the parameters of layers that cannot split
  backward_weight,     ///< segment `index`: gradients of the remaining parameters
  redistribute,        ///< redistribution `index` within a stage; `adjoint`: of the gradient
  redistribute_again,  ///< the same in forward direction, within a recomputed run
  send,                ///< this worker's part of redistribution `index` to another stage
  receive,
  prefetch_weights,  ///< bucket `index` (zero3): starts to send this worker's slice to the other holders; does not wait
  gather_weights,    ///< bucket `index` (zero3): waits until all slices have arrived
  release_weights,   ///< bucket `index` (zero3): releases all but this worker's slice
  reduce_gradients,  ///< bucket `index`: this worker's gradient is complete (of the batch; under zero2 and zero3 of the
                     ///< micro-batch). Shared replicas: the other holders may read it. Private replicas: all holders
                     ///< reduce it together
  clip_gradients,  ///< after all buckets are reduced: computes the norm of the full gradient for clipping, and of each
                   ///< parameter and its step for layer-wise optimizers
  optimizer_step,  ///< bucket `index`: update. Shared replicas: sums (unless clipped) and updates this worker's slice
                   ///< in one pass. Private replicas: under zero1 and zero2 the holders then gather each other's slices
  synchronize_buffers,  ///< evaluation under local batch norm: copies the running statistics of the first worker on the
                        ///< data axis
  agree,  ///< the replica's part in the plan's agreement (trireme/policy.h): `index` 0 before the step, 1 after it. All
          ///< ranks of the replica take part; the first rank exchanges with the other replicas
};
constexpr int kBeforeStep = 0, kAfterStep = 1;  ///< Instruction::index of `agree`

/// What an instruction's index refers to.
enum class Operand { nothing, stage, segment, redistribution, bucket, op, end_of_step };

/// The resource that an instruction occupies.
enum class Resource {
  device,   ///< ranks that join compute their own parts, each for its own time
  network,  ///< ranks that join perform one operation together
  both,     ///< an update, then the gathering of sharded weights
  memory,
};

/// Where an instruction runs if links overlap computing: in the worker's list (main), or beside it, in the order of
/// queueing.
enum class Lane { main, exchange, mail };

/// The kind of work of an instruction, as timelines show it.
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

/// The pass of its segment's layers that an instruction runs.
enum class SegmentPass { none, forward, backward, backward_input, backward_weight };

/// A worker's part in a redistribution.
enum class RedistributionRole { none, exchange, send, receive };

/// How an instruction uses the weights of its segment or bucket and their gradients.
enum class WeightUse {
  nothing,
  read,        ///< reads the version that a layer requires
  read_again,  ///< reads the version that the forward has read
  give_slice,  ///< sends its slice to the other holders
  gather_slices,
  add_gradients,
  sum_gradients,  ///< an exchange, which may run beside the list
  measure_sums,   ///< computes norms when the sums of all buckets are available
  update,         ///< updates when the bucket's sum is available
};

/// What an instruction allocates and releases in its worker's memory.
enum class MemoryEffect {
  nothing,
  load_inputs,
  keep_activations,     ///< allocates outputs and what backward reads; releases values after their last read
  restore_activations,  ///< the same for a segment whose activations forward has not retained
  free_activations,     ///< allocates gradients; releases what forward has retained
  free_deferred,        ///< releases what the first part of a split backward has retained
  redistribute_value,
  prefetch_weights,
  gather_weights,
  release_weights,
  sum_gradients,
  free_sum,
};

/// Describes an instruction that takes: `from` is the op code of the matching posts.
struct Taking {
  OpCode from;
  bool only_shared_replicas = false;  ///< private replicas use `rendezvous` instead
};

/// An op code in the nominal drawing (clock.h, draw.h). Without units it is not drawn.
struct Drawing {
  const char* kind = "";    ///< in the report
  const char* letter = "";  ///< before the number of the micro-batch
  double units = 0;         ///< 1: as long as a forward of the same layers
};

struct OpCodeDescription {
  OpCode code;
  const char* name;
  Operand operand = Operand::nothing;
  Resource resource = Resource::memory;
  EventKind event = EventKind::other;
  Lane lane = Lane::main;
  SegmentPass pass = SegmentPass::none;
  RedistributionRole role = RedistributionRole::none;
  WeightUse weights = WeightUse::nothing;
  MemoryEffect memory = MemoryEffect::nothing;
  void (*rendezvous)(RendezvousWriter&, const Instruction&) = nullptr;  ///< see rendezvous_rules.h; null: none
  std::optional<Taking> takes = std::nullopt;
  Drawing drawing = {};
};
const OpCodeDescription& description_of(OpCode code);

inline const char* name_of(OpCode code) { return description_of(code).name; }

}  // namespace trireme
