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

/// For each segment, the values that its recomputation reads: made inside the segment, or outside.
void write_recompute_reads(Program& program) {
  program.recompute_reads.assign(program.segments.size(), {});
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const std::vector<OpId>& ops = program.segments[s].ops;
    RecomputeReads& reads = program.recompute_reads[s];
    std::set<ValueId> made;
    for (OpId id : ops) {
      const Op& op = program.ops[size_t(id)];
      for (ValueId input : op.inputs) {
        const ValueId source = program.forward_alias[size_t(input)];
        (made.count(source) ? reads.inside : reads.outside).push_back(source);
      }
      made.insert(op.output);
    }
  }
}

bool is_on(const Mesh& mesh, int rank) { return mesh.index_of(rank) >= 0; }

}  // namespace

void complete(Program& program, const Model& model) {
  write_aliases(program);
  write_recompute_reads(program);
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
    if (description_of(i.code).weights != WeightUse::read_again) continue;
    for (ValueId value : program.recompute_reads[size_t(i.index)].outside)
      ++reads[size_t(i.micro_batch)][size_t(value)];
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
