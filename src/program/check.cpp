#include "program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "program/engine.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Formats the checker's findings as user errors.
class Findings {
 public:
  Findings(const Program& program, const Model& model, const std::string& where)
      : program_(program), model_(model), where_(where), shows_batch_(!program.flushes) {}

  /// Follows "waits for" from the first blocked rank until a rank repeats (a cycle) or has ended (a partner that never
  /// takes part).
  [[noreturn]] void report(const std::vector<Standstill>& standstills) const {
    const auto find = [&](int rank) {
      const auto it = std::lower_bound(standstills.begin(), standstills.end(), rank,
                                       [](const Standstill& s, int r) { return s.rank < r; });
      return it != standstills.end() && it->rank == rank ? &*it : nullptr;
    };
    std::vector<const Standstill*> path{&standstills.front()};
    while (true) {
      const int partner = path.back()->absent.front();
      const Standstill* next = find(partner);
      if (!next)
        fail_user({where_, fmt::format("{} waits for rank {}", place(*path.back()), partner),
                   "that rank has ended without taking part", "give all partners the same redistributions"});
      const auto repeated = std::find(path.begin(), path.end(), next);
      if (repeated != path.end()) report_cycle({repeated, path.end()});
      path.push_back(next);
    }
  }

  [[noreturn]] void report(const Leftover& leftover) const {
    const std::string sent = words(leftover.sent, leftover.batch);
    fail_user({where_, fmt::format("rank {} sends ({}) to rank {}", leftover.sender, sent, leftover.receiver),
               "that rank has ended without receiving it", "give all partners the same redistributions"});
  }

 private:
  [[noreturn]] void report_cycle(const std::vector<const Standstill*>& cycle) const {
    std::string text;
    for (const Standstill* standstill : cycle) text += fmt::format("{} waits for ", place(*standstill));
    fail_user({where_, "this program would deadlock", text + fmt::format("rank {}", cycle.front()->rank),
               "assign layers to stages so that no stage needs a result of a later one"});
  }

  std::string place(const Standstill& s) const {
    const Instruction& i = program_.instructions(s.rank)[size_t(s.index)];
    return fmt::format("rank {} at instruction {} ({})", s.rank, s.index, words(i, s.batch));
  }

  std::string words(const Instruction& i, int batch) const {
    std::string text = program_.describe(i, model_);
    if (i.micro_batch >= 0) text += fmt::format(", micro-batch {}", i.micro_batch);
    if (shows_batch_) text += fmt::format(", batch {}", batch);
    return text;
  }

  const Program& program_;
  const Model& model_;
  const std::string& where_;
  const bool shows_batch_;
};

}  // namespace

void check_program(const Program& program, const Model& model, const std::string& where) {
  EngineCosts nothing;
  const EngineEnd end = execute(program, nothing, {.batches = enough_batches(program)});
  const Findings findings(program, model, where);
  if (!end.standstills.empty()) findings.report(end.standstills);
  if (!end.leftovers.empty()) findings.report(end.leftovers.front());
}

}  // namespace trireme
