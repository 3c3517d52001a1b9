// What the text of a strategy asks for: NAME, NAME,key=value,... or key=value,... with the degrees spelled out. No
// model and no number of devices is known here yet.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/strategies.h"

namespace trireme {

/// Keys that the text does not mention are empty.
struct Strategy {
  std::string name;  ///< of named_strategies or planned_strategies; "" where degrees are spelled out
  std::optional<int> data, tensor, pipeline;  ///< only where `name` is empty
  std::optional<int> micro_batches;
  std::optional<int> chunks;  ///< stages per worker of a pipeline
  std::optional<std::string> schedule;
  std::optional<OptimizerSharding> sharding;
  enum class Recompute { none, all, except_last };
  std::optional<Recompute> recompute;
  std::optional<Compression> compression;
  std::optional<bool> vertical_sync;
  std::vector<double> speeds;  ///< by device
  std::string split;           ///< splits of activations that a tensor axis may use too: "height", "sequence"

  /// Product of the degrees that are spelled out; none for a name.
  std::optional<int> devices() const;
};

/// Errors (user), naming `where` and the item: unknown names and keys with the nearest known one, values that do not
/// fit the key, keys given twice, keys that the name already decides ("zero1,sharding=zero2", "data,tensor=2").
Strategy parse_strategy(std::string_view text, const std::string& where);

/// For lists that were cut at commas: puts the keys of a strategy together again with its name or first degree. A
/// degree after a name, and one that occurs for the second time, begins the next strategy; any other key belongs to
/// what stands before it. `takes_any_key`: of a strategy as joined so far, whether every key=value that follows is its
/// own; null: of none.
std::vector<std::string> join_strategies(const std::vector<std::string>& items,
                                         const std::function<bool(const std::string&)>& takes_any_key = nullptr);

/// In one line, for help texts and messages.
std::string strategy_syntax();

}  // namespace trireme
