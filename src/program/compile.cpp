#include "program/compile.h"

#include <fmt/format.h>

#include <map>

#include "program/check.h"
#include "program/graph.h"
#include "program/pipeline.h"
#include "program/stage_writer.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Throws a user error for an invalid combination of options, with the reason.
void check_options(const Plan& plan, const CompileOptions& options, const Program& program, const std::string& where) {
  auto refuse = [&](const std::string& what, const char* why, const char* next) {
    fail_user({where, what, why, next});
  };
  const auto sharding = fmt::format("optimizer_sharding \"{}\"", name_of(plan.optimizer_sharding));
  const auto compression = fmt::format("compression \"{}\"", name_of(plan.compression.kind));
  if (!program.flushes && plan.optimizer_sharding >= OptimizerSharding::zero2)
    refuse(fmt::format("{} with schedule \"{}\"", sharding, plan.schedule),
           "a schedule without flush keeps whole old versions of the weights",
           "use \"zero1\" or a schedule that flushes");
  if (plan.compression.kind == Compression::Kind::powersgd && plan.optimizer_sharding != OptimizerSharding::none)
    refuse(fmt::format("{} with {}", compression, sharding), "low-rank factors are summed whole on every worker",
           "use compression \"bf16\" or no optimizer sharding");
  if (plan.compression.kind == Compression::Kind::bf16_stored && !options.mixed_precision)
    refuse(compression, "layers compute gradients in bfloat16 only under precision = \"bf16\"",
           "set precision = \"bf16\", or use compression \"bf16\"");
  if (plan.sharding_group > 0 && !plan.agreement.empty())
    refuse(fmt::format("sharding_group {}", plan.sharding_group),
           "the workers of a replica under an update policy hold one copy of its weights and moments, divided or not",
           "leave sharding_group out");
  for (const std::string& pattern : options.frozen) {
    const bool known = std::any_of(program.parameters.begin(), program.parameters.end(),
                                   [&](const ProgramParameter& p) { return freezes(pattern, p.spec.name); });
    if (!known)
      refuse(fmt::format("frozen \"{}\"", pattern), "the model has no such parameter",
             "use a name that `trireme verify` lists");
  }
  if (!plan.agreement.empty() && program.private_replicas && plan.optimizer_sharding == OptimizerSharding::none)
    refuse(fmt::format("agreement \"{}\"", plan.agreement),
           "each worker of a replica has all weights and moments; an update policy reads and writes one copy, "
           "shared or sharded",
           "choose an inner plan with zero1, zero2 or zero3, or one without compression, and remove replicas = "
           "\"private\"");
  if (!plan.agreement.empty() && !program.flushes)
    refuse(fmt::format("agreement \"{}\" with schedule \"{}\"", plan.agreement, plan.schedule),
           "a schedule without flush keeps several versions of the weights", "use gpipe or 1f1b");
  for (const ProgramParameter& p : program.parameters)
    if (p.trainable) return;
  if (program.training && !program.parameters.empty())
    refuse("every parameter is frozen", "nothing is left to train", "freeze fewer parameters");
}

/// Throws a user error if a parameter's holders cannot form runs of the size that the plan states.
void check_sharding_group(const Plan& plan, const Program& program, const std::string& where) {
  if (plan.sharding_group == 0) return;
  const std::string what = fmt::format("sharding_group {}", plan.sharding_group);
  if (plan.optimizer_sharding == OptimizerSharding::none)
    fail_user({where, what, "without sharding nothing is divided", "use it with sharding zero1, zero2 or zero3"});
  if (plan.sharding_group < 2)
    fail_user({where, what, "the workers of a group divide optimizer state, gradients or weights",
               "use at least 2, or leave it out to divide over all"});
  for (const Bucket& bucket : program.buckets)
    if (bucket.dividers > 0 && bucket.holders.size() % size_t(bucket.dividers) != 0)
      fail_user({where, what,
                 fmt::format("parameter {} is held by {} workers, which do not form groups of {}",
                             program.parameters[size_t(bucket.shards.front().parameter)].spec.name,
                             bucket.holders.size(), plan.sharding_group),
                 "use a divisor of that number"});
}

/// The buckets that each rank holds, ascending.
std::vector<std::vector<BucketId>> held_buckets(const Program& program) {
  std::vector<std::vector<BucketId>> held(static_cast<size_t>(program.devices));
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    for (int rank : program.buckets[size_t(b)].holders) held[size_t(rank)].push_back(b);
  return held;
}

/// Workers of one group with the same buckets share one instruction list.
void write_lists(const Plan& plan, const Schedule& schedule, const std::vector<WorkerGroup>& groups,
                 const std::vector<std::vector<StageItem>>& stages, bool sends_first, Program& program) {
  const auto held = held_buckets(program);
  program.list_of_rank.assign(static_cast<size_t>(plan.devices), -1);
  for (const WorkerGroup& group : groups) {
    const auto tasks = schedule.tasks(group.place);
    for (const Task& task : tasks)
      program.greatest_lag = std::max(program.greatest_lag, program.training ? task.lag : 0);
    std::map<std::vector<BucketId>, int> lists;
    for (int rank : group.workers) {
      auto [it, fresh] = lists.emplace(held[size_t(rank)], int(program.lists.size()));
      if (fresh)
        program.lists.push_back(
            StageWriter(stages, group, it->first, plan.recompute_last, sends_first, program).run(tasks));
      program.list_of_rank[size_t(rank)] = it->second;
    }
  }
}

/// Adds an `agree` instruction before and after each step of every rank.
void insert_agreement(Program& program) {
  program.agrees = true;
  for (std::vector<Instruction>& list : program.lists) {
    list.insert(list.begin(), {OpCode::agree, kBeforeStep});
    list.push_back({OpCode::agree, kAfterStep});
  }
}

}  // namespace

Program compile(const Model& model, const Plan& plan, const CompileOptions& options) {
  const std::string where = plan.name.empty() ? "plan" : "plan " + plan.name;
  const Schedule& schedule = find_schedule(plan.schedule, where);
  const auto groups = worker_groups(model, plan, where);
  std::vector<int> delays(plan.stages.size(), 0);
  for (const WorkerGroup& group : groups)
    for (int stage : group.stages)
      delays[size_t(stage)] = schedule.delay ? schedule.delay(group.place, plan.vertical_sync) : 0;

  Program program;
  program.training = options.training;
  program.flushes = schedule.flushes;
  program.keeps_gradients =
      options.clip_gradients || options.measures_norm || options.layer_norms || options.keep_gradients;
  program.optimizer_sharding = plan.optimizer_sharding;
  program.sharding_group = plan.sharding_group;
  program.compression = plan.compression;
  program.private_replicas = options.private_replicas || plan.optimizer_sharding != OptimizerSharding::none ||
                             plan.compression.kind != Compression::Kind::none;
  program.devices = plan.devices;
  program.micro_batches = plan.micro_batches;
  build_graph(model, plan, options, delays, program);
  check_options(plan, options, program, where);
  build_buckets(model, options, program);
  check_sharding_group(plan, program, where);
  write_lists(plan, schedule, groups, build_segments(plan, options, program), options.overlap == Overlap::nothing,
              program);
  if (options.training && !plan.agreement.empty()) insert_agreement(program);
  complete(program, model);
  if (options.checked) check_program(program, model, where);
  return program;
}

}  // namespace trireme
