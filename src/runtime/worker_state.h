// Internals of Worker, split over worker.cpp (set-up, instruction loop), compute.cpp (layers) and exchange.cpp (moves, updates).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/layer_call.h"
#include "runtime/worker.h"
#include "tensor/redistribute.h"

namespace trireme {

/// A program prepared for one worker.
struct Prepared {
  const Program* program = nullptr;
  std::vector<OpBinding> bindings;         ///< by op; unbound (op == nullptr) on other stages
  std::vector<ValueId> forward_alias;      ///< value to read instead (a move that moves nothing forward), else itself
  std::vector<ValueId> backward_alias;     ///< value that the gradient belongs to, else itself
  std::vector<int> uses;                   ///< reads of a value on this worker in one micro-batch's forward
  std::vector<ValueId> loaded;             ///< model inputs that this worker reads
};

/// Tensors of one micro-batch in flight.
struct MicroBatch {
  Range samples;                                  ///< within the global batch
  std::vector<at::Tensor> values, gradients;      ///< by value
  std::vector<int> uses_left;
  std::vector<std::optional<RuntimeLayerCall>> calls;  ///< by op, from forward to backward
};

struct Worker::State {
  State(int rank, const Model& model, ParameterStore& store, LocalWorld& world, const WorkerOptions& options);

  // worker.cpp
  void allocate_gradients(const Program& program);
  void prepare(const Program& program, Prepared& prepared);
  void bind(const Program& program, OpId id, OpBinding& binding);
  Communicator* group(const std::vector<int>& ranks);
  void record(const Instruction& instruction, EventKind kind, double begin, double end, double waited, int64_t bytes);
  StepOutcome run(Prepared& prepared, const StepInput& input, bool training);
  void execute(Prepared& prepared, const Instruction& instruction);
  void stop_if_aborted() const;  ///< ends long segments soon after another worker failed or the user interrupted
  void begin_micro_batches(const Prepared& prepared);

  // compute.cpp
  void load(Prepared& prepared, int k);
  void forward(Prepared& prepared, const Instruction& instruction);
  void backward(Prepared& prepared, const Instruction& instruction);
  void forward_op(Prepared& prepared, OpId id, MicroBatch& batch);
  void backward_op(Prepared& prepared, OpId id, MicroBatch& batch);
  void set_call(const Prepared& prepared, OpId id, const MicroBatch& batch, LayerCall& call) const;
  void use_up(const Prepared& prepared, ValueId value, MicroBatch& batch);
  void add_gradient(const Prepared& prepared, ValueId value, const at::Tensor& gradient, MicroBatch& batch);
  at::Tensor empty_output(const Op& op, const Box& box) const;
  Shape global_shape(NodeId node, const MicroBatch& batch) const;

  // exchange.cpp
  void move(Prepared& prepared, const Instruction& instruction);
  void reduce(Prepared& prepared, BucketId id);
  void clip(Prepared& prepared);
  void update(Prepared& prepared, BucketId id);
  void synchronize_buffers(Prepared& prepared, OpId id);
  void wait_for_weights(const Prepared& prepared, SegmentId segment);
  std::vector<at::Tensor>& optimizer_state(const Bucket& bucket, BucketId id);

  int rank;
  const Model& model;
  ParameterStore& store;
  LocalWorld& world;
  WorkerOptions options;
  std::unique_ptr<Communicator> communicator;
  Redistributor redistributor;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups;
  Prepared training, evaluation;
  std::map<OpId, std::vector<at::Tensor>> buffers;           ///< running statistics, shared by both programs
  std::vector<at::Tensor> gradient_flats;                    ///< by bucket
  std::vector<std::unique_ptr<bool[]>> written;              ///< by bucket and shard: holds a contribution of this step
  std::vector<std::vector<at::Tensor>> optimizer_states;     ///< by bucket
  int64_t steps_done = 0;

  // of the running execution
  const StepInput* input = nullptr;
  bool is_training = false;
  double clip_scale = 1;
  double bucket_wait = 0;                                    ///< seconds waited for gradients and weights, over all steps
  std::vector<MicroBatch> micro_batches;
  StepOutcome outcome;
};

}  // namespace trireme
