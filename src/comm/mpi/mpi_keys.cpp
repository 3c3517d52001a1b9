#include "comm/mpi/mpi_keys.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/machine.h"
#include "base/mutex.h"
#include "base/text.h"
#include "comm/mpi/mpi_engine.h"
#include "comm/rendezvous/key_exchange.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kTextBytes = 1024;    // for texts between ranks: host names, an address and a token, an error
constexpr int kTag = 1;                 // the world's first payload uses the same tag later; MPI preserves the order
constexpr double kReachSeconds = 10;    // limit for connecting to rank 0
constexpr double kAnswerSeconds = 300;  // for an answer of rank 0; its death is detected earlier by other means
constexpr const char* kLoopback = "127.0.0.1";

void send_text(Transport& world, std::string text, int to, milliseconds patience) {
  text.resize(kTextBytes - 1);
  const at::Tensor bytes = at::zeros({kTextBytes}, at::kChar);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  world.send(bytes, to, kTag)->wait(patience);
}

std::string receive_text(Transport& world, int from, milliseconds patience) {
  const at::Tensor bytes = at::zeros({kTextBytes}, at::kChar);
  world.receive(bytes, from, kTag)->wait(patience);
  const auto* text = static_cast<const char*>(bytes.data_ptr());
  return {text, ::strnlen(text, size_t(kTextBytes))};
}

/// The connections to the keys of one process, for all its worlds.
struct KeyConnection {
  std::unique_ptr<KeyServer> server;  ///< on rank 0 only
  std::unique_ptr<KeyClient> client;  ///< null: not all ranks can reach rank 0
};

int port_of(const std::string& endpoint) { return std::stoi(endpoint.substr(endpoint.rfind(':') + 1)); }

KeyConnection host_keys(Transport& world, int size, milliseconds patience) {
  bool one_machine = true;
  for (int r = 1; r < size; ++r) one_machine &= receive_text(world, r, patience) == host_name();
  const std::string token = random_token();
  const CurveKeys keys = make_curve_keys(token);
  KeyConnection connection{
      .server = std::make_unique<KeyServer>(one_machine ? fmt::format("tcp://{}:*", kLoopback) : "tcp://*:*", keys),
      .client = nullptr};
  const int port = port_of(connection.server->endpoint());
  const std::string endpoint = endpoint_of(one_machine ? kLoopback : host_name(), port);
  for (int r = 1; r < size; ++r) send_text(world, endpoint + "\n" + token, r, patience);
  std::string trouble;
  for (int r = 1; r < size; ++r)
    if (const std::string theirs = receive_text(world, r, patience); trouble.empty() && !theirs.empty())
      trouble = fmt::format("rank {}: {}", r, theirs);
  for (int r = 1; r < size; ++r) send_text(world, trouble, r, patience);
  if (trouble.empty())
    connection.client = std::make_unique<KeyClient>(endpoint_of(kLoopback, port), keys, kAnswerSeconds);
  else
    spdlog::warn(
        "{} cannot be reached over TCP beside MPI: a frozen rank is detected only after 20 times the longest step, at "
        "least 120 s, without a message ({})",
        endpoint, trouble);
  return connection;
}

KeyConnection reach_keys(Transport& world, milliseconds patience) {
  send_text(world, host_name(), 0, patience);
  const std::string answer = receive_text(world, 0, patience);
  const size_t line = answer.find('\n');
  const std::string endpoint = answer.substr(0, line);
  const CurveKeys keys = make_curve_keys(answer.substr(line + 1));
  std::string trouble;
  try {
    KeyClient(endpoint, keys, kReachSeconds).count();
  } catch (const std::exception& error) {
    trouble = first_line(error);
  }
  send_text(world, trouble, 0, patience);
  if (!receive_text(world, 0, patience).empty()) return {};
  return {.server = nullptr, .client = std::make_unique<KeyClient>(endpoint, keys, kAnswerSeconds)};
}

/// The keys of one world, hosted by rank 0.
class SharedKeys final : public KeyStore {
 public:
  SharedKeys(std::shared_ptr<KeyConnection> connection, int64_t world)
      : connection_(std::move(connection)), prefix_(fmt::format("{}/", world)) {}

  void publish(const std::string& key, const std::string& value) override {
    MpiEngine::instance().expect_no_end();  // only an abort is published
    if (connection_->client->add(prefix_ + key + "/claims", 1) == 1) connection_->client->set(prefix_ + key, value);
  }
  void replace(const std::string& key, const std::string& value) override {
    connection_->client->set(prefix_ + key, value);
  }
  std::optional<std::string> look_up(const std::string& key) override {
    return connection_->client->get(prefix_ + key);
  }

 private:
  const std::shared_ptr<KeyConnection> connection_;
  const std::string prefix_;
};

/// Keys of this process alone.
class OwnKeys final : public KeyStore {
 public:
  void publish(const std::string& key, const std::string& value) override {
    MpiEngine::instance().expect_no_end();  // only an abort is published
    const MutexLock lock(mutex_);
    values_.try_emplace(key, value);
  }
  void replace(const std::string& key, const std::string& value) override {
    const MutexLock lock(mutex_);
    values_.insert_or_assign(key, value);
  }
  std::optional<std::string> look_up(const std::string& key) override {
    const MutexLock lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> values_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace

MpiKeys share_keys(Transport& world, int rank, int size, milliseconds patience) {
  static Mutex mutex;
  static std::weak_ptr<KeyConnection> shared;  // the engine keeps it alive, longer than the other ranks' last world
  static int64_t worlds = 0;
  const MutexLock lock(mutex);
  const int64_t number = worlds++;
  if (size == 1) return {std::make_shared<OwnKeys>()};
  if (number == 0) {
    const auto connection =
        std::make_shared<KeyConnection>(rank == 0 ? host_keys(world, size, patience) : reach_keys(world, patience));
    MpiEngine::instance().keep(connection);
    shared = connection;
  }
  const std::shared_ptr<KeyConnection> connection = shared.lock();
  if (!connection || !connection->client) return {std::make_shared<OwnKeys>()};
  return {std::make_shared<SharedKeys>(connection, number), /*are_shared=*/true};
}

}  // namespace trireme
