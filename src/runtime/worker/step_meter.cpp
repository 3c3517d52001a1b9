#include "runtime/worker/step_meter.h"

#include <string>

#include "base/devices/device.h"

namespace trireme {
namespace {

constexpr double kShownWaitSeconds = 5e-6;  // shorter waits get no event of their own

/// True if an instruction's time counts as computing. A reduction does if replicas are shared: it adds in place and
/// moves no tensors.
bool computes(OpCode code, const Program& program) {
  const OpCodeDescription& description = description_of(code);
  return description.resource == Resource::device || description.resource == Resource::both ||
         (description.event == EventKind::reduce && !program.private_replicas);
}

}  // namespace

void StepMeter::begin(const Program& program, bool trace) {
  program_ = &program;
  trace_ = trace;
  bytes_before_ = bytes();
  hidden_before_ = context_.replicas.counts().hidden_seconds;
  outcome_.begin = begin_ = context_.world.now();
}

/// True if the instruction makes the host wait for the GPU, because a tensor is sent to another process. False for a
/// sum that is only started, because it is computed while the worker goes on.
bool StepMeter::waits_for_gpu_first(OpCode code) const {
  if (worker_place().is_cpu() || !context_.world.moves_beside_computing()) return false;
  if (code == OpCode::reduce_gradients) return false;
  return code == OpCode::optimizer_step || !computes(code, *program_);
}

void StepMeter::begin_instruction(const Instruction& i) {
  if (waits_for_gpu_first(i.code)) {
    await_device();
    end_own_work();
  }
  waits_before_ = waits();
  exchange_before_ = context_.replicas.counts().exchange_seconds;
  if (trace_) bytes_at_ = bytes();
}

bool StepMeter::has_waited() const { return waited_ > kShownWaitSeconds; }

void StepMeter::end_own_work() {
  const double now = context_.world.now();
  outcome_.compute_seconds += now - begin_;
  begin_ = now;
}

double StepMeter::end_work() {
  waited_ = waits() - waits_before_;
  exchanged_ = context_.replicas.counts().exchange_seconds - exchange_before_;
  return context_.world.now() - begin_ - waited_ - exchanged_;
}

void StepMeter::end_instruction(const Instruction& i) {
  // A GPU computes after the host has launched the operators. Only a traced step waits after every instruction, so that
  // its times are exact.
  if (trace_) await_device();
  const double end = context_.world.now();
  const double busy = end - begin_ - waited_ - exchanged_;
  if (i.code == OpCode::agree) outcome_.agree_seconds += busy;
  else (computes(i.code, *program_) ? outcome_.compute_seconds : outcome_.exposed_seconds) += busy;
  outcome_.exposed_seconds += exchanged_;
  outcome_.waiting_seconds += waited_;
  const int64_t beside = record_transfers();
  if (trace_) record(i, description_of(i.code).event, end, bytes() - bytes_at_ - beside);
  begin_ = end;
}

void StepMeter::end() {
  if (!worker_place().is_cpu()) end_own_work();  // the step ended when its numbers had been read
  outcome_.end = begin_;
  outcome_.bytes_sent = bytes() - bytes_before_;
  outcome_.hidden_seconds = context_.replicas.counts().hidden_seconds - hidden_before_;
}

/// Records the transfers that ran beside the finished instructions. Returns their bytes.
int64_t StepMeter::record_transfers() {
  int64_t bytes = 0;
  for (const GradientTransfer& t : context_.replicas.take_transfers()) {
    bytes += t.bytes;
    if (!trace_) continue;
    const std::string name = program_->describe({OpCode::reduce_gradients, t.bucket}, context_.model);
    outcome_.events.push_back({context_.rank, EventKind::reduce, name, -1, t.begin, t.end, t.bytes});
  }
  return bytes;
}

void StepMeter::record(const Instruction& i, EventKind kind, double end, int64_t bytes) {
  const std::string name = program_->describe(i, context_.model);
  // An instruction that waits for other workers usually waits at its beginning. Layers that communicate wait in the
  // middle, so they are shown as one event.
  const bool is_layers = kind == EventKind::forward || kind == EventKind::recompute || kind == EventKind::backward;
  const bool waits_first = !is_layers && waited_ > kShownWaitSeconds;
  if (waits_first)
    outcome_.events.push_back(
        {context_.rank, EventKind::wait, "wait: " + name, i.micro_batch, begin_, begin_ + waited_, 0});
  outcome_.events.push_back(
      {context_.rank, kind, name, i.micro_batch, waits_first ? begin_ + waited_ : begin_, end, bytes});
}

}  // namespace trireme
