// Internals of Worker, split over worker.cpp (instruction loop), prepare.cpp (set-up), compute.cpp (layers), exchange.cpp (moves,
// norms), gradient_pieces.cpp (norms of parts of a batch), gradient_check.cpp (infinities and NaNs), average.cpp (averaged weights),
// migrate.cpp (going on for other workers), whole_step.cpp (going on alone) and agree.cpp (agreeing with other replicas).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "comm/flight_recorder.h"
#include "runtime/layer_call.h"
#include "runtime/row_set.h"
#include "runtime/worker.h"
#include "tensor/redistribute.h"

namespace trireme {

/// State that a layer carries from step to step, by node and micro-batch.
using CarriedStates = std::map<std::pair<NodeId, int>, std::vector<at::Tensor>>;

/// A program prepared for one worker.
struct Prepared {
  const Program* program = nullptr;
  std::vector<OpBinding> bindings;         ///< by op; unbound (op == nullptr) on other stages
  std::vector<std::vector<int>> uses;      ///< count_reads()
  std::map<int, std::vector<ValueId>> loaded;  ///< loaded_values()
  std::vector<BucketId> trainable;         ///< buckets of this worker that are updated
  std::vector<std::string> texts;          ///< of this worker's instructions; empty where nobody records them
  CarriedStates states;

  std::vector<TrackedTable> tracked_tables() const;

  /// Lets go of cached views into memory that comes and goes (divided weights and gradients).
  void drop_views(BucketId bucket, bool of_gradients);
};

/// Tensors of one micro-batch in flight.
struct MicroBatch {
  int index = 0;
  Range samples;                                  ///< within the global batch
  std::vector<at::Tensor> values, gradients;      ///< by value
  std::vector<int> uses_left;
  std::vector<std::optional<RuntimeLayerCall>> calls;  ///< by op, from forward to backward
  std::map<OpId, std::vector<at::Tensor>> states;      ///< as they were before the forward, for recomputing
};

/// A global batch from its first forward to its update.
struct BatchInFlight {
  int64_t number = 0;  ///< of the run: version `number + 1` of the weights has its gradient in it
  StepInput input;
  double clip_scale = 1;
  std::vector<double> trust;  ///< by parameter, of a layer-wise optimizer
  std::vector<MicroBatch> micro_batches;
  int first_backward = -1;    ///< micro-batch whose backward came first, where one worker measures pieces of gradients
  bool piece_is_counted = false;
};

struct Worker::State {
  State(int rank, const Model& model, Precision precision, std::unique_ptr<Communicator> world, const WorkerOptions& options);

  // worker.cpp
  void begin(const Program* training_program, const Program* evaluation_program);
  StepOutcome run_list(Prepared& prepared, int64_t number, bool trace);
  StepOutcome run_instructions(Prepared& prepared, int64_t number, bool trace);
  int64_t record_transfers(const Program& program, bool trace);
  void execute(Prepared& prepared, const Instruction& instruction, BatchInFlight& batch);
  void stop_if_aborted() const;  ///< ends long segments soon after another worker failed or the user interrupted
  void begin_batch(const Prepared& prepared, const StepInput& step_input, int64_t number);
  void sleep_for(EventKind kind, double busy, double slowness);
  void pass(const Program& program, const Instruction& instruction, const StepInput& input);
  void record(const Program& program, const Instruction& instruction, EventKind kind, double begin, double end, double waited,
              int64_t bytes);
  /// For the shapes of the batch that is being worked on.
  const Model& current_model() const { return current->input.batch.model ? *current->input.batch.model : model; }
  const Layer& layer_of(const Op& op) const { return *current_model().node(op.node).layer; }
  double waits() const { return communicator->count().wait_seconds + replicas->counts().wait_seconds; }

  // migrate.cpp
  void resume(const Program& program, const TrainingState& from);
  void resume_averages(const Op& op, const TrainingState& from);
  void resume_carried(const Op& op, const TrainingState& from);

  // prepare.cpp
  void prepare(const Program& program, Prepared& prepared);
  void bind(const Program& program, OpId id, OpBinding& binding);
  void bind_parameter(const Program& program, const Op& op, size_t position, OpBinding& binding);
  void give_initial_buffer(const std::string& name, const Box& box, at::Tensor& held) const;
  Communicator* group(const std::vector<int>& ranks);

  // compute.cpp
  void load(Prepared& prepared, int stage, MicroBatch& batch);
  void forward(Prepared& prepared, const Instruction& instruction, MicroBatch& batch);
  void recompute(Prepared& prepared, SegmentId segment, MicroBatch& batch);
  void backward(Prepared& prepared, const Instruction& instruction, MicroBatch& batch);
  void backward_weight(Prepared& prepared, SegmentId segment, MicroBatch& batch);
  void run_layer(Prepared& prepared, OpId id, MicroBatch& batch, bool recomputing);
  void backward_op(Prepared& prepared, OpId id, MicroBatch& batch, bool defer_parameters);
  at::Tensor loss_gradient(const LayerCall& call) const;
  bool counts_loss(const OpBinding& binding) const;
  void set_call(const Prepared& prepared, OpId id, const MicroBatch& batch, LayerCall& call) const;
  void bring_states(Prepared& prepared, OpId id, MicroBatch& batch, RuntimeLayerCall& call);
  bool is_idle(const Op& op, const LayerCall& call) const { return call.output_box[0].empty() && !op.talks; }
  int64_t version_for(const Op& op) const;
  void use_up(const Prepared& prepared, ValueId value, MicroBatch& batch);
  void add_gradient(const Prepared& prepared, ValueId value, const at::Tensor& gradient, MicroBatch& batch);
  at::Tensor empty_output(const Op& op, const Box& box) const;
  Shape global_shape(NodeId node, const MicroBatch& batch) const;

  // agree.cpp
  void agree(const Prepared& prepared, const Instruction& instruction, BatchInFlight& batch);
  void show(const Prepared& prepared, ReplicaView& view) const;

  // exchange.cpp
  void move(Prepared& prepared, const Instruction& instruction, MicroBatch& batch);
  void take_norms(Prepared& prepared, BatchInFlight& batch);
  void synchronize_buffers(Prepared& prepared, OpId id);
  void await_weights(const Prepared& prepared, SegmentId segment);

  // gradient_pieces.cpp
  void measure_pieces(const Prepared& prepared, const Instruction& instruction, BatchInFlight& batch);  ///< before the instruction
  void count_piece(double squares, int64_t samples, bool is_new, const BatchInFlight& batch);
  double squares_so_far(const Prepared& prepared, BucketId bucket);
  int64_t samples_here(const Prepared& prepared, const MicroBatch& batch) const;

  // gradient_check.cpp
  void check_gradient(const Program& program, const Instruction& reduction);  ///< before it

  // average.cpp
  void average_buffers();
  void show_average(bool shown);
  void exchange_averages();

  // whole_step.cpp
  void begin_whole_step();
  void agree_on_step();
  void end_whole_step();

  int rank;
  const Model& model;
  Precision precision;
  WorkerOptions options;
  std::unique_ptr<Communicator> communicator;
  FlightRecorder* recorder;      ///< null: nobody reads one
  std::unique_ptr<Replicas> replicas;
  std::function<void()> detach;  ///< from the store, where there is one
  Redistributor redistributor;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups;
  Prepared training, evaluation;
  std::map<NodeId, std::vector<at::Tensor>> buffers;  ///< running statistics, shared by both programs
  CallContext training_context, evaluation_context;

  std::map<NodeId, std::vector<at::Tensor>> averaged_buffers;  ///< with ema: like weights, with the same shares
  bool shows_average = false;  ///< weights and buffers have changed places with their averages

  int64_t earlier_batches = 0;  ///< fed to the workers that this one goes on for
  int64_t carried_rows = 0;     ///< samples of the last batch: rows of what layers carry
  int64_t batches = 0;      ///< fed to the training program so far
  int64_t first_batch = 0;  ///< fed first after the pipeline was last empty
  std::deque<BatchInFlight> in_flight;

  /// With keeps_whole_steps.
  struct KeptSteps {
    WholeSteps steps;
    std::map<NodeId, std::vector<at::Tensor>> buffers;  ///< as they were before the step that runs
    bool in_step = false, updates = false;              ///< a step runs; its updates do
  };
  KeptSteps whole_steps;

  int64_t agreed_steps = 0;  ///< of this worker, not of those that it goes on for

  double sleep_owed = 0;  ///< seconds that an emulated slowness has not been given yet; below 0: given in advance

  // of the instruction that is running
  const BatchInFlight* current = nullptr;
  bool is_training = false;
  StepOutcome outcome;
};

}  // namespace trireme
