// The text of a strategy: NAME, NAME,key=value,... or key=value,... with explicit degrees. At this point neither the
// model nor the number of devices is known.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/strategies.h"

namespace trireme {

/// A parsed strategy. Keys that the text does not mention are empty.
struct Strategy {
  std::string name;                           ///< from named_strategies or planned_strategies; "" for explicit degrees
  std::optional<int> data, tensor, pipeline;  ///< set only if `name` is empty
  std::optional<int> micro_batches;
  std::optional<int> chunks;  ///< stages per worker of a pipeline
  std::optional<std::string> schedule;
  std::optional<OptimizerSharding> sharding;
  enum class Recompute { none, all, except_last, selective };
  std::optional<Recompute> recompute;
  std::optional<bool> recompute_communication;
  std::optional<bool> scatter_messages;
  std::optional<int> sharding_group;  ///< workers that divide what sharding divides
  std::optional<Compression> compression;
  std::optional<bool> vertical_sync;
  std::vector<double> speeds;  ///< by device
  std::string split;           ///< split of activations that a tensor axis may also use: "height", "sequence"

  /// Product of the explicit degrees; nullopt for a named strategy.
  std::optional<int> devices() const;
};

/// Errors (user), with `where` and the item: unknown names and keys, with the nearest known one; values that do not fit
/// the key; keys given twice; keys that the name already determines ("zero1,sharding=zero2", "data,tensor=2").
Strategy parse_strategy(std::string_view text, const std::string& where);

/// Rejoins a list that was cut at commas: the keys of a strategy are appended to its name or first degree. A degree
/// after a name, or a degree that occurs a second time, begins the next strategy. Any other key belongs to the strategy
/// before it. `takes_any_key`: true if the strategy, as joined so far, accepts each key=value that follows; null: no
/// strategy does.
std::vector<std::string> join_strategies(const std::vector<std::string>& items,
                                         const std::function<bool(const std::string&)>& takes_any_key = nullptr);

/// Returns the syntax in one line, for help texts and messages.
std::string strategy_syntax();

}  // namespace trireme
