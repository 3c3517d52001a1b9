// Completes a program from its graph and lists: aliases of values, number of reads, rendezvous.
#include <algorithm>
#include <numeric>
#include <set>

#include "program/program.h"
#include "program/rendezvous.h"

namespace trireme {
namespace {

void write_aliases(Program& program) {
  program.forward_alias.resize(program.values.size());
  std::iota(program.forward_alias.begin(), program.forward_alias.end(), 0);
  program.backward_alias = program.forward_alias;
  for (const Redistribution& redistribution : program.redistributions) {
    if (!redistribution.redistributes_forward) program.forward_alias[size_t(redistribution.to)] = redistribution.from;
    if (!redistribution.redistributes_backward) program.backward_alias[size_t(redistribution.to)] = redistribution.from;
  }
}

/// For each recomputed run, the values that it makes, and those that it reads: made inside the run, or outside.
void write_reads_of_runs(Program& program, const Model& model) {
  for (RecomputedRun& run : program.recomputed_runs) {
    std::set<ValueId> made;
    std::vector<ValueId> reads;
    for (SegmentId segment : run.segments)
      for (OpId id : program.segments[size_t(segment)].ops) {
        const Op& op = program.ops[size_t(id)];
        for (ValueId input : op.inputs) reads.push_back(program.forward_alias[size_t(input)]);
        made.insert(op.output);
      }
    for (RedistributionId id : run.redistributions) {
      const Redistribution& redistribution = program.redistributions[size_t(id)];
      if (!redistribution.redistributes_forward) continue;
      reads.push_back(redistribution.from);
      made.insert(redistribution.to);
    }
    for (ValueId value : reads) (made.count(value) ? run.inside : run.outside).push_back(value);
    run.made.assign(made.begin(), made.end());
    for (SegmentId segment : run.segments)
      for (OpId id : program.segments[size_t(segment)].ops) {
        const Op& op = program.ops[size_t(id)];
        const bool read = std::find(run.inside.begin(), run.inside.end(), op.output) != run.inside.end();
        if (!read && model.node(op.node).layer->restores()) run.restored.push_back(id);
      }
    std::sort(run.restored.begin(), run.restored.end());
  }
}

bool is_on(const Mesh& mesh, int rank) { return mesh.index_of(rank) >= 0; }

}  // namespace

void complete(Program& program, const Model& model) {
  write_aliases(program);
  write_reads_of_runs(program, model);
  write_rendezvous(program, model);
}

std::vector<std::vector<int>> count_reads(const Program& program, int rank) {
  std::vector<int> once(program.values.size(), 0);
  for (const Op& op : program.ops)
    if (is_on(op.mesh, rank))
      for (ValueId input : op.inputs) ++once[size_t(program.forward_alias[size_t(input)])];
  for (const Redistribution& redistribution : program.redistributions)
    if (redistribution.redistributes_forward && is_on(program.values[size_t(redistribution.from)].layout.mesh, rank))
      ++once[size_t(redistribution.from)];
  std::vector<std::vector<int>> reads(size_t(program.micro_batches), once);
  for (const Instruction& i : program.instructions(rank)) {
    const bool again = description_of(i.code).weights == WeightUse::read_again;
    if (const RecomputedRun* run = again ? program.run_begun_by(i.index) : nullptr)
      for (ValueId value : run->outside) ++reads[size_t(i.micro_batch)][size_t(value)];
  }
  return reads;
}

std::map<int, std::vector<ValueId>> loaded_values(const Program& program, int rank) {
  std::map<int, std::vector<ValueId>> all;
  for (const Op& op : program.ops) {
    if (!is_on(op.mesh, rank)) continue;
    std::vector<ValueId>& loaded = all[op.stage];
    for (ValueId input : op.inputs)
      if (program.values[size_t(input)].loaded && std::find(loaded.begin(), loaded.end(), input) == loaded.end())
        loaded.push_back(input);
  }
  return all;
}

}  // namespace trireme
