// Internal to predict_memory: the bytes allocated and released on one rank while the engine executes its list. Layer
// calls and redistributions as in runtime/worker/layer_execution.cpp and transfers.cpp. A tensor there is a storage
// here.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cost/memory_replica.h"
#include "cost/memory_sizes.h"
#include "cost/memory_tally.h"
#include "program/engine.h"

namespace trireme {

class RankMemory final : public EngineCosts {
 public:
  RankMemory(ProgramSizes& all, int rank);
  MemoryUse run();

 private:
  /// What a layer's call retains from forward to backward.
  struct Call {
    Held saved;
    std::vector<Held> kept;  ///< storages owned by others: inputs, output, states
  };

  /// Only of values and ops of this rank's stages, which may be few of the program's.
  struct MicroBatch {
    int index = 0;
    std::unordered_map<ValueId, Held> values, gradients;
    std::vector<int> uses_left;  // by value
    std::unordered_map<OpId, std::optional<Call>> calls;
    std::map<OpId, Held> states;                                // before the forward, for recomputation
    std::map<std::pair<RedistributionId, bool>, Held> arrived;  // messages that are not received yet
  };
  /// A tensor that another stage reads or may not have read yet.
  struct Message {
    RedistributionId redistribution = -1;
    bool adjoint = false;
    int receiver = -1;  ///< the first worker of the receiving stage
    Moment taken;
    Held held;
  };
  struct BatchInFlight {
    int number = 0;
    std::vector<MicroBatch> micro_batches;
  };

  // before the first step
  std::vector<Held> hold_buffers();
  int64_t copied_ahead() const;
  bool carries_states() const;
  bool is_here(const Op& op) const { return op.mesh.index_of(sizes_.rank()) >= 0; }

  // steps
  void begin(std::span<const Execution> together, Demand& demand) override;
  void begin_batch(int number);
  void end_step();
  void apply(const Instruction& instruction, MicroBatch* batch);
  void load(int stage, MicroBatch& batch);
  void forward(const Instruction& instruction, MicroBatch& batch);
  void recompute(SegmentId segment, MicroBatch& batch);
  enum class Run { first, again, restoring };  ///< as in runtime/worker/layer_execution.h
  void run_layer(OpId id, MicroBatch& batch, Run run);
  void carry_states(OpId id, MicroBatch& batch, Call& call, bool recomputing);
  void backward(const Instruction& instruction, MicroBatch& batch);
  void backward_op(OpId id, MicroBatch& batch, bool defer_parameters);
  std::vector<Held> input_gradients(OpId id, const MicroBatch& batch, const Held& gradient);
  void add_parameters(OpId id, const MicroBatch& batch, bool apart);
  void backward_weight(SegmentId segment, MicroBatch& batch);
  void redistribute(const Instruction& instruction, MicroBatch& batch);
  void note_message(const Instruction& instruction, int batch);
  void note_progress(const Instruction& instruction, int batch);
  void note_arrivals(int position);
  /// Between processes a message lies in the receiver's memory, if it is early.
  Receivers receivers() const { return all_.options().messages ? Receivers::at_once : all_.options().receivers; }
  void use_up(ValueId value, MicroBatch& batch);
  void add_gradient(ValueId value, const Held& gradient, MicroBatch& batch);
  Held received_parts(const ArrivingValue& arrival) {
    return allocate(tally_, arrival.reduces ? MemoryCategory::buffers : MemoryCategory::activations, arrival.received);
  }
  Held activations(int64_t bytes) { return allocate(tally_, MemoryCategory::activations, bytes); }

  ProgramSizes& all_;
  const Program& program_;
  MemoryTally tally_;  // declared before all members that own storages
  RankSizes sizes_;
  std::vector<Held> buffers_;
  ReplicaMemory replicas_;
  const std::vector<std::vector<int>> uses_;          // by micro-batch, by value
  const std::map<int, std::vector<ValueId>> loaded_;  // by stage
  std::multimap<int, MessageArrival> arrivals_;       // by position in the list
  int step_ = -1;                                     // the step that is being executed
  std::map<std::pair<NodeId, int>, Held> states_;     // by node and micro-batch
  std::deque<BatchInFlight> in_flight_;
  Held sent_;  // by the previous instruction
  std::vector<Message> under_way_;
  Held exchanged_;  // the tensor that others read in the last redistribution
};

}  // namespace trireme
