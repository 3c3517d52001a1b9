#include "experiment/read_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiment/own_keys.h"

namespace trireme {
namespace {

/// Returns the keys that only some optimizer kinds accept, with these kinds.
OwnKeys own_keys() {
  OwnKeys keys{{"momentum", {}}, {"nesterov", {}}, {"beta1", {}},      {"beta2", {}},
               {"alpha", {}},    {"centered", {}}, {"rate_decay", {}}, {"initial_accumulator", {}},
               {"epsilon", {}},  {"trust", {}}};
  for (auto& [key, takers] : keys)
    for (const OptimizerKind* kind : optimizer_kinds())
      if (std::any_of(kind->keys.begin(), kind->keys.end(), [&](const char* own) { return own && key == own; }))
        takers.emplace_back(kind->name);
  return keys;
}

double finite(const ConfigTable& table, const char* key, double usual) {
  const double value = table.get_double(key, usual, 0);
  if (!std::isfinite(value)) table.fail(key, "must be finite", fmt::format("{} is usual", usual));
  return value;
}

double share(const ConfigTable& table, const char* key, double fallback, const char* usual) {
  const double value = table.get_double(key, fallback, 0);
  if (!(value < 1)) table.fail(key, "must be below 1", usual);
  return value;
}

OptimizerConfig read_kind(const ConfigTable& table) {
  OptimizerConfig o;
  const std::string name = table.get_choice("kind", o.kind->name, optimizer_names());
  o.kind = parse_optimizer(name, table.where("kind"));
  o.learning_rate = o.kind->learning_rate, o.momentum = o.kind->momentum, o.epsilon = o.kind->epsilon;
  refuse_keys_of_others(table, own_keys(), name, name);
  o.learning_rate = finite(table, "learning_rate", o.learning_rate);
  o.weight_decay = finite(table, "weight_decay", 0);
  // keys of other kinds were refused above
  o.momentum = finite(table, "momentum", o.momentum);
  o.nesterov = table.get_bool("nesterov", false);
  if (o.nesterov && o.momentum == 0) table.fail("nesterov", "needs momentum", "set momentum or drop nesterov");
  o.beta1 = share(table, "beta1", o.beta1, "0.9 is usual");
  o.beta2 = share(table, "beta2", o.beta2, "0.999 is usual");
  o.alpha = share(table, "alpha", o.alpha, "0.99 is usual");
  o.centered = table.get_bool("centered", false);
  o.rate_decay = finite(table, "rate_decay", 0);
  o.initial_accumulator = finite(table, "initial_accumulator", 0);
  o.epsilon = finite(table, "epsilon", o.epsilon);
  o.trust = finite(table, "trust", o.trust);
  o.ema = share(table, "ema", 0, "0.999 is usual, 0 keeps no average");
  return o;
}

}  // namespace

OptimizerSettings read_optimizer(const ConfigTable& table) {
  OptimizerSettings settings;
  settings.optimizer = read_kind(table);
  settings.schedule = read_schedule(table, settings.optimizer.learning_rate);
  settings.clip_norm = finite(table, "clip_norm", 0);
  return settings;
}

}  // namespace trireme
