#include "runtime/worker/pace.h"

#include <chrono>
#include <thread>

#include "base/seconds.h"
#include "comm/virtual/virtual_time.h"
#include "runtime/instruction_times.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kShortestSleep = 2e-4;  // waking up takes a part of it

/// True for the instructions that an emulated slowness slows down.
bool is_slowed(const Instruction& i) {
  const EventKind kind = description_of(i.code).event;
  return kind == EventKind::forward || kind == EventKind::recompute || kind == EventKind::backward ||
         kind == EventKind::update;
}

/// True if an instruction waits first and then computes: an update of weights that are not sharded, which waits for the
/// sum of its gradient. All other instructions compute first and communicate afterwards; so does an update of sharded
/// weights.
bool computes_last(const Program& program, const Instruction& i) {
  return i.code == OpCode::optimizer_step && program.optimizer_sharding == OptimizerSharding::none;
}

}  // namespace

Pace::Pace(const WorkerContext& context) : context_(context) {
  check_internal(!context.options.times || context.world.virtual_time(), "durations are for workers in modelled time");
}

void Pace::before(const Program& program, const Instruction& i, const StepInput& input) const {
  if (!context_.options.times || computes_last(program, i)) return;
  if (i.code == OpCode::optimizer_step) context_.replicas.await_sum(BucketId(i.index));
  pass(program, i, input);
}

void Pace::after(const Program& program, const Instruction& i, const StepInput& input) const {
  if (context_.options.times && computes_last(program, i)) pass(program, i, input);
}

void Pace::pass(const Program& program, const Instruction& i, const StepInput& input) const {
  const double seconds = context_.options.times->seconds(context_.rank, program, i, input.batch.samples);
  if (seconds <= 0) return;
  VirtualTime& time = *context_.world.virtual_time();
  const double beside = context_.replicas.sums_travel() ? context_.options.times->slowdown_beside_sums() : 1;
  time.advance_to(time.now() + seconds * beside * (is_slowed(i) ? input.slowness : 1));
}

void Pace::sleep(const Instruction& i, double busy, double slowness) {
  if (slowness <= 1 || context_.options.times || !is_slowed(i)) return;
  owed_ += (slowness - 1) * busy;
  if (owed_ < kShortestSleep) return;
  const double begin = steady_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(owed_));
  owed_ -= steady_seconds() - begin;
}

}  // namespace trireme
