#include "runtime/graph/step_graph.h"

#include <ATen/ATen.h>

#include "base/devices/device.h"
#include "base/memory.h"

namespace trireme {
namespace {

// Libraries choose algorithms and allocate workspaces in the first steps, which cannot be recorded.
constexpr int64_t kUsualSteps = 3;

bool has_state(const Program& program, const Model& model) {
  for (const Op& op : program.ops)
    if (!model.node(op.node).layer->states().empty()) return true;
  return false;
}

}  // namespace

std::string StepGraph::obstacle(const Program& program, const WorkerContext& context) {
  const WorkerOptions& options = context.options;
  if (!worker_place().is_cuda()) return "the worker computes on cores";
  if (program.devices > 1) return "workers wait for each other within a step";
  if (program.private_replicas) return "the worker's replica is its own";
  if (!program.flushes || program.greatest_lag > 0) return "steps overlap";
  if (program.agrees) return "an update policy follows each step";
  if (options.optimizer.is_layerwise()) return "the optimizer takes norms";
  if (!can_record(options.optimizer)) return "the optimizer's numbers change with each step";
  if (program.keeps_gradients || options.gradient_norms || options.keeps_whole_steps)
    return "the step's gradients are measured";
  if (options.times) return "the run is in modelled time";
  if (options.batch_norm == BatchNormScope::deferred) return "batch norm counts on the host";
  if (has_state(program, context.model)) return "a layer carries state from step to step";
  return "";
}

StepGraph::StepGraph(const WorkerContext& context, DeferredNumbers& numbers)
    : context_(context), numbers_(numbers), stream_(make_recording_stream()) {
  impossible_ = stream_ == nullptr;
}

StepGraph::Way StepGraph::way_of(const StepInput& input, bool traced) const {
  const bool alike = input.batch.samples == samples_ && !input.batch.model;
  if (impossible_ || traced || !alike || input.clip_norm > 0 || input.slowness != 1 || usual_steps_ < kUsualSteps)
    return Way::usual;
  return graph_ ? Way::replay : Way::record;
}

void StepGraph::note_usual(const StepInput& input, bool traced, bool reads_step) {
  if (reads_step || input.clip_norm > 0 || input.slowness != 1) impossible_ = true;
  if (impossible_) stream_.reset();  // its settings are for steps that are recorded
  if (traced || graph_ || impossible_ || input.batch.model) return;
  if (input.batch.samples != samples_) usual_steps_ = 0;
  samples_ = input.batch.samples;
  ++usual_steps_;
}

void StepGraph::prepare(BatchInFlight& batch, int64_t update) {
  const MemoryScope scope(MemoryCategory::activations);
  const std::vector<at::Tensor> loaded = batch.input.batch.load({0, batch.input.batch.samples});
  const bool is_first = inputs_.empty();
  for (size_t i = 0; i < loaded.size(); ++i) {
    if (is_first) inputs_.push_back(at::empty_like(loaded[i], loaded[i].options().device(worker_place())));
    inputs_[i].copy_(loaded[i]);
  }
  batch.input.batch.load = [inputs = inputs_](Range range) {
    std::vector<at::Tensor> part;
    part.reserve(inputs.size());
    for (const at::Tensor& input : inputs) part.push_back(input.narrow(0, range.begin, range.size()));
    return part;
  };
  const std::vector<double> numbers = recorded_numbers(context_.options.optimizer, batch.input.learning_rate, update);
  const at::Tensor host = at::tensor(numbers, master_type(context_.precision));
  if (is_first) {
    rates_memory_ = at::empty(host.sizes(), on_worker(host.scalar_type()));
    for (size_t i = 0; i < numbers.size(); ++i) rates_.numbers[i] = rates_memory_.select(0, int64_t(i));
  }
  rates_memory_.copy_(host);
}

void StepGraph::record(const std::function<void()>& ask) {
  graph_ = make_device_graph();
  context_.replicas.use_rates(&rates_);
  graph_->record();
  try {
    ask();
    recorded_ = numbers_.take();
    graph_->end();
  } catch (...) {
    graph_->give_up();
    context_.replicas.use_rates(nullptr);
    throw;
  }
  context_.replicas.use_rates(nullptr);
}

void StepGraph::replay(StepOutcome& outcome) {
  graph_->replay();
  recorded_.add_to(outcome);
}

}  // namespace trireme
