// The federated policies by name, and their options.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "trireme/error.h"
#include "update/cadence.h"
#include "update/federated.h"
#include "update/registry.h"

namespace trireme {
namespace {

constexpr double kUsualDeltaPower = -1.1;  // of the number of clients: McMahan et al., 2018

/// Returns the words of the key; see UpdatePolicy::local_parameters.
std::vector<std::string> read_local_parameters(const ConfigTable& update) {
  std::istringstream words(update.get_string("local_parameters", ""));
  std::vector<std::string> names;
  for (std::string word; words >> word;) {
    if (const size_t star = word.find('*'); star != word.npos && star + 1 != word.size())
      update.fail("local_parameters", fmt::format("\"{}\": a * is allowed only at the end", word),
                  "name parameters, for example \"fc.* layer1.0.conv1.weight\", or \"batch-norm\"");
    names.push_back(std::move(word));
  }
  return names;
}

FederatedOptions read_options(const ConfigTable& update, const RunFacts& facts) {
  FederatedOptions options;
  options.rounds.clients = facts.replicas;
  options.rounds.seed = facts.seed;
  options.rounds.rounds = update.has("rounds") ? update.get_int("rounds", 1, 1) : 0;
  options.rounds.fraction = update.get_double("fraction", 1, 0);
  if (!(options.rounds.fraction <= 1))
    update.fail("fraction", "it is the share of the clients in a round", "choose 0 to 1");
  options.rounds.timeout = update.get_seconds("round_timeout", 0);
  options.local = read_whole_length(update, "local", options.local, 1);
  options.clip_norm = update.get_double("clip_norm", options.clip_norm, 0);
  options.dropout = update.get_double("dropout", options.dropout, 0);
  if (!(options.dropout < 1)) update.fail("dropout", "no client would ever answer", "choose less than 1");
  if (options.dropout > 0 && options.rounds.timeout == 0)
    update.fail("dropout", "a round whose clients do not answer would never end", "add round_timeout = \"60 s\"");
  options.moments = read_moments(update, options.moments, false);
  options.local_parameters = read_local_parameters(update);
  options.compression = read_compression(update);
  return options;
}

/// Reads how the answers of a round are put together.
void read_aggregate(const ConfigTable& update, FederatedOptions& options) {
  using Kind = AggregateOptions::Kind;
  AggregateOptions& aggregate = options.aggregate;
  const std::string name = update.get_choice("aggregate", "mean", {"mean", "median", "trimmed-mean", "krum"});
  for (const Kind kind : {Kind::mean, Kind::median, Kind::trimmed_mean, Kind::krum})
    if (name == text_of(kind)) aggregate.kind = kind;
  if (aggregate.kind == Kind::trimmed_mean) {
    aggregate.trim = update.get_double("trim", aggregate.trim, 0);
    if (!(aggregate.trim < 0.5)) update.fail("trim", "it is left out at both ends", "choose less than 0.5");
  }
  if (aggregate.kind != Kind::krum) return;
  aggregate.byzantine = update.get_int("byzantine", 1, 0);
  const int64_t least = 2 * aggregate.byzantine + 3;
  const double selected = std::max(1.0, options.rounds.fraction * double(options.rounds.clients));
  if (selected < double(least))
    update.fail("byzantine",
                fmt::format("against {} such clients Krum needs {} in each round", aggregate.byzantine, least),
                "raise fraction, or choose fewer");
}

/// Reads the keys of differential privacy, after all others.
void read_privacy(const ConfigTable& update, FederatedOptions& options) {
  PrivacyOptions& privacy = options.privacy;
  privacy.noise = update.get_double("noise", 0, 0);
  if (!privacy.is_wanted()) {
    for (const char* key : {"delta", "noise_seed"})
      if (update.has(key))
        update.fail(key, "it belongs to noise, which is not given", "add noise = 1, or leave it out");
    return;
  }
  const double clients = double(options.rounds.clients);
  privacy.delta = update.get_double("delta", std::min(0.1, std::pow(clients, kUsualDeltaPower)), 0);
  if (!(privacy.delta > 0 && privacy.delta < 1))
    update.fail("delta", "it is a probability", "choose one far below 1 / clients");
  if (update.has("noise_seed")) privacy.seed = uint64_t(update.get_int("noise_seed", 0, 0));
  if (options.clip_norm == 0)
    update.fail("noise", "it is in units of clip_norm, which is not given", "add clip_norm = 1");
  if (options.rounds.fraction == 0) update.fail("fraction", "noise needs a share of the clients", "choose above 0");
  if (!options.local_parameters.empty())
    update.fail("local_parameters", "their mean in the result would tell about the clients' samples without noise",
                "leave out one of local_parameters and noise");
  using Kind = AggregateOptions::Kind;
  if (options.aggregate.kind != Kind::mean)
    update.fail("aggregate", "noise hides one client in a mean only", "leave one of them out");
  options.aggregate.kind = Kind::equal;
  options.rounds.secret = secret_of(privacy);
}

constexpr double kUsualMu = 0.01;
constexpr double kUsualAdaptiveRate = 0.01;

void read_averaging(const ConfigTable& update, FederatedOptions& options) {
  options.server.learning_rate = update.get_double("server_learning_rate", options.server.learning_rate, 0);
  options.server.momentum = update.get_double("server_momentum", options.server.momentum, 0);
  if (!(options.server.momentum < 1))
    update.fail("server_momentum", "it must be below 1, or the velocity grows without bound", "0.9 is usual");
}

void require_plain_sgd(const ConfigTable& update, const RunFacts& facts, const char* name) {
  if (!facts.plain_sgd)
    update.fail("policy", fmt::format("{} is for clients that use SGD without momentum", name),
                "use it, or choose fedavg");
}

std::unique_ptr<UpdatePolicy> read_fedavg(const ConfigTable& update, const RunFacts& facts) {
  FederatedOptions options = read_options(update, facts);
  read_averaging(update, options);
  read_aggregate(update, options);
  read_privacy(update, options);
  return federated(options);
}

std::unique_ptr<UpdatePolicy> read_fednova(const ConfigTable& update, const RunFacts& facts) {
  require_plain_sgd(update, facts, "fednova");
  FederatedOptions options = read_options(update, facts);
  read_averaging(update, options);
  options.aggregate.kind = AggregateOptions::Kind::normalized;
  return federated(options);
}

std::unique_ptr<UpdatePolicy> read_scaffold(const ConfigTable& update, const RunFacts& facts) {
  require_plain_sgd(update, facts, "scaffold");
  FederatedOptions options = read_options(update, facts);
  read_averaging(update, options);
  options.aggregate.kind = AggregateOptions::Kind::equal;
  options.control_variates = true;
  return federated(options);
}

std::unique_ptr<UpdatePolicy> read_fedprox(const ConfigTable& update, const RunFacts& facts) {
  FederatedOptions options = read_options(update, facts);
  read_averaging(update, options);
  options.proximal = update.get_double("mu", kUsualMu, 0);
  read_privacy(update, options);
  return federated(options);
}

std::unique_ptr<UpdatePolicy> read_fedadam(const ConfigTable& update, const RunFacts& facts) {
  using Kind = ServerOptimizerOptions::Kind;
  FederatedOptions options = read_options(update, facts);
  const std::array kinds = {Kind::adam, Kind::adagrad, Kind::yogi};
  std::vector<std::string> names;
  names.reserve(kinds.size());
  for (const Kind kind : kinds) names.emplace_back(name_of(kind));
  const std::string name = update.get_choice("server_optimizer", names.front(), names);
  options.server.kind = kinds.at(size_t(std::find(names.begin(), names.end(), name) - names.begin()));
  options.server.learning_rate = update.get_double("server_learning_rate", kUsualAdaptiveRate, 0);
  options.server.beta1 = update.get_double("beta1", options.server.beta1, 0);
  if (!(options.server.beta1 < 1)) update.fail("beta1", "it is the share that stays", "choose less than 1");
  if (options.server.kind != Kind::adagrad) {
    options.server.beta2 = update.get_double("beta2", options.server.beta2, 0);
    if (!(options.server.beta2 < 1)) update.fail("beta2", "it is the share that stays", "choose less than 1");
  }
  options.server.tau = update.get_double("tau", options.server.tau, 0);
  if (!(options.server.tau > 0))
    update.fail("tau", "updates are divided by it where they are 0", "choose a small number above 0");
  read_privacy(update, options);
  return federated(options);
}

}  // namespace

constinit const PolicyKind kFedavg = {
    .name = "fedavg",
    .description = "rounds of clients with samples of their own (McMahan et al., 2017)",
    .read = read_fedavg,
};

constinit const PolicyKind kFedprox = {
    .name = "fedprox",
    .description = "fedavg, clients held near the round's weights (Li et al., 2020)",
    .read = read_fedprox,
};

constinit const PolicyKind kFednova = {
    .name = "fednova",
    .description = "fedavg, updates divided by the clients' steps (Wang et al., 2020)",
    .read = read_fednova,
};

constinit const PolicyKind kScaffold = {
    .name = "scaffold",
    .description = "fedavg, clients correct their drift by control variates (Karimireddy et al., 2020)",
    .read = read_scaffold,
};

constinit const PolicyKind kFedadam = {
    .name = "fedadam",
    .description = "fedavg with Adam, Adagrad or Yogi on the server (Reddi et al., 2021)",
    .read = read_fedadam,
};

}  // namespace trireme
