// Replicas as clients of a server: messages, the token, lost clients. Here they are threads that communicate over TCP.
#include "update/remote/remote_server.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <mutex>

#include "../base/expect_error.h"
#include "base/random.h"
#include "base/seconds.h"
#include "remote_world.h"
#include "toy.h"
#include "update/diloco.h"
#include "update/easgd.h"
#include "update/federated.h"
#include "update/hub/thread_world.h"
#include "update/local_sgd.h"
#include "update/remote/gathering.h"
#include "update/remote/message.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using WhenLost = UpdatePolicy::WhenLost;

// -- messages

Message some_message() {
  return {.verb = Verb::visit,
          .ticket = 77,
          .shard = 2,
          .operation = 5,
          .numbers = {1.5, -3},
          .text = "näher",
          .tensors = {at::arange(6, at::kFloat).view({2, 3}), at::empty({0}, at::kDouble), at::arange(5, at::kByte),
                      at::full({}, 2.5, at::kBFloat16)}};
}

TEST(RemoteMessage, IsDecodedAsItWasEncoded) {
  const Message sent = some_message(), got = decode(encode(sent));
  EXPECT_EQ(got.verb, sent.verb);
  EXPECT_EQ(got.ticket, 77u);
  EXPECT_EQ(got.shard, 2);
  EXPECT_EQ(got.operation, 5);
  EXPECT_EQ(got.numbers, sent.numbers);
  EXPECT_EQ(got.text, sent.text);
  ASSERT_EQ(got.tensors.size(), sent.tensors.size());
  for (size_t t = 0; t < got.tensors.size(); ++t) {
    EXPECT_EQ(got.tensors[t].scalar_type(), sent.tensors[t].scalar_type());
    EXPECT_TRUE(at::equal(got.tensors[t], sent.tensors[t])) << t;
  }
  const at::Tensor columns = at::arange(6, at::kFloat).view({2, 3}).t();
  EXPECT_TRUE(at::equal(decode(encode({.tensors = {columns}})).tensors[0], columns));
}

TEST(RemoteMessage, InvalidBytesAreRefused) {
  const std::string whole = encode(some_message());
  for (size_t length = 0; length < whole.size(); ++length)
    expect_error(Blame::run, {"cannot be read"}, [&] { decode(whole.substr(0, length)); });
  expect_error(Blame::run, {"cannot be read"}, [&] { decode(whole + "x"); });
  std::string other = whole;
  other[4] = 9;
  expect_error(Blame::run, {"version 9"}, [&] { decode(other); });
}

TEST(RemoteMessage, AnyBytesAreAMessageOrRefused) {
  constexpr uint64_t kSeed = 31;
  const std::string whole = encode(some_message());
  const Philox draw(kSeed);
  int refused = 0;
  for (uint64_t k = 0; k < 4000; ++k) {
    std::string bytes = whole;
    for (uint64_t i = 0; i < 1 + k % 4; ++i) {  // mostly in the heads, which contain lengths
      const size_t at = size_t(draw.uniform(2 * i, k) * double(k % 2 ? bytes.size() : 80));
      bytes[at] = char(draw.uniform(2 * i + 1, k) * 256);
    }
    try {
      for (const at::Tensor& tensor : decode(bytes).tensors) EXPECT_LE(tensor.nbytes(), bytes.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500) << "seed " << kSeed;
}

TEST(RemoteServer, NeedsTheTokenAndTrainsTheSame) {
  RemoteServerOptions options = test_server_options();
  options.differs = [](const std::string& theirs) {
    return theirs == "mnist" ? "" : "batch: 32 at the server, 64 at the client";
  };
  RunningServer server(2, nullptr, options);
  const auto join = [&](auto change) {
    RemoteClientOptions client = test_client_options(*server);
    client.about = "mnist";
    change(client);
    return RemoteClient(client).number();
  };
  expect_error(Blame::user, {"does not accept this token"},
               [&] { join([](auto& c) { c.token = "a token of another run"; }); });
  expect_error(Blame::user, {"batch: 32 at the server"}, [&] { join([](auto& c) { c.about = "cifar"; }); });
  expect_error(Blame::user, {"no client 2"}, [&] { join([](auto& c) { c.wanted = 2; }); });
  RemoteClientOptions first = test_client_options(*server, 1);
  first.about = "mnist";
  const RemoteClient one(first);
  EXPECT_EQ(one.number(), 1);
  expect_error(Blame::user, {"client 1 is already connected"}, [&] { join([](auto& c) { c.wanted = 1; }); });
  EXPECT_EQ(join([](auto&) {}), 0);
}

// -- events and lost clients

struct Told {
  std::mutex mutex;
  std::vector<std::string> lines;
  void add(const std::string& line) {
    std::lock_guard lock(mutex);
    lines.push_back(line);
  }
  bool has(const std::string& part) {
    std::lock_guard lock(mutex);
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(part) != line.npos; });
  }
};

/// A client that joins and begins; its destructor leaves without a message.
struct LostSoon {
  explicit LostSoon(RemoteClientOptions options)
      : client(std::make_unique<RemoteClient>(std::move(options))), hub(&client->hub(client->number())) {}
  void begin() {
    hub->enter();
    hub->report({.operation = 0, .numbers = {1}});
    hub->barrier();
  }
  std::unique_ptr<RemoteClient> client;
  Hub* hub;
};

TEST(RemoteServer, ALostClientEndsPoliciesThatNeedAll) {
  RunningServer server(2, nullptr, test_server_options());
  auto lost = std::make_unique<LostSoon>(test_client_options(*server, 1));
  LostSoon stays(test_client_options(*server, 0));
  std::thread other([&] { lost->begin(); });
  stays.begin();
  other.join();
  const double began = steady_seconds();
  lost.reset();
  expect_error(Blame::run, {"client 1 was lost"}, [&] { stays.hub->barrier(); });
  EXPECT_LT(steady_seconds() - began, 3);
  EXPECT_THAT(server.join(), HasSubstr("client 1 was lost"));
}

TEST(RemoteServer, TheOthersContinueWithoutALostClient) {
  Told told;
  RemoteServerOptions options = test_server_options(WhenLost::goes_on);
  options.on_event = [&](const std::string& line) { told.add(line); };
  RunningServer server(3, nullptr, options);
  auto lost = std::make_unique<LostSoon>(test_client_options(*server, 0));
  LostSoon a(test_client_options(*server, 1)), b(test_client_options(*server, 2));
  std::thread first([&] { lost->begin(); }), second([&] { b.begin(); });
  a.begin();
  first.join();
  second.join();
  const auto average_and_leave = [](Hub& hub, double value) {
    std::vector<at::Tensor> tensors = {at::full({2}, value, at::kDouble)};
    hub.average(tensors);
    EXPECT_EQ(tensors[0][1].item<double>(), 6) << "the mean of the remaining clients";
    EXPECT_EQ(hub.total(1), 2);
    hub.leave();
  };
  std::thread other([&] { average_and_leave(*b.hub, 8); });
  lost.reset();
  average_and_leave(*a.hub, 4);
  other.join();
  EXPECT_EQ(server.join(), "");
  EXPECT_TRUE(a.hub->reports_for_all()) << "client 0 is gone";
  EXPECT_FALSE(b.hub->reports_for_all());
  EXPECT_TRUE(told.has("client 0 was lost"));
  EXPECT_EQ(server->counts(1).bytes_sent, 16);
}

TEST(RemoteServer, CountsTheBytesOfALostClient) {
  RunningServer server(2, nullptr, test_server_options(WhenLost::goes_on));
  auto lost = std::make_unique<LostSoon>(test_client_options(*server, 0));
  LostSoon stays(test_client_options(*server, 1));
  std::thread first([&] { lost->begin(); });
  stays.begin();
  first.join();
  const auto average = [](Hub& hub) {
    std::vector<at::Tensor> tensors = {at::ones({2}, at::kDouble)};
    hub.average(tensors);
    EXPECT_EQ(hub.total(1), 2);  // a single number counts no bytes of tensors
    const Hub::Unmetered unmetered(hub);
    hub.average(tensors);
  };
  std::thread other([&] { average(*lost->hub); });
  average(*stays.hub);
  other.join();
  lost.reset();
  stays.hub->leave();
  EXPECT_EQ(server.join(), "");
  for (const int client : {0, 1}) {
    const HubCounts counts = server->counts(client);
    EXPECT_EQ(counts.bytes_sent, 16) << client;
    EXPECT_EQ(counts.bytes_received, 16) << client;
    EXPECT_EQ(counts.collectives, 1) << client;
  }
}

TEST(RemoteServer, NonsenseFromAClientLosesTheClientOnly) {
  Told told;
  RemoteServerOptions options = test_server_options(WhenLost::goes_on);
  options.on_event = [&](const std::string& line) { told.add(line); };
  auto policy = easgd({}, 3);
  RunningServer server(3, policy->server(), options);
  LostSoon good(test_client_options(*server, 0)), bad(test_client_options(*server, 1)),
      large(test_client_options(*server, 2));
  std::thread first([&] { bad.begin(); }), second([&] { large.begin(); });
  good.begin();
  first.join();
  second.join();
  expect_error(Blame::run, {"sent an invalid request to the parameter server"}, [&] {
    bad.hub->visit(0, {.operation = 3, .numbers = {7, 0}});
  });
  expect_error(Blame::run, {"too large"},
               [&] { large.hub->visit(0, {.tensors = {at::zeros({1 << 20}, at::kFloat)}}); });
  EXPECT_EQ(good.hub->total(5), 5);
  good.hub->leave();
  EXPECT_EQ(server.join(), "");
  EXPECT_TRUE(told.has("client 1 was lost: it sent an invalid message"));
  EXPECT_TRUE(told.has("client 2 was lost: it sent an invalid message"));
}

TEST(RemoteServer, AnAbortReachesAllAtOnce) {
  RunningServer server(2, nullptr, test_server_options());
  LostSoon a(test_client_options(*server, 0)), b(test_client_options(*server, 1));
  std::thread other([&] { b.begin(); });
  a.begin();
  other.join();
  server->abort("stopped by the user");
  const double began = steady_seconds();
  expect_error(Blame::run, {"stopped by the user"}, [&] { a.hub->barrier(); });
  // A client that computes gets the error in its next step.
  expect_error(Blame::run, {"stopped by the user"}, [&] {
    while (steady_seconds() - began < 2) b.hub->begin_step();
  });
  EXPECT_LT(steady_seconds() - began, 2);
  EXPECT_THAT(server.join(), HasSubstr("stopped by the user"));
}

TEST(RemoteClient, SaysThatTheServerIsGone) {
  auto server = std::make_unique<RunningServer>(1, nullptr, test_server_options());
  LostSoon client(test_client_options(**server));
  client.hub->enter();
  client.hub->barrier();  // with one client it sends no message
  server.reset();
  EXPECT_THROW(
      {
        for (const double began = steady_seconds(); steady_seconds() - began < 5;) client.hub->begin_step();
      },
      Error);
  RemoteClientOptions without_server;
  without_server.server = "tcp://127.0.0.1:1";
  without_server.token = kTestToken;
  without_server.patience = 0.3;
  expect_error(Blame::run, {"no server answered", "tcp://127.0.0.1:1"}, [&] { RemoteClient late(without_server); });
}

TEST(RemoteServer, ReceivesTheLastReportsOfAClientWhateverTheirTime) {
  constexpr int kReports = 64;  // more than what the server and the network hold while nothing is read
  int arrived = 0;
  RemoteServerOptions options = test_server_options();
  options.on_report = [&](int, const Request&) {
    if (arrived++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  };
  RunningServer server(1, nullptr, options);
  auto client = std::make_unique<LostSoon>(test_client_options(*server));
  client->hub->enter();
  for (int k = 0; k < kReports; ++k) client->hub->report({.operation = 0, .tensors = {at::zeros({kTestMessage / 4})}});
  client->hub->leave();
  client.reset();
  EXPECT_EQ(server.join(), "");
  EXPECT_EQ(arrived, kReports);
}

// -- policies

/// Expects the same bits over TCP as with threads, for policies that do not depend on the order of arrival.
void expect_thread_bits(const std::function<std::unique_ptr<UpdatePolicy>()>& make, const ToyOptions& options) {
  const ToyProblem problem{.seed = 41, .samples = {12, 12, 12}};
  auto on_threads = make(), remote = make();
  ThreadWorld threads(3, on_threads->server());
  RemoteWorld processes(3, remote->server(), test_server_options(remote->when_lost()));
  const auto a = train_toy(threads, *on_threads, problem, options), b = train_toy(processes, *remote, problem, options);
  for (size_t r = 0; r < a.size(); ++r) {
    EXPECT_EQ(a[r].weights, b[r].weights) << r;
    EXPECT_EQ(a[r].moments, b[r].moments) << r;
  }
}

TEST(RemotePolicies, GiveTheBitsOfThreads) {
  const ToyOptions options{.steps = {10}, .momentum = 0.9, .dtype = at::kFloat};
  expect_thread_bits(
      [] {
        return local_sgd({.every = {3, Length::Unit::steps}, .moments = Moments::averaged});
      },
      options);
  expect_thread_bits([] { return diloco({.every = 4}); }, options);
  expect_thread_bits([] { return diloco({.every = 4, .fragments = 2, .overlap = 1, .mix = 0.5, .four_bits = true}); },
                     options);
  const ToyOptions rounds{.steps = {100000}, .dtype = at::kFloat};
  expect_thread_bits(
      []() -> std::unique_ptr<UpdatePolicy> { return federated({.rounds = {.clients = 3, .rounds = 4}}); }, rounds);
}

TEST(RemoteFederated, ARoundContinuesWithoutALostClientWhichReturns) {
  const ToyProblem problem{.seed = 43, .samples = {12, 12}};
  auto policy = federated({.rounds = {.clients = 2, .rounds = 1000000}});
  RemoteServerOptions options = test_server_options(WhenLost::may_return);
  options.first_step = [](int client) { return client == 1 ? 2 : 0; };
  std::atomic<int64_t> rounds = 0;
  int64_t visits_of_second_life = 0;
  policy->on_round = [&](const RoundRecord& record, const ModelValues&) { rounds = record.round + 1; };
  ToyOptions toy{.steps = {10000000}};
  toy.watch = [&](int replica, int64_t step, ReplicaState&, ReplicaPolicy&, Hub&) {
    if (replica == 1 && step == 5) policy->stop();
  };
  RunningServer server(2, policy->server(), options);
  const auto life = [&](int number, bool dies) {
    RemoteClient client(test_client_options(*server, number));
    Hub& hub = client.hub(number);
    hub.enter();
    if (!hub.joined_late()) hub.report({.operation = 0, .numbers = {1}});
    if (dies) {
      ReplicaState state = toy_state(problem.initial());
      auto replica = policy->for_replica(hub);
      replica->begin(state);
      replica->before_step({}, state);  // the client is selected, then it is lost
      return ToyResult{};
    }
    EXPECT_EQ(hub.first_step(), number == 1 ? 2 : 0);
    ToyResult result = toy_replica(hub, *policy, problem, toy);
    hub.leave();
    if (number == 1) visits_of_second_life = hub.counts().visits;
    return result;
  };
  std::thread stays([&] { life(0, false); });
  life(1, true);
  while (rounds < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const ToyResult back = life(1, false);
  stays.join();
  EXPECT_EQ(server.join(), "");
  const std::vector<RoundRecord> records = policy->rounds();
  ASSERT_GT(records.size(), 3u);
  EXPECT_EQ(records.front().answered, 1);
  EXPECT_EQ(records.front().samples, 12);
  EXPECT_TRUE(std::any_of(records.begin() + 3, records.end(), [](const RoundRecord& record) {
    return record.answered == 2;
  })) << "the client is back";
  EXPECT_GT(back.steps, 5);
  EXPECT_GT(server->counts(1).visits, visits_of_second_life) << "its first life counts";
}

TEST(RemoteFederated, BeginsWithEnoughClientsAndAdmitsLaterOnes) {
  const ToyProblem problem{.seed = 44, .samples = {12, 12, 12}};
  auto policy = federated({.rounds = {.clients = 3, .rounds = 1000000}});
  RemoteServerOptions options = test_server_options(WhenLost::may_return);
  options.enough = 2;
  Told told;
  options.on_event = [&](const std::string& line) { told.add(line); };
  std::atomic<int64_t> rounds = 0;
  policy->on_round = [&](const RoundRecord& record, const ModelValues&) { rounds = record.round + 1; };
  ToyOptions toy{.steps = {10000000}};
  toy.watch = [&](int replica, int64_t step, ReplicaState&, ReplicaPolicy&, Hub&) {
    if (replica == 0 && step == 5) policy->stop();
  };
  RunningServer server(3, policy->server(), options);
  std::array<std::unique_ptr<RemoteClient>, 3> clients;
  const auto live = [&](int number) {
    Hub& hub = clients[size_t(number)]->hub(number);
    hub.enter();
    EXPECT_EQ(hub.joined_late(), number == 0);
    if (!hub.joined_late()) hub.report({.operation = 0, .numbers = {1}});
    toy_replica(hub, *policy, problem, toy);
    hub.leave();
  };
  const auto join = [&](int number) {
    clients[size_t(number)] = std::make_unique<RemoteClient>(test_client_options(*server, number));
  };
  join(2);
  join(1);  // joins second; has the lowest number, so the server takes its weights
  std::thread first([&] { live(1); }), second([&] { live(2); });
  while (rounds < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  join(0);
  live(0);
  first.join();
  second.join();
  EXPECT_EQ(server.join(), "");
  const std::vector<RoundRecord> records = policy->rounds();
  ASSERT_GT(records.size(), 4u);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(records[k].selected, 2) << k;
    EXPECT_EQ(records[k].answered, 2) << k;
  }
  EXPECT_TRUE(
      std::any_of(records.begin() + 3, records.end(), [](const RoundRecord& record) { return record.answered == 3; }));
  EXPECT_FALSE(told.has("was lost"));
}

TEST(RemoteFederated, AClientThatJoinsWhileTheOthersBeginIsStartedAfterThem) {
  RemoteServerOptions options = test_server_options(WhenLost::may_return);
  options.enough = 2;
  Told told;
  options.on_event = [&](const std::string& line) { told.add(line); };
  RunningServer server(3, nullptr, options);
  LostSoon a(test_client_options(*server, 0)), b(test_client_options(*server, 1));
  a.hub->enter();
  b.hub->enter();
  auto gone = std::make_unique<LostSoon>(test_client_options(*server, 2));
  gone.reset();
  const double left = steady_seconds();
  while (!told.has("client 2 disconnected before its start") && steady_seconds() - left < 10)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  LostSoon late(test_client_options(*server, 2));
  const auto begin = [](Hub& hub) {
    const double together = hub.total(1);
    hub.barrier();
    hub.report({.operation = 0, .tensors = {at::ones({1})}});  // tensors are sent at once
    return together;
  };
  std::future<double> other = std::async(std::launch::async, begin, std::ref(*b.hub));
  std::future<double> first = std::async(std::launch::async, begin, std::ref(*a.hub));
  if (first.wait_for(std::chrono::seconds(10)) != std::future_status::ready) server->abort("the beginning hangs");
  EXPECT_EQ(first.get(), 2);
  EXPECT_EQ(other.get(), 2);
  late.hub->enter();
  EXPECT_TRUE(late.hub->joined_late());
  std::vector<std::future<double>> all;
  for (Hub* hub : {a.hub, b.hub, late.hub})
    all.push_back(std::async(std::launch::async, [hub] {
      const double together = hub->total(1);
      hub->leave();
      return together;
    }));
  for (std::future<double>& one : all) EXPECT_EQ(one.get(), 3);
  EXPECT_EQ(server.join(), "");
  EXPECT_FALSE(told.has("was lost"));
}

TEST(RemoteFederated, ClientsThatNeverJoinAreNotWaitedFor) {
  const ToyProblem problem{.seed = 45, .samples = {12, 12}};
  auto policy = federated({.rounds = {.clients = 2, .rounds = 3}});
  RemoteServerOptions options = test_server_options(WhenLost::may_return);
  options.enough = 1;
  RunningServer server(2, policy->server(), options);
  RemoteClient client(test_client_options(*server, 1));
  Hub& hub = client.hub(1);
  hub.enter();
  EXPECT_TRUE(hub.reports_for_all());
  toy_replica(hub, *policy, problem, {.steps = {10000000}});
  hub.leave();
  EXPECT_EQ(server.join(), "");
  EXPECT_EQ(policy->rounds().size(), 3u);
}

}  // namespace
}  // namespace trireme
