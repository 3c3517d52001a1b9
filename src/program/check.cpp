#include "program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"

namespace trireme {
namespace {

/// What an instruction waits for: all `partners` must have announced `key` once more than this rank has gone on from it.
struct Meeting {
  std::tuple<OpCode, int, int, bool> key;
  std::vector<int> partners;
  bool announces = true;  ///< false: only waits for what others announce (receive, optimizer step)
};

class Checker {
 public:
  Checker(const Program& program, const Model& model, const std::string& where)
      : program_(program), model_(model), where_(where), position_(program.ranks.size(), 0), arrived_(program.ranks.size(), false) {}

  void run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (int rank = 0; rank < int(program_.ranks.size()); ++rank)
        while (step(rank)) progress = true;
    }
    for (int rank = 0; rank < int(program_.ranks.size()); ++rank)
      if (!finished(rank)) report(rank);
  }

 private:
  bool finished(int rank) const { return position_[size_t(rank)] == program_.ranks[size_t(rank)].size(); }

  const Instruction& current(int rank) const { return program_.ranks[size_t(rank)][position_[size_t(rank)]]; }

  /// Executes one instruction of `rank` if it can be completed now.
  bool step(int rank) {
    if (finished(rank)) return false;
    Meeting meeting = meeting_of(rank, current(rank));
    if (!arrived_[size_t(rank)]) {
      arrived_[size_t(rank)] = true;
      if (meeting.announces) ++visits_[meeting.key][rank];
    }
    if (!missing(rank, meeting).empty()) return false;
    arrived_[size_t(rank)] = false;
    ++position_[size_t(rank)];
    return true;
  }

  std::vector<int> missing(int rank, const Meeting& meeting) {
    auto& counts = visits_[meeting.key];
    auto& self = receipts_[{meeting.announces, meeting.key}][rank];
    std::vector<int> absent;
    for (int partner : meeting.partners)
      if (counts[partner] <= self) absent.push_back(partner);
    if (absent.empty()) ++self;
    return absent;
  }

  Meeting meeting_of(int rank, const Instruction& i) const {
    switch (i.code) {
      case OpCode::send: return {{OpCode::send, i.index, i.micro_batch, i.adjoint}, {}};
      case OpCode::receive: {
        MoveEnds ends = ends_of(program_.moves[size_t(i.index)], program_, i.adjoint);
        return {{OpCode::send, i.index, i.micro_batch, i.adjoint}, ends.from.mesh.workers, false};
      }
      case OpCode::redistribute: {
        MoveEnds ends = ends_of(program_.moves[size_t(i.index)], program_, i.adjoint);
        return {{OpCode::redistribute, i.index, i.micro_batch, i.adjoint}, ends.from.mesh.workers};
      }
      case OpCode::forward:
      case OpCode::backward: return {{i.code, i.index, i.micro_batch, false}, talking_partners(rank, i)};
      case OpCode::optimizer_step:
        return {{OpCode::reduce_gradients, i.index, -1, false}, program_.buckets[size_t(i.index)].holders, false};
      case OpCode::reduce_gradients: return {{OpCode::reduce_gradients, i.index, -1, false}, {}};
      case OpCode::clip_gradients: {
        std::vector<int> all;
        for (int r = 0; r < int(program_.ranks.size()); ++r) all.push_back(r);
        return {{i.code, -1, -1, false}, all};
      }
      case OpCode::synchronize_buffers: return {{i.code, i.index, -1, false}, program_.ops[size_t(i.index)].mesh.data_group(rank)};
      case OpCode::load_batch: break;
    }
    return {{i.code, i.index, i.micro_batch, false}, {}};
  }

  std::vector<int> talking_partners(int rank, const Instruction& i) const {
    std::set<int> partners;
    for (OpId id : program_.segments[size_t(i.index)].ops) {
      const Op& op = program_.ops[size_t(id)];
      if (!op.talks) continue;
      for (int worker : op.mesh.data_group(rank)) partners.insert(worker);
      for (int worker : op.mesh.tensor_group(rank)) partners.insert(worker);
    }
    return {partners.begin(), partners.end()};
  }

  std::string where_it_stands(int rank) const {
    const Instruction& i = current(rank);
    std::string text = fmt::format("rank {} at instruction {} ({}", rank, position_[size_t(rank)], program_.describe(i, model_));
    if (i.micro_batch >= 0) text += fmt::format(", micro-batch {}", i.micro_batch);
    return text + ")";
  }

  /// Follows "waits for" from a stuck rank until a rank repeats (a cycle) or has finished (a partner that never comes).
  [[noreturn]] void report(int rank) {
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), rank) == path.end()) {
      path.push_back(rank);
      auto absent = missing(rank, meeting_of(rank, current(rank)));
      check_internal(!absent.empty(), "a rank that cannot go on waits for somebody");
      if (finished(absent.front()))
        fail_user({where_, fmt::format("{} waits for rank {}", where_it_stands(rank), absent.front()),
                   "that rank has ended and never takes part", "give all partners the same moves"});
      rank = absent.front();
    }
    std::string cycle;
    for (auto it = std::find(path.begin(), path.end(), rank); it != path.end(); ++it)
      cycle += fmt::format("{} waits for ", where_it_stands(*it));
    fail_user({where_, "this program would deadlock", cycle + fmt::format("rank {}", rank),
               "assign layers to stages so that no stage needs a result of a later one"});
  }

  using Key = std::tuple<OpCode, int, int, bool>;
  const Program& program_;
  const Model& model_;
  std::string where_;
  std::vector<size_t> position_;
  std::vector<bool> arrived_;
  std::map<Key, std::map<int, int>> visits_;  // how often each rank has announced
  std::map<std::pair<bool, Key>, std::map<int, int>> receipts_;  // how often each rank has gone on
};

}  // namespace

void check_program(const Program& program, const Model& model, const std::string& where) { Checker(program, model, where).run(); }

}  // namespace trireme
