// This is the only file that includes c10d, because its headers are heavy.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comm/gloo/gloo_transport.h"
#include "comm/gloo/polling_thread.h"
#include "comm/process/frame.h"
#include "comm/rendezvous/key_exchange.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLookInterval{20};
constexpr milliseconds kKeyInterval{5};
constexpr milliseconds kForOthers{500};  // before rank 0, which may keep the keys, ends: to read the cause there
constexpr const char* kTwice = "trireme/twice";  // key of a rank that two processes have
constexpr const char* kSameRank = "another process has the same rank";
constexpr const char* kOwnRank = "give each process a rank of its own";
constexpr double kOtherSeconds = 2;  // for another rank 0 to answer; a program of another kind does not

milliseconds rendezvous_time(const WorldOptions& options) {
  return milliseconds(std::max<int64_t>(1, static_cast<int64_t>(options.rendezvous_seconds * 1000)));
}

std::string place_of(const WorldOptions& options) {
  return options.store_file.empty() ? fmt::format("{}:{}", options.address, options.port) : options.store_file;
}

std::string where_of(const WorldOptions& options) {
  return fmt::format("rank {} of {}, rendezvous at {}", options.rank, options.size, place_of(options));
}

class C10dTransfer final : public Transfer {
 public:
  explicit C10dTransfer(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  bool wait(milliseconds limit) override { return work_->wait(limit); }
  void cancel() override { work_->abort(); }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
};

/// Three connections between each pair of ranks: one for frames, and one for the payloads of each direction. Gloo sends
/// only after the receiver has reported that it is ready, and writes to a connection in order. Over one connection, a
/// rank could not report this while its own payload is being sent, so two ranks that send to each other would take
/// turns.
class C10dTransport final : public Transport {
 public:
  using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
  C10dTransport(Group frames, Group upwards, Group downwards, std::unique_ptr<PollingThread> polling)
      : frames_(std::move(frames)),
        upwards_(std::move(upwards)),
        downwards_(std::move(downwards)),
        polling_(std::move(polling)) {}

  bool waits_for_receivers() const override { return true; }
  void look() override { polling_->look(); }

  std::unique_ptr<Transfer> send(const at::Tensor& contiguous, int to, int tag) override {
    std::vector<at::Tensor> tensors{contiguous};
    return std::make_unique<C10dTransfer>(connection(to > upwards_->getRank(), tag).send(tensors, to, tag));
  }
  std::unique_ptr<Transfer> receive(const at::Tensor& contiguous, int from, int tag) override {
    std::vector<at::Tensor> tensors{contiguous};
    return std::make_unique<C10dTransfer>(connection(from < upwards_->getRank(), tag).recv(tensors, from, tag));
  }

 private:
  c10d::ProcessGroupGloo& connection(bool to_a_higher_rank, int tag) {
    return tag == kFrameTag ? *frames_ : to_a_higher_rank ? *upwards_ : *downwards_;
  }

  const Group frames_, upwards_, downwards_;  // frames; payloads to higher ranks; payloads to lower ranks
  const std::unique_ptr<PollingThread> polling_;
};

class C10dKeys final : public KeyStore {
 public:
  explicit C10dKeys(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void publish(const std::string& key, const std::string& value) override {
    if (store_->add(key + "/claims", 1) == 1) store_->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  }
  void replace(const std::string& key, const std::string& value) override {
    store_->set(key, std::vector<uint8_t>(value.begin(), value.end()));
  }
  std::optional<std::string> look_up(const std::string& key) override {
    if (!store_->check({key})) return std::nullopt;
    const std::vector<uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

/// The endpoint at which this rank reaches the keys. A machine's own name need not resolve to the machine itself.
std::string endpoint_of_keys(const WorldOptions& options) {
  const bool here = options.rank == 0 && !is_loopback(options.address);
  return endpoint_of(here ? "127.0.0.1" : options.address, options.port);
}

/// Returns true if another rank 0 hosts keys where this one was to, with the same token. It and the ranks that wait
/// learn that there are two.
bool tell_other_rank_0(const WorldOptions& options, const CurveKeys& keys) {
  try {
    KeyClient(endpoint_of_keys(options), keys, kOtherSeconds).set(kTwice, std::to_string(options.rank));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<KeyServer> host_keys(const WorldOptions& options, const CurveKeys& keys) {
  try {
    return std::make_unique<KeyServer>(listening_endpoint(options.address, options.port), keys);
  } catch (const Error&) {
    if (!tell_other_rank_0(options, keys)) throw;
  }
  fail_run({.where = where_of(options), .what = kSameRank, .why = "", .next = kOwnRank});
}

/// Keys protected by the token. On rank 0 it also hosts them.
class TokenStore final : public c10d::Store {
 public:
  TokenStore(const WorldOptions& options, milliseconds timeout) : Store(timeout) {
    check_endpoint(endpoint_of(options.address, options.port), /*listens=*/false, !options.token.empty());
    const CurveKeys keys = make_curve_keys(options.token);
    if (options.rank == 0) server_ = host_keys(options, keys);
    client_ = std::make_unique<KeyClient>(endpoint_of_keys(options), keys, double(timeout.count()) / 1000);
  }

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    client_->set(key, {value.begin(), value.end()});
  }
  std::vector<uint8_t> get(const std::string& key) override {
    wait({key});
    const std::string value = client_->get(key).value_or("");
    return {value.begin(), value.end()};
  }
  int64_t add(const std::string& key, int64_t value) override { return client_->add(key, value); }
  bool deleteKey(const std::string& key) override { return client_->remove(key); }
  bool check(const std::vector<std::string>& keys) override { return client_->has(keys); }
  int64_t getNumKeys() override { return client_->count(); }
  /// The client is thread-safe, so a clone is this store. Newer libtorch declares clone(), older does not: no
  /// `override`.
  // NOLINTNEXTLINE(modernize-use-override)
  c10::intrusive_ptr<c10d::Store> clone() { return c10::intrusive_ptr<c10d::Store>::reclaim_copy(this); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const Clock::time_point end = Clock::now() + timeout;
    while (!client_->has(keys)) {
      if (Clock::now() > end) throw std::runtime_error("another rank did not write its key in time");
      std::this_thread::sleep_for(kKeyInterval);
    }
  }

 private:
  std::unique_ptr<KeyServer> server_;
  std::unique_ptr<KeyClient> client_;
};

c10::intrusive_ptr<c10d::Store> open_store(const WorldOptions& options) {
  if (!options.store_file.empty()) {
    auto store = c10::make_intrusive<c10d::FileStore>(options.store_file, options.size);
    store->setTimeout(rendezvous_time(options));
    return store;
  }
  if (!options.store_is_kept) return c10::make_intrusive<TokenStore>(options, rendezvous_time(options));
  c10d::TCPStoreOptions tcp;
  tcp.port = static_cast<uint16_t>(options.port);
  tcp.isServer = false;
  tcp.waitWorkers = false;
  tcp.timeout = rendezvous_time(options);
  auto store = c10::make_intrusive<c10d::TCPStore>(options.address, tcp);
  if (options.store_prefix.empty()) return store;
  return c10::make_intrusive<c10d::PrefixStore>(options.store_prefix, store);
}

std::string arrival_key(int rank) { return fmt::format("trireme/here/{}", rank); }

/// Says that this rank has come. If another process has come with the same rank, tells the waiting ranks and fails.
void arrive(c10d::Store& store, const WorldOptions& options, const std::string& where) {
  if (store.add(arrival_key(options.rank) + "/times", 1) > 1) {
    const std::string rank = std::to_string(options.rank);
    store.set(kTwice, std::vector<uint8_t>(rank.begin(), rank.end()));
    fail_run({.where = where, .what = kSameRank, .why = "", .next = kOwnRank});
  }
  const std::string size = std::to_string(options.size);
  store.set(arrival_key(options.rank), std::vector<uint8_t>(size.begin(), size.end()));
}

/// Fails if a process has come with another's rank: a rank that is missing then would not come.
void check_ranks_differ(c10d::Store& store, const WorldOptions& options, const std::string& where) {
  if (!store.check({kTwice})) return;
  const std::vector<uint8_t> rank = store.get(kTwice);
  if (options.rank == 0) std::this_thread::sleep_for(kForOthers);
  fail_run({.where = where,
            .what = fmt::format("two processes have rank {}", std::string(rank.begin(), rank.end())),
            .why = "",
            .next = kOwnRank});
}

/// Waits until all ranks are there and names the missing ones. c10d's own wait would only report a timeout.
void wait_for_all(c10d::Store& store, const WorldOptions& options) {
  const std::string where = where_of(options);
  arrive(store, options, where);
  const std::string size = std::to_string(options.size);
  const Clock::time_point began = Clock::now();
  bool has_reported = false;
  std::vector<int> missing;
  for (int r = 0; r < options.size; ++r) missing.push_back(r);
  const auto has_come = [&](int r) {
    if (!store.check({arrival_key(r)})) return false;
    const std::vector<uint8_t> theirs = store.get(arrival_key(r));
    if (const std::string ranks(theirs.begin(), theirs.end()); ranks != size)
      fail_run({.where = where,
                .what = fmt::format("rank {} was started as one of {} ranks", r, ranks),
                .why = "",
                .next = "start all ranks with the same number of processes"});
    return true;
  };
  while (true) {
    std::erase_if(missing, has_come);
    if (missing.empty()) return;
    check_ranks_differ(store, options, where);
    const auto waited = Clock::now() - began;
    if (waited > rendezvous_time(options)) {
      fail_run({.where = where,
                .what = fmt::format("rank {} did not arrive", fmt::join(missing, ", ")),
                .why = fmt::format("all ranks must arrive within {} s", options.rendezvous_seconds),
                .next = "look at the end of its output, and check that it was started with the same address and size"});
    }
    if (!has_reported && waited > std::chrono::duration<double>(kReportsWaitAfter)) {
      has_reported = true;
      spdlog::warn("{}: waiting for rank {}", where, fmt::join(missing, ", "));
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

std::shared_ptr<::gloo::transport::Device> open_device(const WorldOptions& options) {
  if (options.interface.empty()) return c10d::ProcessGroupGloo::createDefaultDevice();
  return c10d::ProcessGroupGloo::createDeviceForInterface(options.interface);
}

/// Makes a write to a dead rank an error of that write. By default SIGPIPE would end this process.
void ignore_broken_pipes() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

bool gloo_available() { return true; }

Connections connect_ranks(const WorldOptions& options) {
  ignore_broken_pipes();
  const char* step = "the rendezvous with the other ranks";
  try {
    const auto store = open_store(options);
    wait_for_all(*store, options);
    step = "the connection to the other ranks";
    auto group_options = c10d::ProcessGroupGloo::Options::create(rendezvous_time(options));
    auto polling = std::make_unique<PollingThread>();
    group_options->devices.push_back(open_device(options));
    polling->found();
    group_options->threads = 1;  // for c10d's own collectives, which are not used
    const auto connect = [&](const char* prefix) {
      return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(prefix, store),
                                                         options.rank, options.size, group_options);
    };
    auto frames = connect("gloo/frames"), upwards = connect("gloo/up"), downwards = connect("gloo/down");
    return {std::make_shared<C10dKeys>(store),
            std::make_unique<C10dTransport>(std::move(frames), std::move(upwards), std::move(downwards),
                                            std::move(polling)),
            /*keys_show_life=*/options.store_file.empty()};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail_run({.where = fmt::format("rank {} of {}", options.rank, options.size),
              .what = fmt::format("{} (at {}, interface \"{}\") failed", step, place_of(options), options.interface),
              .why = first_line(error),
              .next = "check address, port and interface, and that the other ranks run"});
  }
}

}  // namespace trireme
