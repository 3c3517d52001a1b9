// Runs of a server and its clients, each as the process of `trireme serve` or `trireme join` has it; here they are
// threads of one process.
#include <future>
#include <thread>

#include "../update/remote_world.h"
#include "experiment/run_device.h"
#include "forecast/agreement_plan.h"
#include "replica_training.h"
#include "train/run.h"

namespace trireme::test_support {
namespace {

constexpr double kPollSeconds = 0.05;

class RemoteRun : public Replicas {
 protected:
  RemoteRun() { experiment.length = {1, Length::Unit::epochs}; }

  /// Trains as client `number`. Returns its error, "" if it succeeded.
  std::string train_as_client(const std::string& endpoint, int number, const Model& model, const Plan& plan) const {
    RemoteClientOptions options{.server = endpoint,
                                .token = kTestToken,
                                .wanted = number,
                                .about = "",
                                .largest_message = largest_exchange(experiment, model)};
    auto client = std::make_unique<RemoteClient>(std::move(options));
    trireme::Run training(on_its_devices(whole_experiment(experiment, plan), plan), model, data, plan,
                          {.make_world = {[&](RunAgreement&) -> std::unique_ptr<HubWorld> { return std::move(client); },
                                          ReplicaHosting::clients}});
    std::thread workers([&] { training.work_all(); });
    for (bool over = false; !over;) {
      bool timed_out = false;
      over = !training.records.next(kPollSeconds, timed_out) && !timed_out;
    }
    workers.join();
    try {
      if (training.error()) std::rethrow_exception(training.error());
    } catch (const Error& error) {
      return error.what();
    }
    return training.abort_reason();
  }

  /// Trains as the server of as many clients, which train beside it.
  Outcome serve(const std::string& strategy, int clients) {
    const Model model = build_model(experiment, data);
    const Plan plan = plan_with_agreement(strategy, experiment, model, clients);
    std::vector<std::future<std::string>> ends;
    const auto make_world = [&](RunAgreement& run) -> std::unique_ptr<HubWorld> {
      RemoteServerOptions options = test_server_options(run.update().when_lost());
      options.largest_message = largest_exchange(experiment, model);
      options.first_step = [&run](int client) { return run.next_step(client); };
      options.on_report = [&run](int client, Request report) { run.take_report(client, std::move(report)); };
      auto world = std::make_unique<RemoteServer>(run.replicas(), run.update().server(), std::move(options));
      for (int number = 0; number < clients; ++number)
        ends.push_back(std::async(std::launch::async, [&, number, endpoint = world->endpoint()] {
          return train_as_client(endpoint, number, model, plan);
        }));
      return world;
    };
    Keeping observer;
    RunResult row = train(experiment, model, data, plan, observer, interrupted, nullptr, {}, nullptr,
                          {make_world, ReplicaHosting::clients});
    for (std::future<std::string>& end : ends) EXPECT_EQ(end.get(), "") << strategy;
    return {row, observer.weights, observer.steps};
  }
};

constexpr const char* kPolicies[] = {"local-sgd",
                                     "local-sgd,every=4 steps,overlap=2",
                                     "local-sgd,compression=sign",
                                     "diloco,every_steps=2",
                                     "streaming-diloco,every_steps=4",
                                     "gossip,every=2 steps",
                                     "gossip,every=2 steps,compression=bf16",
                                     "fedavg,rounds=2",
                                     "fedavg,rounds=2,local_parameters=fc1.*",
                                     "fedadam,rounds=2"};

TEST_F(RemoteRun, GivesTheWeightsOfThreads) {
  for (const std::string strategy : kPolicies) {
    SCOPED_TRACE(strategy);
    const Outcome threads = run(strategy, 3), clients = serve(strategy, 3);
    ASSERT_EQ(clients.row.status, RunStatus::ok) << clients.row.reason;
    EXPECT_LT(largest_difference(threads.weights, clients.weights), 1e-12);
    EXPECT_TRUE(clients.row.test);
  }
}

TEST_F(RemoteRun, ClientsMayComputeOnGpus) {
  if (device_under_test() != "strict") GTEST_SKIP() << "needs several devices";
  experiment.device = c10::DeviceType::PrivateUse1;
  const PlacedDevices places(0, places_of_run(experiment));  // the clients' runs end one after another
  for (const std::string strategy : kPolicies) {
    SCOPED_TRACE(strategy);
    experiment.device = c10::DeviceType::CPU;
    const Outcome threads = run(strategy, 3);
    experiment.device = c10::DeviceType::PrivateUse1;
    const Outcome clients = serve(strategy, 3);
    ASSERT_EQ(clients.row.status, RunStatus::ok) << clients.row.reason;
    EXPECT_LT(largest_difference(threads.weights, clients.weights), 1e-12);
    EXPECT_TRUE(clients.row.test);
  }
  for (const char* strategy : {"async-average", "easgd", "downpour,push_every=2,fetch_every=2", "shat", "partial",
                               "fedbuff,buffer=2", "scaffold,rounds=2", "async-average,compression=topk:0.5"}) {
    const Outcome outcome = serve(strategy, 3);  // it depends on who comes first
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << strategy << ": " << outcome.row.reason;
    EXPECT_TRUE(outcome.row.test) << strategy;
  }
}

}  // namespace
}  // namespace trireme::test_support
