#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/devices/gpu.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/same_input.h"
#include "experiment/initial_weights.h"
#include "experiment/run_device.h"
#include "experiment/run_spec.h"
#include "forecast/agreement_plan.h"
#include "train/run.h"
#include "trireme/config.h"
#include "trireme/error.h"
#include "update/remote/remote_client.h"

namespace trireme {
namespace {

constexpr double kPollSeconds = 0.05;
constexpr double kReturnSeconds = 4;  // time for which a client that has lost the server tries to return
constexpr auto kBetweenTries = std::chrono::milliseconds(500);

/// The parts of a client's run that depend on the seed.
struct Task {
  RunSpec experiment;
  TaskData data;
  Model model;

  static Task read(const ExperimentOptions& options, bool own_data) {
    RunSpec experiment{options.read_for_devices()};
    check_device(experiment);
    experiment.own_data = own_data;
    TaskData data = open_data(experiment.data);
    Model model = with_initial_weights(experiment, build_model(experiment, data));
    return {std::move(experiment), std::move(data), std::move(model)};
  }
};

struct Welcome {
  uint64_t seed = 0;
  std::string strategy;
};

Welcome welcome_from(const RemoteClient& client) {
  try {
    const auto told = nlohmann::json::parse(client.welcome());
    return {told.at("seed").get<uint64_t>(), told.at("strategy").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    fail_run({"server of replicas", "its first message cannot be read", first_line(error),
              "use the same version of Trireme on both sides"});
  }
}

/// Trains until the run has ended. Throws the error that ended it early.
void train_as_client(Run& run, int number) {
  std::thread workers([&] { run.work_all(); });
  int64_t steps = 0;
  for (bool over = false; !over;) {
    bool timed_out = false;
    const std::optional<StepRecord> entry = run.records.next(kPollSeconds, timed_out);
    steps += entry ? 1 : 0;
    over = !entry && !timed_out;
    if (interrupted_by_user()) run.abort("stopped by its user");
  }
  workers.join();
  if (run.error()) std::rethrow_exception(run.error());
  if (!run.abort_reason().empty()) fail_run({fmt::format("client {}", number), run.abort_reason(), "", ""});
  const HubCounts& counts = run.agreement()->counts()[size_t(number)];
  spdlog::info("client {} has finished: {} steps, {} sent, {} received", number, steps, format_bytes(counts.bytes_sent),
               format_bytes(counts.bytes_received));
}

class Joining {
 public:
  explicit Joining(const ClientOptions& options)
      : options_(options), wanted_(options.client), token_(read_token(options.token_file)) {
    check_endpoint(options.server, /*listens=*/false, !token_.empty());
    task_ = std::make_unique<Task>(Task::read(options.experiment, options.own_data));
  }

  /// Takes part in a run. Returns true if the run has ended; false if the server was lost and the policy lets clients
  /// return.
  bool take_part() {
    auto client = joined();
    const Welcome welcome = welcome_from(*client);
    if (welcome.seed != task_->experiment.seed) {
      ExperimentOptions experiment = options_.experiment;
      experiment.seed = welcome.seed;
      task_ = std::make_unique<Task>(Task::read(experiment, options_.own_data));
    }
    wanted_ = client->number();
    const std::string on_gpus = device_in_words(task_->experiment);
    spdlog::info("client {} of {}: {}{}{}", wanted_, client->replicas(), welcome.strategy, on_gpus.empty() ? "" : "; ",
                 on_gpus);
    const int workers = client->replicas() * devices_of_replica(welcome.strategy, task_->experiment);
    const Plan plan = plan_with_agreement(welcome.strategy, task_->experiment, task_->model, workers);
    if (task_->experiment.device != c10::DeviceType::CPU) install_gpu_memory_accounting();
    Run run(on_its_devices(whole_experiment(task_->experiment, plan), plan), task_->model, task_->data, plan,
            {.make_world = {[&](RunAgreement&) -> std::unique_ptr<HubWorld> { return std::move(client); },
                            ReplicaHosting::clients}});
    try {
      train_as_client(run, wanted_);
      return true;
    } catch (const ServerLost& lost) {
      if (run.agreement()->update().when_lost() != UpdatePolicy::WhenLost::may_return || interrupted_by_user()) throw;
      spdlog::warn("{}; trying to reconnect", first_line(lost));
      was_lost_ = true;
      return false;
    }
  }

 private:
  std::unique_ptr<RemoteClient> joined() {
    const double until = steady_seconds() + kReturnSeconds;
    while (true) {
      RemoteClientOptions remote{
          .server = options_.server,
          .token = token_,
          .wanted = wanted_,
          .about = compared_input(options_.experiment, task_->model, task_->data, options_.own_data),
          .largest_message = kMaxDevices * largest_exchange(task_->experiment, task_->model)};
      if (was_lost_) remote.patience = kReturnSeconds;
      try {
        return std::make_unique<RemoteClient>(std::move(remote));
      } catch (const ServerLost&) {
        throw;
      } catch (const Error&) {  // the server may not know yet that this client was lost
        if (!was_lost_ || interrupted_by_user() || steady_seconds() > until) throw;
      }
      std::this_thread::sleep_for(kBetweenTries);
    }
  }

  const ClientOptions& options_;
  int wanted_;
  const std::string token_;
  std::unique_ptr<Task> task_;
  bool was_lost_ = false;
};

void refuse_own_seed(const ExperimentOptions& experiment) {
  const auto refuse = [](const char* flag, const std::string& value) {
    fail_user({flag, value, "all clients train with the server's seed", "give it to trireme serve"});
  };
  if (experiment.seed) refuse("--seed", std::to_string(*experiment.seed));
  for (const std::string& assignment : experiment.set) {
    ConfigTable set = ConfigTable::from_string("");
    set.override_with(assignment);
    if (set.has("seed")) refuse("--set", assignment);
  }
}

}  // namespace

int run_join(const ClientOptions& options) {
  refuse_own_seed(options.experiment);
  interrupted_by_user();
  install_memory_accounting();
  Joining joining(options);
  while (!joining.take_part()) {
  }
  return 0;
}

}  // namespace trireme
