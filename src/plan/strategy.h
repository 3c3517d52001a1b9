// What the text of a strategy asks for: NAME, NAME,key=value,... or key=value,... with the degrees spelled out. No model and no
// number of devices is known here yet.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace trireme {

/// Keys that the text does not mention are empty.
struct Strategy {
  std::string name;                    ///< "data", "1f1b"; "" where degrees are spelled out
  std::optional<int> data, tensor, pipeline;  ///< only where `name` is empty
  std::optional<int> micro_batches;
  std::optional<int> chunks;           ///< stages per worker of a pipeline
  std::optional<std::string> schedule;
  std::optional<OptimizerSharding> sharding;
  enum class Recompute { none, all, except_last };
  std::optional<Recompute> recompute;
  std::optional<Compression> compression;
  std::optional<bool> vertical_sync;
  std::vector<double> speeds;          ///< by device
  std::string split;                   ///< splits of activations that a tensor axis may use too: "height", "sequence"

  /// Product of the degrees that are spelled out; none for a name.
  std::optional<int> devices() const;
};

/// Errors (user), naming `where` and the item: unknown names and keys with the nearest known one, values that do not fit the key,
/// keys given twice, keys that the name already decides ("zero1,sharding=zero2", "data,tensor=2").
Strategy parse_strategy(std::string_view text, const std::string& where);

/// What the names mean where all devices of the cluster take part in one axis.
struct NamedStrategy {
  const char* name;
  const char* axis;      ///< "data", "tensor", "pipeline": its degree is the number of devices; "": see named_plan
  const char* schedule;  ///< "" where the name does not decide
  OptimizerSharding sharding = OptimizerSharding::none;
};
const std::vector<NamedStrategy>& named_strategies();

/// Names of plans that a planner finds by what layers cost (forecast/best_plan.h): "hybrid-static", "asa", "exact". parse_strategy takes them, without
/// keys; named_plan cannot make them.
const std::vector<std::string>& planned_strategies();
bool is_planned(std::string_view name);

/// What people are told wherever the name is printed: "asa: a reconstruction, ..."; "" for all that are what they are called.
std::string strategy_note(std::string_view name);

/// Schedules by the names that src/schedule knows them under.
const std::vector<std::string>& schedule_names();

/// "hybrid:tensor,compression=bf16" -> "hybrid", "1f1b,recompute=all" -> "1f1b"; spelled-out degrees stay as they are.
std::string family_of(std::string_view strategy);

/// For lists that were cut at commas: puts the keys of a strategy together again with its name or first degree. A degree after a
/// name, and one that occurs for the second time, begins the next strategy; any other key belongs to what stands before it.
/// `takes_any_key`: of a strategy as joined so far, whether every key=value that follows is its own; null: of none.
std::vector<std::string> join_strategies(const std::vector<std::string>& items, const std::function<bool(const std::string&)>& takes_any_key = nullptr);

/// In one line, for help texts and messages.
std::string strategy_syntax();

}  // namespace trireme
