#include "experiment/read_optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "experiment/own_keys.h"

namespace trireme {
namespace {

using Kind = OptimizerConfig::Kind;

const OwnKeys kOwnKeys{{"momentum", {"sgd", "rmsprop", "lars"}},
                       {"nesterov", {"sgd"}},
                       {"beta1", {"adam", "adamw", "lamb"}},
                       {"beta2", {"adam", "adamw", "lamb"}},
                       {"alpha", {"rmsprop"}},
                       {"centered", {"rmsprop"}},
                       {"rate_decay", {"adagrad"}},
                       {"initial_accumulator", {"adagrad"}},
                       {"epsilon", {"adam", "adamw", "adagrad", "rmsprop", "lamb"}},
                       {"trust", {"lars"}}};

/// PyTorch's defaults and those of the papers; of SGD what is usual.
OptimizerConfig defaults_of(Kind kind) {
  OptimizerConfig o;
  o.kind = kind;
  switch (kind) {
    case Kind::sgd: o.learning_rate = 0.05, o.momentum = 0.9; break;
    case Kind::adam:
    case Kind::adamw: o.learning_rate = 1e-3; break;
    case Kind::adagrad: o.learning_rate = 0.01, o.epsilon = 1e-10; break;
    case Kind::rmsprop: o.learning_rate = 0.01; break;
    case Kind::lars: o.learning_rate = 1, o.momentum = 0.9; break;
    case Kind::lamb: o.learning_rate = 1e-3, o.epsilon = 1e-6; break;
  }
  return o;
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
  const std::string name = table.get_choice("kind", "sgd", optimizer_names());
  OptimizerConfig o = defaults_of(parse_optimizer(name, table.where("kind")));
  refuse_keys_of_others(table, kOwnKeys, name, name);
  o.learning_rate = finite(table, "learning_rate", o.learning_rate);
  o.weight_decay = finite(table, "weight_decay", 0);
  // a kind's own keys are the only ones that are there
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
