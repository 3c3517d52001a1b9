#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/local_clients.h"
#include "cli/same_input.h"
#include "forecast/agreement_plan.h"
#include "train/agreement/run_agreement.h"
#include "trireme/error.h"
#include "update/remote/remote_server.h"

namespace trireme {
namespace {

constexpr const char* kDefaultListen = "tcp://127.0.0.1:5555";
// For clients that this process starts and to which it passes the address.
constexpr const char* kAnyPort = "tcp://127.0.0.1:*";
constexpr unsigned kSecondsForClients = 60;  // after an interrupt: for the open round, and for the last evaluation

void check_serves(const ServeOptions& options, const Experiment& experiment) {
  const auto refuse = [&](const char* key, const char* why, const char* next) {
    fail_user({experiment.where(key), "", why, next});
  };
  if (!is_update_policy(options.plan))
    fail_user({"--plan", options.plan, "is not an update policy, and clients need one",
               "see docs/updates.md, or use trireme train"});
  if (experiment.replicas.clock)
    refuse("update.virtual", "clients run in real time", "leave it out, or use trireme train");
  if (experiment.links)
    refuse("cluster.link", "emulates links between the threads of one process", "leave it out, or use trireme train");
  if (experiment.elastic)
    refuse("elastic", "is for trireme launch: a server continues without lost clients where its policy can",
           "leave it out, or add --set elastic=false");
  if (options.own_data && options.spawn > 0)
    fail_user({"--own-data", "clients of --spawn have the server's data", "",
               "let clients with their own data join, or leave out --own-data"});
  if (options.at_least > options.clients)
    fail_user({"--clients-at-least", std::to_string(options.at_least),
               fmt::format("there are {} clients", options.clients), "wait for at most as many"});
  if (options.spawn > options.clients)
    fail_user({"--spawn", std::to_string(options.spawn), fmt::format("there are {} clients", options.clients),
               "start at most as many"});
}

}  // namespace

int run_serve(const ServeOptions& given) {
  interrupted_by_user();
  ServeOptions options = given;
  if (options.clients == 0) options.clients = options.spawn;
  if (options.clients == 0)
    fail_user(
        {"--clients", "is missing", "the server must know how many it waits for", "add --clients 2, or --spawn 2"});
  const Experiment experiment = options.experiment.read_for_devices();
  check_serves(options, experiment);
  std::string token = read_token(options.token_file);
  if (options.spawn > 0 && token.empty()) token = random_token();
  // For the clients that this process starts.
  if (options.spawn > 0) ::setenv(kTokenVariable, token.c_str(), /*overwrite=*/1);
  if (options.listen.empty()) options.listen = options.spawn == options.clients ? kAnyPort : kDefaultListen;

  allow_seconds_after_interrupt(kSecondsForClients);
  LocalClients local;
  const auto make_world = [&](RunAgreement& run) -> std::unique_ptr<HubWorld> {
    if (run.update().shares_memory())
      fail_user({"--plan", options.plan, "its replicas share memory, and processes do not", "use trireme train"});
    if (options.at_least > 0 && options.at_least < options.clients &&
        run.update().when_lost() != UpdatePolicy::WhenLost::may_return)
      fail_user({"--clients-at-least", options.plan, "needs all clients from the beginning",
                 fmt::format("use {}, or leave it out", usual_federated_policy())});
    const nlohmann::json welcome = {{"seed", experiment.seed}, {"strategy", options.plan}};
    auto world = std::make_unique<RemoteServer>(
        run.replicas(), run.update().server(),
        RemoteServerOptions{
            .listen = options.listen,
            .token = token,
            .largest_message = largest_exchange(experiment, run.model()),
            .when_lost = run.update().when_lost(),
            .enough = options.at_least,
            .differs = [ours = compared_input(options.experiment, run.model(), run.data(), options.own_data)](
                           const std::string& theirs) { return first_difference(ours, theirs); },
            .welcome = welcome.dump(),
            .first_step = [&run](int client) { return run.next_step(client); },
            .on_event = [](const std::string& line) { spdlog::info("{}", line); },
            .on_report = [&run](int client, Request report) { run.take_report(client, std::move(report)); }});
    spdlog::info("listening on {} for {} clients", world->endpoint(), options.clients);
    ExperimentOptions of_clients = options.experiment;
    of_clients.seed.reset();  // they get it when they join
    local.start(options.spawn, of_clients.words_after({"join", world->endpoint()}));
    return world;
  };
  TrainOptions train;
  train.experiment = options.experiment;
  train.plan = options.plan;
  train.json = options.json;
  train.resume = options.resume;
  train.serves = true;
  train.own_data = options.own_data;
  train.experiment.devices = {options.clients * devices_of_replica(options.plan, experiment)};
  return run_train(train, make_world);
}

}  // namespace trireme
